"""The source archive from S3: a real protocol on the loopback, and what networks and S3 do to it."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto.server import ThreadedMotoServer
from s3_proxy import Answer, Proxy

from muster.code import s3
from muster.errors import CodeError

DATA = os.urandom(3_000_000)
SECRET = "canary-secret-4711"
TOKEN = "canary-token-4711"


@pytest.fixture(scope="module")
def server():
    """A stand-in of S3 with one bucket and the archive in it."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    keys = {"aws_access_key_id": "AKIDTEST", "aws_secret_access_key": "x"}
    url = f"http://{host}:{port}"
    client: Any = boto3.client("s3", endpoint_url=url, region_name="us-east-1", **keys)
    client.create_bucket(Bucket="jobs")
    client.put_object(Bucket="jobs", Key="one/sourcedir.tar.gz", Body=DATA)
    client.put_object(Bucket="jobs", Key="odd/a b+c ü?.tar", Body=b"odd")
    yield host, port
    server.stop()


@pytest.fixture
def proxy(server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """The way to it, with this process's environment pointing there."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    proxy = Proxy(server)
    for name, value in {
        "AWS_ENDPOINT_URL": proxy.url,
        "AWS_ACCESS_KEY_ID": "AKIDTEST",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_SESSION_TOKEN": TOKEN,
        "AWS_CONFIG_FILE": str(tmp_path / "none"),
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "none"),
        "AWS_EC2_METADATA_DISABLED": "true",
        "NO_PROXY": "127.0.0.1",
    }.items():
        monkeypatch.setenv(name, value)
    yield proxy
    proxy.close()


@pytest.fixture
def fetch(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    """A function that fetches an address; what it says has no secret, whatever happens."""
    path = tmp_path / "archive"

    def fetch(address: str = "s3://jobs/one/sourcedir.tar.gz", region: str = "us-east-1") -> bytes:
        try:
            s3.fetch(s3.parse(address), region, str(path))
        except CodeError as error:
            said = error.what + error.remedy + capfd.readouterr().err
            assert SECRET not in said
            assert TOKEN not in said
            raise
        return path.read_bytes()

    return fetch


@pytest.mark.usefixtures("proxy")
def test_an_object(fetch, capfd: pytest.CaptureFixture[str]):
    """Byte for byte, with a line that says how much and from where; odd keys are as good."""
    assert fetch() == DATA
    assert "code: 3.0 MB from s3://jobs/one/sourcedir.tar.gz in " in capfd.readouterr().err
    assert fetch("s3://jobs/odd/a b+c ü?.tar") == b"odd"


def test_a_connection_that_breaks_half_way(proxy: Proxy, fetch):
    """It is asked for again, and the archive is whole."""

    def cut(number: int, method: str, answer: Answer) -> None:
        if method == "GET" and number <= 3:
            answer.send_only = len(answer.body) // 2

    proxy.fault = cut
    assert fetch() == DATA
    assert len([line for line in proxy.requests if line.startswith("GET")]) >= 2


def test_a_connection_that_always_breaks(proxy: Proxy, fetch):
    """After five attempts the address is named, and what happened."""

    def cut(_number: int, method: str, answer: Answer) -> None:
        if method == "GET":
            answer.send_only = 1000

    proxy.fault = cut
    with pytest.raises(CodeError, match=r"s3://jobs/one/sourcedir.tar.gz could not be read"):
        fetch()


@pytest.mark.parametrize(("busy", "fails"), [(2, False), (99, True)])
def test_a_busy_s3(proxy: Proxy, fetch, busy: int, *, fails: bool):
    """503 is transient: asked again, and in the end told."""

    def slow_down(number: int, _method: str, answer: Answer) -> None:
        if number <= busy:
            answer.status, answer.body = 503, b""
            answer.headers["Content-Length"] = "0"

    proxy.fault = slow_down
    if fails:
        with pytest.raises(CodeError, match="S3 answered 503"):
            fetch()
    else:
        assert fetch() == DATA


def test_a_slow_download_says_how_far_it_is(
    proxy: Proxy, fetch, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    """Every five seconds; here every fifth of one."""

    def slow(_number: int, method: str, answer: Answer) -> None:
        answer.pause_s = 0.02 if method == "GET" else 0

    proxy.fault = slow
    monkeypatch.setattr(s3, "_REPORT_S", 0.2)
    assert fetch() == DATA
    lines = [
        line for line in capfd.readouterr().err.splitlines() if " of 3 MB of s3://jobs" in line
    ]
    assert lines


@pytest.mark.usefixtures("proxy")
@pytest.mark.parametrize(
    ("address", "what", "remedy"),
    [
        ("s3://jobs/one", "is a prefix, not an object: it holds sourcedir.tar.gz", "/one/source"),
        ("s3://jobs/two.tar.gz", "no object two.tar.gz in the bucket jobs", "deleted"),
        ("s3://nobody/x.tar.gz", "there is no bucket nobody", "name"),
    ],
)
def test_what_is_not_there(fetch, address: str, what: str, remedy: str):
    """A prefix, a key and a bucket are told apart."""
    with pytest.raises(CodeError, match=what) as error:
        fetch(address)
    assert remedy in error.value.remedy


def test_access_denied(proxy: Proxy, fetch):
    """With the caller, and what it would need."""

    def deny(_number: int, method: str, answer: Answer) -> None:
        if method == "HEAD":
            answer.status = 403

    proxy.fault = deny
    with pytest.raises(CodeError, match=r"access denied \(403.*\) to arn:aws:sts") as error:
        fetch()
    assert "s3:GetObject on arn:aws:s3:::jobs/one/sourcedir.tar.gz" in error.value.remedy
    assert "kms:Decrypt" in error.value.remedy


def test_another_region(proxy: Proxy, fetch):
    """301, with the region to set."""

    def redirect(_number: int, _method: str, answer: Answer) -> None:
        answer.status = 301
        answer.headers["x-amz-bucket-region"] = "eu-west-1"

    proxy.fault = redirect
    with pytest.raises(CodeError, match="the bucket is in eu-west-1") as error:
        fetch()
    assert error.value.remedy == "Set AWS_REGION=eu-west-1."


@pytest.mark.usefixtures("proxy")
def test_no_credentials(fetch, monkeypatch: pytest.MonkeyPatch):
    """Said so, with where they come from, and how to do without."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name)
    with pytest.raises(CodeError, match="no AWS credentials were found") as error:
        fetch()
    assert "the job's role" in error.value.remedy
    assert "channel `code`" in error.value.remedy


@pytest.mark.usefixtures("proxy")
def test_an_endpoint_that_is_no_url(fetch, monkeypatch: pytest.MonkeyPatch):
    """It is an error of the code's, with the variables to look at."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", "localhost:9000")
    with pytest.raises(CodeError, match="Invalid endpoint: localhost:9000") as error:
        fetch()
    assert "an endpoint is a URL" in error.value.remedy


@pytest.mark.usefixtures("proxy")
def test_no_way_to_s3(fetch, monkeypatch: pytest.MonkeyPatch):
    """Nobody listens there: within seconds, with the address that was tried and what a VPC needs."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{probe.getsockname()[1]}"
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", url)
    began = time.monotonic()
    with pytest.raises(CodeError, match=f"no way to S3 at {url}") as error:
        fetch()
    assert time.monotonic() - began < 30
    assert "gateway endpoint" in error.value.remedy


@pytest.mark.usefixtures("proxy")
def test_a_file_that_can_not_be_written(tmp_path: Path):
    """No such folder, a full disk: told with the path."""
    address = s3.parse("s3://jobs/one/sourcedir.tar.gz")
    with pytest.raises(CodeError, match=r"can't be written to .*/none/a: No such file"):
        s3.fetch(address, "us-east-1", str(tmp_path / "none" / "a"))


@pytest.mark.parametrize(
    ("address", "bucket", "key"),
    [
        ("s3://b/k", "b", "k"),
        ("S3://b/a/b c.tar.gz", "b", "a/b c.tar.gz"),
        ("s3://b//k", "b", "k"),
        (
            "s3://arn:aws:s3:us-west-2:123456789012:accesspoint/mine/a/k",
            "arn:aws:s3:us-west-2:123456789012:accesspoint/mine",
            "a/k",
        ),
    ],
)
def test_addresses(address: str, bucket: str, key: str):
    """A bucket or an access point, and a key."""
    parsed = s3.parse(address)
    assert (parsed.bucket, parsed.key) == (bucket, key)


@pytest.mark.parametrize("address", ["s3://", "s3://bucket", "s3://bucket/", "s3:///key"])
def test_what_is_no_address(address: str):
    """Refused before anything is asked."""
    with pytest.raises(CodeError, match="is no s3://BUCKET/KEY"):
        s3.parse(address)


@pytest.mark.usefixtures("proxy")
@pytest.mark.parametrize(
    ("region", "variables", "host"),
    [
        ("cn-north-1", {}, "s3.cn-north-1.amazonaws.com.cn"),
        ("us-gov-west-1", {}, "s3.us-gov-west-1.amazonaws.com"),
        ("us-west-2", {"AWS_USE_FIPS_ENDPOINT": "true"}, "s3-fips.us-west-2.amazonaws.com"),
        ("us-east-1", {"AWS_ENDPOINT_URL_S3": "http://127.0.0.1:9"}, "127.0.0.1:9"),
    ],
)
def test_partitions_and_endpoints(
    fetch, region: str, variables: dict[str, str], host: str, monkeypatch: pytest.MonkeyPatch
):
    """boto3 finds the partition's endpoint; here nothing but the loopback answers, and the address is told."""
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    monkeypatch.setenv("HTTPS_PROXY", "http://somebody:canary-secret-4711@127.0.0.1:9")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(CodeError, match="no way to S3 at") as error:
        fetch(region=region)
    assert host in error.value.what
