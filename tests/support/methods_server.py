"""A server that accepts every method, redirects, fails on request, and keeps its requests.

It is based on the standard library, and shares no code with the project.
"""

import json
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs

BODY = b"xxxxx"


@dataclass(frozen=True)
class Received:
    """A request."""

    method: str
    path: str
    fields: dict[str, str]
    body: bytes

    def values(self) -> dict[str, Any]:
        """Returns the values of its body, as a form or in JSON, according to its Content-Type."""
        if self.fields["content-type"] == "application/json":
            found: dict[str, Any] = json.loads(self.body)
            return found
        return {name: texts[0] for name, texts in parse_qs(self.body.decode(), True, True).items()}


class Handler(BaseHTTPRequestHandler):
    """Answers any method for its server."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    owner: "MethodsServer"

    def setup(self) -> None:
        """Handles the start of a connection."""
        self.owner.connections += 1
        self.replies = 0
        super().setup()

    def log_message(self, *_arguments: object) -> None:
        """Logs nothing."""

    def answer(self) -> None:
        """Answers any method."""
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        fields = {name.lower(): value for name, value in self.headers.items()}
        received = Received(self.command, self.path, fields, body)
        self.owner.received.append(received)
        if self.owner.watch is not None:
            self.owner.watch(received)
        time.sleep(self.owner.delay)
        if self.path == "/broken":
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
            return
        path, _, query = self.path.partition("?")
        status, location = outcome_of(path)
        self.send_response(status)
        if location:
            self.send_header("Location", location)
        if query.startswith("after="):
            self.send_header("Retry-After", query.removeprefix("after="))
        sent = body if path == "/echo" else BODY
        self.send_header("Content-Length", str(len(sent)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(sent)
        self.end_reply()

    def end_reply(self) -> None:
        """Causes the faults after a reply."""
        owner = self.owner
        self.replies += 1
        if owner.stray_every and len(owner.received) % owner.stray_every == 0:
            owner.strays += 1
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nstray")
        if owner.close_after and self.replies >= owner.close_after:
            self.close_connection = True

    def __getattr__(self, name: str) -> Callable[[], None]:
        # The base class looks for `do_GET` and similar methods.
        if name.startswith("do_"):
            return self.answer
        raise AttributeError(name)


class MethodsServer:
    """Serves from its creation until the end of a `with` block.

    `/error` is a 500, and `/broken` closes the connection without a reply. `/303` and similar paths lead to `/x`,
    `/to/URL` leads to a URL, and so does `/to-307/URL` with that status. `/echo` returns the request's body, `?after=N`
    asks for a pause, and everything else is five bytes.

    Args:
        delay: seconds before each reply.
        watch: called with each request before its reply.
        stray_every: number of replies after which an unsolicited response comes.
        close_after: number of replies after which a connection is closed silently.
        port: its port; any if not given.
    """

    def __init__(
        self,
        delay: float = 0,
        *,
        watch: Callable[[Received], None] | None = None,
        stray_every: int = 0,
        close_after: int = 0,
        port: int = 0,
    ) -> None:
        self.received: list[Received] = []
        self.connections = 0
        self.strays = 0
        self.delay, self.watch = delay, watch
        self.stray_every, self.close_after = stray_every, close_after
        handler = type("OwnHandler", (Handler,), {"owner": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", port), handler)
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
    """Returns the status, and the destination of a redirect."""
    if path == "/error":
        return 500, None
    if path.startswith("/to/"):
        return 302, path.removeprefix("/to/")
    if path.startswith("/to-"):
        return int(path[4:7]), path[8:]
    if path[1:].isdigit():
        return int(path[1:]), "/x"
    return 200, None
