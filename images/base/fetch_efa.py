"""Fetches EFA's installer, from a folder or AWS's own address, and unpacks it once checksum and signature are right.

Source: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-verify.html. A folder has three files, as that address has
them: aws-efa-installer-VERSION.tar.gz, the same with .sig, and aws-efa-installer.key.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import urllib.request
from pathlib import Path

KEY = "aws-efa-installer.key"
STAND_IN = "aws-efa-installer/STAND-IN"
ASKED = ("yes", "no", "stand-in")
TIMEOUT_S = 60.0


class BuildError(Exception):
    """The installer can't be used; the message says why and what to do."""


def fetch(name: str, folder: Path, url: str, into: Path) -> Path:
    """Return the file, out of the folder or else the network. Raises BuildError. Effects: a file in `into`."""
    if (folder / name).is_file():
        return folder / name
    try:
        with (
            urllib.request.urlopen(f"{url}/{name}", timeout=TIMEOUT_S) as answer,  # noqa: S310
            (into / name).open("wb") as file,
        ):
            shutil.copyfileobj(answer, file)
    except (OSError, ValueError) as error:
        remedy = "hand over a folder that has it (MUSTER_EFA_FOLDER with scripts/images), or build without: MUSTER_EFA=no"
        raise BuildError(f"{url}/{name} can't be fetched: {error}; {remedy}") from error
    return into / name


def check_sum(tarball: Path, wanted: str) -> None:
    """Compare the file's SHA-256. Raises BuildError. Effects: reads it."""
    if not wanted:
        raise BuildError("no SHA-256 is known for this version of EFA: set MUSTER_EFA_SHA256")
    digest = hashlib.sha256()
    with tarball.open("rb") as file:
        while block := file.read(2**20):  # the real one has 650 MB
            digest.update(block)
    found = digest.hexdigest()
    if found != wanted.lower():
        raise BuildError(
            f"{tarball.name} has SHA-256 {found}, not {wanted} as docker-bake.hcl says"
        )


def dearmor(key: bytes) -> bytes:
    """Return a public key's bytes; gpgv reads no text (RFC 9580, section 6.2). Pure."""
    block = re.search(
        rb"-----BEGIN PGP PUBLIC KEY BLOCK-----(.*?)\n=?\S*\n?-----END", key, re.DOTALL
    )
    if not block:
        return key
    body = block[1].replace(b"\r", b"").split(b"\n\n", 1)[1]
    lines = [line for line in body.split(b"\n") if not line.startswith(b"=")]
    return base64.b64decode(b"".join(lines))


def check_signature(tarball: Path, signature: Path, key: Path, fingerprint: str) -> None:
    """Verify the signature, and that the known key made it. Raises BuildError. Effects: runs gpgv."""
    if not shutil.which("gpgv"):
        raise BuildError("the base has no gpgv to check EFA's signature: add it to the base")
    with tempfile.TemporaryDirectory() as home:
        ring = Path(home, "key.gpg")
        ring.write_bytes(dearmor(key.read_bytes()))
        command = ["gpgv", "--homedir", home, "--keyring", str(ring), "--status-fd", "1"]
        done = subprocess.run(
            [*command, str(signature), str(tarball)], capture_output=True, text=True, check=False
        )
    valid = re.search(r"^\[GNUPG:\] VALIDSIG (.+)$", done.stdout, re.MULTILINE)
    if done.returncode or not valid:
        raise BuildError(f"the signature of {tarball.name} is not right: {done.stderr.strip()}")
    # The line ends with the primary key's fingerprint; a subkey may have signed.
    signer = valid[1].split()[-1]
    if signer != fingerprint.replace(" ", "").upper():
        raise BuildError(f"{tarball.name} is signed by {signer}, not by {fingerprint}")


def unpack(tarball: Path, into: Path, told: str, version: str) -> None:
    """Unpack, once the label tells whether it is the real one. Raises BuildError. Effects: files in `into`."""
    with tarfile.open(tarball) as archive:
        stand_in = STAND_IN in archive.getnames()
        if stand_in != (told == "stand-in"):
            holds = "a stand-in" if stand_in else "the real EFA"
            raise BuildError(f"{tarball.name} is {holds}, but the image would say {told}")
        archive.extractall(into)  # noqa: S202  (checksum and signature are right)
    facts = {"installer": version, "stand_in": stand_in}
    (into / "efa.json").write_text(json.dumps(facts), encoding="utf-8")


def main(argv: list[str]) -> int:
    """Fetch, check and unpack; 0 when it is there, or none is wanted. Effects: as above."""
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "--efa", required=True, help="what the image's label says: none, stand-in or a version"
    )
    parser.add_argument("--asked", default="yes", help="MUSTER_EFA as it was given")
    parser.add_argument("--version", required=True)
    parser.add_argument("--sha256", default="")
    parser.add_argument(
        "--fingerprint", default="", help="of the key; empty: no signature is asked for"
    )
    parser.add_argument("--url", required=True)
    parser.add_argument("--folder", type=Path, default=Path("/mnt/efa"))
    parser.add_argument("--into", type=Path, default=Path("/installer"))
    options = parser.parse_args(argv)
    options.into.mkdir(parents=True, exist_ok=True)
    if options.asked not in ASKED:
        print(f"muster: MUSTER_EFA={options.asked} is none of {', '.join(ASKED)}", file=sys.stderr)
        return 1
    if options.efa == "none":
        return 0
    try:
        with tempfile.TemporaryDirectory() as scratch:
            name = f"aws-efa-installer-{options.version}.tar.gz"
            where = (options.folder, options.url, Path(scratch))
            tarball = fetch(name, *where)
            check_sum(tarball, options.sha256)
            if options.fingerprint:
                signature, key = fetch(f"{name}.sig", *where), fetch(KEY, *where)
                check_signature(tarball, signature, key, options.fingerprint)
            unpack(tarball, options.into, options.efa, options.version)
    except (BuildError, tarfile.TarError) as error:
        print(f"muster: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
