"""A stand-in of S3 with one bucket, spoken to by real HTTP at an address of this machine."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping
from typing import Any, Self

import boto3
from moto.server import ThreadedMotoServer

BUCKET = "my-bucket"


def pack(files: Mapping[str, str], mode: str = "w:gz") -> bytes:
    """An archive of files, by their names and texts."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode=mode) as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))
    return packed.getvalue()


class Store:
    """The stand-in. A context manager."""

    def __init__(self, address: str = "127.0.0.1") -> None:
        self.server = ThreadedMotoServer(ip_address=address, port=0, verbose=False)

    def __enter__(self) -> Self:
        self.server.start()
        self.host, self.port = self.server.get_host_and_port()
        self.url = f"http://{self.host}:{self.port}"
        keys = {"aws_access_key_id": "AKIDTEST", "aws_secret_access_key": "canary-secret"}
        self.client: Any = boto3.client(
            "s3", endpoint_url=self.url, region_name="us-east-1", **keys
        )
        self.client.create_bucket(Bucket=BUCKET)
        return self

    def __exit__(self, *_: object) -> None:
        self.server.stop()

    def put(self, key: str, data: bytes) -> str:
        """The address of an object with this content."""
        self.client.put_object(Bucket=BUCKET, Key=key, Body=data)
        return f"s3://{BUCKET}/{key}"

    @property
    def env(self) -> dict[str, str]:
        """What a job needs to reach it; the secrets are there to be looked for."""
        return {
            "AWS_ENDPOINT_URL_S3": self.url,
            "AWS_ACCESS_KEY_ID": "AKIDTEST",
            "AWS_SECRET_ACCESS_KEY": "canary-secret",
            "AWS_SESSION_TOKEN": "canary-token",
            "AWS_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
            "NO_PROXY": self.host,
        }
