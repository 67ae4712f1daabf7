"""An HTTP proxy in front of a stand-in of S3 that does to answers what networks and S3 do to them."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Answer:
    """What S3 has said, before it goes on its way."""

    status: int
    headers: dict[str, str]
    body: bytes
    send_only: int | None = None
    """Bytes of the body after which the connection breaks."""
    pause_s: float = 0.0
    """Before every 64 KiB."""


@dataclass
class Proxy:
    """Listens on the loopback. `faults` are tried in order on each request with its number, method and path."""

    target: tuple[str, int]
    fault: Callable[[int, str, Answer], None] = lambda *_: None
    requests: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                proxy.requests.append(f"{self.command} {self.path}")
                answer = proxy.ask(self)
                proxy.fault(len(proxy.requests), self.command, answer)
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                if self.command != "HEAD":
                    self.send_body(answer)

            def send_body(self, answer: Answer) -> None:
                body = answer.body[: answer.send_only]
                for start in range(0, len(body), 65536):
                    time.sleep(answer.pause_s)
                    self.wfile.write(body[start : start + 65536])
                if answer.send_only is not None:
                    self.wfile.flush()
                    self.connection.shutdown(2)
                    self.close_connection = True

            do_GET = do_HEAD = do_POST = answer  # noqa: N815  (the library's names)

            def log_message(self, *_: object) -> None:
                """Nothing: the log is a test's."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"

    def ask(self, request: BaseHTTPRequestHandler) -> Answer:
        """What the target answers to the same request."""
        connection = http.client.HTTPConnection(*self.target, timeout=30)
        length = int(request.headers.get("Content-Length") or 0)
        kept = {name: value for name, value in request.headers.items() if name.lower() != "host"}
        kept["Host"] = f"{self.target[0]}:{self.target[1]}"
        connection.request(request.command, request.path, request.rfile.read(length), kept)
        got = connection.getresponse()
        body = got.read()
        dropped = ("transfer-encoding", "connection", "date", "server")
        headers = {name: value for name, value in got.getheaders() if name.lower() not in dropped}
        if request.command != "HEAD":
            headers["Content-Length"] = str(len(body))
        return Answer(got.status, headers, body)

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
