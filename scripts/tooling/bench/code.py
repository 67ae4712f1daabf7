"""How fast a job's code arrives: 200 MB from a server on this machine, beside `aws s3 cp` and tar."""

from __future__ import annotations

import base64
import contextlib
import functools
import io
import os
import random
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from tooling.images import ROOT
from tooling.machine import ScriptError, act

AWS = "awscli==1.46.3"
ADDRESS = "s3://bucket/job/source/sourcedir.tar.gz"
SIZES = (2_000, 20_000, 200_000, 2_000_000, 20_000_000)
SERVER = Path(__file__).parent / "store.py"
ARRIVE = """
import sys
from muster.code import s3, unpack
s3.fetch(s3.parse(sys.argv[1]), "us-east-1", sys.argv[2] + "/archive")
unpack.unpack(sys.argv[2] + "/archive", sys.argv[2] + "/code")
"""
LIMIT_S = 300
BLOCK = 1024 * 1024


def seconds(name: str, archive: int) -> dict[str, float]:
    """Fetch and unpack once: by the AWS CLI and tar, or by muster. Raises ScriptError. Effects: processes, files."""
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as folder, served(archive) as env:
        bare = throw_away(env["AWS_ENDPOINT_URL_S3"])
        copy = (str(cli()), "s3", "cp", "--quiet") if name != "muster" else ()
        os.sync()  # what an earlier run has left to write is not this one's
        began = time.monotonic()
        if name == "muster":
            run(env, sys.executable, "-c", ARRIVE, ADDRESS, folder)
        else:
            run(env, *copy, ADDRESS, f"{folder}/archive")
            run(env, "tar", "-xzf", f"{folder}/archive", "-C", folder)
        return {"code": time.monotonic() - began, "code_server": bare}


def run(env: Mapping[str, str], *words: str) -> None:
    """Run a program to its end. Raises ScriptError. Effects: the program's."""
    done = subprocess.run(
        words, env=dict(env), capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    if done.returncode:
        raise ScriptError(f"{words[0]}: status {done.returncode}: {done.stderr[-500:]}")


@functools.cache
def cli() -> Path:
    """Return the AWS CLI, in a venv of its own. Raises ScriptError. Effects: a venv in build/; a package index."""
    venv = ROOT / "build" / f"bench-{AWS.replace('==', '-')}"
    aws = venv / "bin" / "aws"
    if not aws.exists():
        act(sys.executable, "-m", "venv", str(venv), timeout=120, quiet=True)
        act(str(venv / "bin" / "pip"), "install", "--quiet", AWS, timeout=300, quiet=True)
    return aws


@functools.cache
def packed(size: int) -> Path:
    """Return an archive of about so many bytes: files of 3 KB to 27 MB of text. Effects: a file in build/."""
    path = ROOT / "build" / f"bench-code-{size}.tar.gz"
    if path.exists():
        return path
    path.parent.mkdir(exist_ok=True)
    draw = random.Random(1)  # noqa: S311  (the same archive everywhere)
    partial = path.with_suffix(".partial")
    with tarfile.open(partial, "w:gz", compresslevel=1) as archive:
        written = 0
        while written < size:
            count = min(draw.choice(SIZES), size - written)
            # As base64 it takes a third more, which gzip takes away again.
            text = base64.b64encode(draw.randbytes(count))
            member = tarfile.TarInfo(f"data/{written:012}.txt")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text))
            written += count
    shutil.move(partial, path)
    return path


@contextlib.contextmanager
def served(size: int) -> Iterator[dict[str, str]]:
    """Serve the archive; yields the variables of a client. Effects: a process with a port of the loopback."""
    path = packed(size)
    path.read_bytes()  # into the disk's cache, for all alike
    with subprocess.Popen(
        [sys.executable, str(SERVER), str(path)], stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            port = server.stdout.readline().strip() if server.stdout else ""
            yield {
                **{k: v for k, v in os.environ.items() if not k.startswith("AWS_")},
                "AWS_ENDPOINT_URL_S3": f"http://127.0.0.1:{port}",
                "AWS_ACCESS_KEY_ID": "none",
                "AWS_SECRET_ACCESS_KEY": "none",
                "AWS_REGION": "us-east-1",
                "AWS_EC2_METADATA_DISABLED": "true",
                "NO_PROXY": "127.0.0.1",
            }
        finally:
            server.kill()


def throw_away(url: str) -> float:
    """Return how many seconds one plain client takes to read it all. Effects: network."""
    import http.client  # noqa: PLC0415  (what muster and the CLI use is not this)

    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=LIMIT_S)
    began = time.monotonic()
    connection.request("GET", "/bucket/any")
    answer = connection.getresponse()
    block = bytearray(BLOCK)
    while answer.readinto(block):
        pass
    connection.close()
    return time.monotonic() - began
