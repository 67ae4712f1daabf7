"""Tiny packages and an index of them on the loopback, for tests that install something."""

from __future__ import annotations

import base64
import hashlib
import io
import tarfile
import threading
import zipfile
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Self

SETUP = "from setuptools import setup\nsetup(name={name!r}, version={version!r}, py_modules=[])\n"


def make_wheel(
    folder: Path,
    name: str,
    version: str,
    *,
    requires: Sequence[str] = (),
    files: Mapping[str, str] | None = None,
    python: str = "",
) -> Path:
    """A pure wheel in `folder`; without `files` one module of the package's name that knows its version."""
    module = name.replace("-", "_")
    info = f"{module}-{version}.dist-info"
    metadata = [f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"]
    metadata += [f"Requires-Dist: {one}\n" for one in requires]
    metadata += [f"Requires-Python: {python}\n"] if python else []
    texts = dict(files) if files is not None else {f"{module}.py": f"__version__ = {version!r}\n"}
    texts[f"{info}/METADATA"] = "".join(metadata)
    texts[f"{info}/WHEEL"] = (
        "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    )
    record = "".join(
        f"{path},sha256={_digest(text)},{len(text.encode())}\n" for path, text in texts.items()
    )
    texts[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{module}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name_inside, text in texts.items():
            archive.writestr(name_inside, text)
    return path


def make_sdist(folder: Path, name: str, version: str, setup: str = SETUP) -> Path:
    """A source package whose setup.py is `setup`; it is built with what the venv has."""
    base = f"{name}-{version}"
    texts = {
        "setup.py": setup.format(name=name, version=version),
        "PKG-INFO": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
    }
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{base}.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for inside, text in texts.items():
            member = tarfile.TarInfo(f"{base}/{inside}")
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))
    return path


def _digest(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


class Index:
    """A folder of packages as a simple index (PEP 503). A context manager.

    Args:
        folder: with the packages.
        login: `user:password` that every request must have; empty for none.
    """

    def __init__(self, folder: Path, login: str = "") -> None:
        self.requests: list[str] = []
        index = self
        wanted = "Basic " + base64.b64encode(login.encode()).decode() if login else ""

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                index.requests.append(self.path)
                if wanted and self.headers.get("Authorization") != wanted:
                    self.send_response(401)
                    self.send_header("WWW-Authenticate", 'Basic realm="x"')
                    self.end_headers()
                    return
                body = _answer(folder, self.path)
                self.send_response(404 if body is None else 200)
                self.send_header("Content-Type", "text/html")
                self.send_header(
                    "Cache-Control", "max-age=3600" if "/files/" in self.path else "no-store"
                )
                self.end_headers()
                if self.command == "GET":
                    self.wfile.write(body or b"")

            do_HEAD = do_GET  # noqa: N815  (the same)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]
        self._login = f"{login}@" if login else ""

    @property
    def url(self) -> str:
        return f"http://{self._login}127.0.0.1:{self.port}/simple"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def _answer(folder: Path, path: str) -> bytes | None:
    parts = [part for part in path.split("/") if part]
    if len(parts) == 2 and parts[0] == "simple":
        prefix = parts[1].replace("-", "_")
        links = [
            f'<a href="/files/{file.name.replace("+", "%2B")}">{file.name}</a>'
            for file in sorted(folder.iterdir())
            if file.name.lower().startswith((f"{prefix}-", f"{parts[1]}-"))
        ]
        return "\n".join(links).encode() if links else None
    file = folder / parts[-1].replace("%2B", "+") if parts else folder
    return file.read_bytes() if file.is_file() else None
