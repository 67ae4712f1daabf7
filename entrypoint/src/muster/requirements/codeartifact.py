"""The index of an AWS CodeArtifact repository, with a token for it. Effects: network.

boto3 is imported where a job names a repository: that takes half a second.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

from muster.errors import RequirementsError

_CONNECT_S, _READ_S, _ATTEMPTS = 3, 5, 2
_ARN = re.compile(
    r"arn:(?P<partition>aws[a-z-]*):codeartifact:(?P<region>[a-z0-9-]+):(?P<owner>\d{12})"
    r":repository/(?P<domain>[^/\s]+)/(?P<name>[^/\s]+)"
)
_RIGHTS = (
    "The role needs codeartifact:GetAuthorizationToken, codeartifact:GetRepositoryEndpoint, "
    "codeartifact:ReadFromRepository and sts:GetServiceBearerToken."
)


@dataclass(frozen=True)
class Repository:
    """What an ARN names."""

    region: str
    owner: str
    domain: str
    name: str


def parse(arn: str) -> Repository:
    """The repository of an ARN. Raises RequirementsError. Pure."""
    found = _ARN.fullmatch(arn.strip())
    if not found:
        what = f"CA_REPOSITORY_ARN={arn!r} names no repository"
        form = "arn:aws:codeartifact:REGION:ACCOUNT:repository/DOMAIN/REPOSITORY"
        raise RequirementsError(what, f"It has the form {form}.")
    return Repository(found["region"], found["owner"], found["domain"], found["name"])


def index_url(arn: str, learn: Callable[[str], None]) -> str:
    """The URL of the repository as pip's index, with a token in it.

    Args:
        arn: the repository's.
        learn: is told the token, so that it is hidden.

    Raises:
        RequirementsError: there is no token to be had. No text has a credential.
    """
    import boto3  # noqa: PLC0415  (half a second, for few jobs)
    from botocore.config import Config  # noqa: PLC0415
    from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415

    repository = parse(arn)
    retries = {"mode": "standard", "total_max_attempts": _ATTEMPTS}
    config = Config(connect_timeout=_CONNECT_S, read_timeout=_READ_S, retries=retries)
    domain = {"domain": repository.domain, "domainOwner": repository.owner}
    try:
        session = boto3.Session(region_name=repository.region)
        client = session.client("codeartifact", config=config)
        token = str(client.get_authorization_token(**domain)["authorizationToken"])
        learn(token)
        answer = client.get_repository_endpoint(**domain, repository=repository.name, format="pypi")
    except ClientError as error:
        raise _answered(arn, error.response) from None
    except (BotoCoreError, ValueError) as error:
        raise _not_answered(arn, error) from None
    parts = urlsplit(str(answer["repositoryEndpoint"]))
    path = parts.path.rstrip("/")
    return f"{parts.scheme}://aws:{quote(token, safe='')}@{parts.netloc}{path}/simple/"


def _answered(arn: str, response: dict[str, Any]) -> RequirementsError:
    code = str(response["Error"].get("Code", ""))
    status = response["ResponseMetadata"].get("HTTPStatusCode", "")
    what = f"CodeArtifact refuses a token for {arn}: {status} {code}"
    if code == "ResourceNotFoundException":
        return RequirementsError(
            what, "There is no such domain or repository in that account and region."
        )
    return RequirementsError(what, _RIGHTS)


def _not_answered(arn: str, error: Exception) -> RequirementsError:
    name = type(error).__name__
    if "Credential" in name or name == "TokenRetrievalError":
        what = f"no AWS credentials were found for {arn} ({name})"
        return RequirementsError(what, "On SageMaker the job's role has them. " + _RIGHTS)
    if isinstance(error, ValueError):
        what = f"CodeArtifact can't be asked for {arn}: {error}"
        return RequirementsError(what, "An endpoint in AWS_ENDPOINT_URL is a URL.")
    asked = urlsplit(str(getattr(error, "kwargs", {}).get("endpoint_url", "")))
    place = f" at {asked.scheme}://{asked.netloc.rpartition('@')[2]}" if asked.netloc else ""
    what = f"no way to CodeArtifact{place} for {arn}: {name}"
    remedy = (
        "In a VPC without a way out it needs two interface endpoints, codeartifact.api and "
        "codeartifact.repositories, and S3's gateway. Without any way, a folder wheels/ beside the file."
    )
    return RequirementsError(what, remedy)
