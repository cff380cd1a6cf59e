"""A server that understands every method, redirects, fails on request, and keeps what it received.

It is the standard library's, and shares no code with the project.
"""

import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self

BODY = b"xxxxx"


@dataclass(frozen=True)
class Received:
    """A request."""

    method: str
    path: str
    fields: dict[str, str]
    body: bytes


class MethodsServer:
    """Serves from the moment it is made until the end of a `with` block.

    `/error` is a 500, `/broken` closes the connection without a reply, `/303` and the like lead to `/x`, `/to/URL`
    leads to a URL, and everything else is five bytes.

    Args:
        delay: seconds before each reply.
    """

    def __init__(self, delay: float = 0) -> None:
        self.received: list[Received] = []
        self.connections = 0
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def setup(self) -> None:
                owner.connections += 1
                super().setup()

            def log_message(self, *_arguments: object) -> None:
                """Says nothing."""

            def answer(self) -> None:
                """To any method."""
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                fields = {name.lower(): value for name, value in self.headers.items()}
                owner.received.append(Received(self.command, self.path, fields, body))
                time.sleep(delay)
                if self.path == "/broken":
                    self.connection.shutdown(socket.SHUT_RDWR)
                    self.close_connection = True
                    return
                status, location = outcome_of(self.path)
                self.send_response(status)
                if location:
                    self.send_header("Location", location)
                self.send_header("Content-Length", str(len(BODY)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(BODY)

            def __getattr__(self, name: str) -> Callable[[], None]:
                # The base class looks for `do_GET` and the like.
                if name.startswith("do_"):
                    return self.answer
                raise AttributeError(name)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), name="methods-server")
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def outcome_of(path: str) -> tuple[int, str | None]:
    """Status, and where a redirect leads."""
    if path == "/error":
        return 500, None
    if path.startswith("/to/"):
        return 302, path.removeprefix("/to/")
    if path[1:].isdigit():
        return int(path[1:]), "/x"
    return 200, None
