"""CodeArtifact's answers over HTTP on the loopback, where no stand-in of AWS has that service."""

import json
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest

from muster.errors import RequirementsError
from muster.requirements.codeartifact import Repository, index_url, parse

ARN = "arn:aws:codeartifact:eu-west-1:111122223333:repository/my-domain/my-repo"
TOKEN = "eyJ2ZXIiOjF9/+token=="


@dataclass
class Service:
    """What it answers, and what it was asked."""

    status: int = 200
    code: str = ""
    asked: list[tuple[str, dict[str, list[str]]]] = field(default_factory=list)
    port: int = 0


@pytest.fixture
def service(monkeypatch, tmp_path) -> Iterator[Service]:
    """Yield a stand-in of the service, to which this process's environment leads."""
    state = Service()

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            parts = urlsplit(self.path)
            state.asked.append((parts.path, parse_qs(parts.query)))
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            place = "https://my-domain-111122223333.d.codeartifact.eu-west-1.amazonaws.com/pypi/my-repo/"
            body = {"authorizationToken": TOKEN, "repositoryEndpoint": place, "message": "no"}
            self.send_response(state.status)
            self.send_header("Content-Type", "application/json")
            self.send_header("x-amzn-ErrorType", state.code)
            self.end_headers()
            self.wfile.write(json.dumps(body).encode())

        do_GET = do_POST = answer  # noqa: N815  (http.server's names)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.port = server.server_address[1]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in {
        "AWS_ENDPOINT_URL_CODEARTIFACT": f"http://127.0.0.1:{state.port}",
        "AWS_ACCESS_KEY_ID": "AKIDTEST",
        "AWS_SECRET_ACCESS_KEY": "canary-secret-4711",
        "AWS_CONFIG_FILE": str(tmp_path / "none"),
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "none"),
        "AWS_EC2_METADATA_DISABLED": "true",
        "NO_PROXY": "127.0.0.1",
    }.items():
        monkeypatch.setenv(name, value)
    yield state
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("partition", ["aws", "aws-cn", "aws-us-gov"])
def test_an_arn(partition: str):
    """Region, account, domain and repository are in the ARN, in every partition."""
    found = parse(ARN.replace("arn:aws:", f"arn:{partition}:"))
    assert found == Repository("eu-west-1", "111122223333", "my-domain", "my-repo")


@pytest.mark.parametrize("arn", ["my-repo", ARN.replace("codeartifact", "s3"), f"{ARN}/x"])
def test_what_is_no_arn(arn: str):
    """Anything else is told, with the form."""
    with pytest.raises(RequirementsError) as caught:
        parse(arn)
    assert "names no repository" in caught.value.what
    assert "repository/DOMAIN/REPOSITORY" in caught.value.remedy


def test_an_index_with_a_token(service: Service):
    """The repository's endpoint becomes an index with the token as its password, which is learnt."""
    learnt: list[str] = []
    assert index_url(ARN, learnt.append) == (
        "https://aws:eyJ2ZXIiOjF9%2F%2Btoken%3D%3D@"
        "my-domain-111122223333.d.codeartifact.eu-west-1.amazonaws.com/pypi/my-repo/simple/"
    )
    assert learnt == [TOKEN]
    (first, token), (second, endpoint) = service.asked
    assert (first, second) == ("/v1/authorization-token", "/v1/repository/endpoint")
    assert token == {"domain": ["my-domain"], "domain-owner": ["111122223333"]}
    assert endpoint == token | {"repository": ["my-repo"], "format": ["pypi"]}


@pytest.mark.parametrize(
    ("status", "code", "remedy"),
    [
        (403, "AccessDeniedException", "sts:GetServiceBearerToken"),
        (404, "ResourceNotFoundException", "no such domain or repository"),
    ],
)
def test_no_token(service: Service, status: int, code: str, remedy: str):
    """A refusal is told with the right that is missing, and without any credential."""
    service.status, service.code = status, code
    with pytest.raises(RequirementsError) as caught:
        index_url(ARN, lambda _: None)
    assert caught.value.what == f"CodeArtifact refuses a token for {ARN}: {status} {code}"
    assert remedy in caught.value.remedy
    assert "canary" not in caught.value.what + caught.value.remedy


def test_no_way(service: Service, monkeypatch):
    """Without a way to it the endpoint is named, within seconds, and what a VPC needs."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_CODEARTIFACT", "http://127.0.0.1:9")
    began = time.monotonic()
    with pytest.raises(RequirementsError) as caught:
        index_url(ARN, lambda _: None)
    assert time.monotonic() - began < 20
    assert caught.value.what.startswith("no way to CodeArtifact at http://127.0.0.1:9 for arn:")
    assert "codeartifact.repositories" in caught.value.remedy
    assert not service.asked


def test_no_credentials(service: Service, monkeypatch):
    """Missing credentials are told as that."""
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(RequirementsError, match="no AWS credentials were found for arn:"):
        index_url(ARN, lambda _: None)
    assert not service.asked


@pytest.mark.usefixtures("service")
def test_pip_gets_it_as_a_variable(host, index, monkeypatch):
    """Pip asks the repository, with the token in its environment and on no command line."""
    seen: list[tuple[str, str]] = []

    def instead(arn: str, learn) -> str:
        assert arn == ARN
        learn("hunter2-secret")
        return index.url

    monkeypatch.setattr("muster.requirements.codeartifact.index_url", instead)
    from muster.requirements.programs import Programs  # noqa: PLC0415  (this test's alone)

    class Seen(Programs):
        def run(self, argv, env, *rest):
            seen.append((" ".join(argv), env.get("PIP_INDEX_URL", "")))
            return super().run(argv, env, *rest)

    host.ask("small")
    host.install(Seen(), CA_REPOSITORY_ARN=ARN, PIP_INDEX_URL="http://127.0.0.1:9/simple")
    assert host.version("small") == "2.0"
    assert index.url in [url for _, url in seen]
    assert not any("hunter2" in words for words, _ in seen)
