"""Fetches the source archive from S3, once a host. Effects: network, a file.

boto3 does the work: its chain of credentials, its regions, partitions and endpoints (AWS_ENDPOINT_URL_S3,
AWS_USE_FIPS_ENDPOINT), proxies and AWS_CA_BUNDLE. Here is what it says when it can't, in words that lead on.
It is imported where an address needs it: that takes half a second.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from muster.errors import CodeError
from muster.log import say

_CONNECT_S, _READ_S, _ATTEMPTS = 5, 20, 5
_REPORT_S = 5.0
"""How often a long download says how far it is."""
_MB = 1_000_000
_INSTEAD = (
    "Where there is no way to S3, the code can be in the channel `code` "
    "(an Estimator's enable_network_isolation, a ModelTrainer's source_code) or in the image."
)


@dataclass(frozen=True)
class Address:
    """An object's place; `bucket` may be the ARN of an access point."""

    bucket: str
    key: str

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.key}"


def parse(address: str) -> Address:
    """The bucket and key of an s3:// address. Raises CodeError. Pure."""
    pattern = r"s3://(arn:[^/]+:accesspoint[:/][^/]+|[^/]+)/+(.+)"
    found = re.fullmatch(pattern, address, re.IGNORECASE | re.DOTALL)
    if not found:
        what = f"the submit directory {address!r} is no s3://BUCKET/KEY"
        raise CodeError(what, "It names one object, the archive: s3://bucket/job/sourcedir.tar.gz.")
    return Address(found[1], found[2])


def fetch(address: Address, region: str, path: str) -> None:
    """Writes the object to `path`.

    Args:
        address: the object.
        region: where to ask first; empty for boto3's own choice.
        path: a file that does not exist.

    Raises:
        CodeError: it can't be had, with the bucket, the key and the likely cause. No text has a credential.
    """
    import boto3  # noqa: PLC0415  (half a second, for few jobs)
    from boto3.exceptions import RetriesExceededError, S3TransferFailedError  # noqa: PLC0415
    from botocore.config import Config  # noqa: PLC0415
    from botocore.exceptions import (  # noqa: PLC0415
        BotoCoreError,
        ClientError,
        HTTPClientError,
    )
    from botocore.exceptions import ConnectionError as NoConnectionError  # noqa: PLC0415

    retries = {"mode": "standard", "total_max_attempts": _ATTEMPTS}
    config = Config(connect_timeout=_CONNECT_S, read_timeout=_READ_S, retries=retries)
    try:
        session = boto3.Session(region_name=region or None)
        client = session.client("s3", config=config)
        size = client.head_object(Bucket=address.bucket, Key=address.key)["ContentLength"]
        progress = _Progress(address, size)
        _apart(lambda: client.download_file(address.bucket, address.key, path, Callback=progress))
        progress.done()
    except ClientError as error:
        raise _answered(address, session, client, error.response) from None
    except (HTTPClientError, NoConnectionError) as error:
        raise _no_way(address, client, error) from None
    except (RetriesExceededError, S3TransferFailedError) as error:
        what = f"{address} could not be read to its end: {error}"
        raise CodeError(what, "The connection broke again and again.") from None
    except (BotoCoreError, ValueError) as error:
        raise _not_asked(address, error) from None
    except OSError as error:
        what = f"{address} can't be written to {path}: {error.strerror or error}"
        raise CodeError(
            what, "A larger volume (volume_size), or a folder that is writable."
        ) from None


def _apart(work: Callable[[], None]) -> None:
    """Runs it in a thread of its own: a signal then ends the wait at once, not when the last read times out."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001  (raised again by who waits)
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]


class _Progress:
    """Counts what has come in; several threads call it."""

    def __init__(self, address: Address, size: int) -> None:
        self._address, self._size, self._got = address, size, 0
        self._lock = threading.Lock()
        self._began = self._said = time.monotonic()

    def __call__(self, count: int) -> None:
        with self._lock:
            self._got += count
            now = time.monotonic()
            if now - self._said < _REPORT_S:
                return
            self._said = now
            say(f"code: {self._got / _MB:.0f} of {self._size / _MB:.0f} MB of {self._address}")

    def done(self) -> None:
        seconds = time.monotonic() - self._began
        say(f"code: {self._size / _MB:.1f} MB from {self._address} in {seconds:.1f} s")


def _answered(address: Address, session: Any, client: Any, response: dict[str, Any]) -> CodeError:
    """S3 has answered, and said no."""
    code = str(response["Error"].get("Code", ""))
    status = int(response["ResponseMetadata"].get("HTTPStatusCode", 0))
    if status == 404:  # noqa: PLR2004  (HTTP's own numbers)
        return _missing(address, client)
    if status == 403:  # noqa: PLR2004
        return _denied(address, session, code)
    if status in (301, 307):
        return _elsewhere(address, client, response)
    if status >= 500 or code in ("SlowDown", "Throttling", "RequestTimeout"):  # noqa: PLR2004
        what = f"{address}: S3 answered {status} {code} in {_ATTEMPTS} attempts"
        return CodeError(what, "S3 is overloaded or out of order: try again later.")
    what = f"{address}: S3 answered {status} {code}".rstrip()
    return CodeError(what, "Expired credentials and a wrong region are the usual causes.")


def _missing(address: Address, client: Any) -> CodeError:
    """No such object: perhaps a prefix, or no such bucket."""
    from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415

    prefix = address.key.rstrip("/") + "/"
    try:
        listed = client.list_objects_v2(Bucket=address.bucket, Prefix=prefix, MaxKeys=3)
    except ClientError as error:
        if error.response["Error"].get("Code") == "NoSuchBucket":
            what = f"there is no bucket {address.bucket} ({address})"
            return CodeError(what, "Look at the bucket's name, and at the account.")
        listed = {}
    except BotoCoreError:
        listed = {}
    found = [item["Key"].removeprefix(prefix) for item in listed.get("Contents", ())]
    if found:
        what = f"{address} is a prefix, not an object: it holds {', '.join(found)}"
        return CodeError(what, f"Name the archive itself, as {address}/sourcedir.tar.gz.")
    what = f"there is no object {address.key} in the bucket {address.bucket}"
    return CodeError(what, "Was it deleted, or does the address belong to another job?")


def _denied(address: Address, session: Any, code: str) -> CodeError:
    who = _caller(session)
    what = f"{address}: access denied (403 {code})" + (f" to {who}" if who else "")
    if code in ("ExpiredToken", "InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken"):
        return CodeError(what, "The credentials themselves are wrong or have expired.")
    remedy = (
        f"The role needs s3:GetObject on arn:aws:s3:::{address.bucket}/{address.key}, and kms:Decrypt where the bucket "
        "has a key of its own. Without s3:ListBucket S3 says 403 also for an object that does not exist. "
        "A policy of the bucket, or of a VPC endpoint, may refuse, too."
    )
    return CodeError(what, remedy)


def _caller(session: Any) -> str:
    """The role or user whose credentials these are; empty where nobody tells."""
    from botocore.config import Config  # noqa: PLC0415

    config = Config(connect_timeout=2, read_timeout=2, retries={"total_max_attempts": 1})
    try:
        arn = str(session.client("sts", config=config).get_caller_identity()["Arn"])
    except Exception:  # noqa: BLE001  (only a better message hangs on it)
        return ""
    role = re.fullmatch(r"arn:[^:]+:sts::\d+:assumed-role/([^/]+)/.*", arn)
    return f"the role {role[1]}" if role else arn


def _elsewhere(address: Address, client: Any, response: dict[str, Any]) -> CodeError:
    headers = response["ResponseMetadata"].get("HTTPHeaders", {})
    region = headers.get("x-amz-bucket-region") or response["Error"].get("Region") or ""
    here = client.meta.region_name
    what = f"{address}: the bucket is in {region or 'another region'}, and was asked for in {here}"
    return CodeError(what, f"Set AWS_REGION={region or 'the region of the bucket'}.")


def _no_way(address: Address, client: Any, error: Exception) -> CodeError:
    """Nobody has answered."""
    asked = getattr(error, "kwargs", {})
    where = _without_path(asked.get("endpoint_url") or client.meta.endpoint_url)
    name = type(error).__name__
    what = f"{address}: no way to S3 at {where}: {name}"
    if proxy := asked.get("proxy_url"):
        what += f" (the proxy {_without_path(proxy)})"
    if "SSL" in name:
        return CodeError(what, "A proxy with a certificate of its own: AWS_CA_BUNDLE names its CA.")
    remedy = "In a VPC without a way out S3 needs a gateway endpoint; a proxy, HTTPS_PROXY. "
    return CodeError(what, remedy + _INSTEAD)


def _without_path(url: str) -> str:
    """Scheme, host and port of a URL: what stands before and behind them may be private."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def _not_asked(address: Address, error: Exception) -> CodeError:
    """boto3 could not even ask."""
    name = type(error).__name__
    if "Credential" in name or name == "TokenRetrievalError":
        what = f"{address}: no AWS credentials were found ({name})"
        remedy = "On SageMaker the job's role has them; for `docker run` hand over AWS_ACCESS_KEY_ID and the like. "
        return CodeError(what, remedy + _INSTEAD)
    return CodeError(
        f"{address}: {name}: {error}",
        "Look at the AWS_ variables of the container; an endpoint is a URL.",
    )
