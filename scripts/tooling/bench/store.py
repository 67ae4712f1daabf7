"""A server of one file that speaks as much of S3 as downloads need. Run as a program: FILE, then it prints its port.

The file goes from the disk's cache to the socket by sendfile, so that clients are what is measured.
"""

from __future__ import annotations

import os
import re
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

RANGE = re.compile(r"bytes=(\d+)-(\d*)")


class Handler(BaseHTTPRequestHandler):
    """Answers HEAD and GET, with or without a range, for whatever key is asked."""

    protocol_version = "HTTP/1.1"
    path_of_file = Path()

    def do_HEAD(self) -> None:
        """Answer with the size."""
        self._begin()

    def do_GET(self) -> None:
        """Answer with the bytes that were asked for."""
        start, count = self._begin()
        self.wfile.flush()
        with self.path_of_file.open("rb") as file:
            while count:
                sent = os.sendfile(self.connection.fileno(), file.fileno(), start, count)
                start, count = start + sent, count - sent

    def _begin(self) -> tuple[int, int]:
        size = self.path_of_file.stat().st_size
        asked = RANGE.fullmatch(self.headers.get("Range", ""))
        first = int(asked[1]) if asked else 0
        last = min(int(asked[2]), size - 1) if asked and asked[2] else size - 1
        self.send_response(206 if asked else 200)
        if asked:
            self.send_header("Content-Range", f"bytes {first}-{last}/{size}")
        self.send_header("Content-Length", str(last + 1 - first))
        self.send_header("ETag", '"0123456789abcdef0123456789abcdef"')
        self.send_header("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")
        self.end_headers()
        return first, last + 1 - first

    def log_message(self, *_: object) -> None:
        """Say nothing: requests are no news."""


if __name__ == "__main__":
    Handler.path_of_file = Path(sys.argv[1])
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        print(server.server_port, flush=True)
        server.serve_forever()
