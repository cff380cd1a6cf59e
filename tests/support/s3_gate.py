"""A gate between a command and a store: it sees every request, and may answer it or end the command.

It shares no code with the project. Requests are forwarded unchanged, including the field Host, so that signatures stay
valid.
"""

import http.client
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self
from urllib.parse import parse_qs, unquote, urlsplit

FAILURES = "_failures.ndjson"
# Messages of a store by status.
CODES = {
    403: "AccessDenied",
    409: "ConditionalRequestConflict",
    500: "InternalError",
    501: "NotImplemented",
    503: "SlowDown",
}


@dataclass(frozen=True)
class Request:
    """A request to a store."""

    method: str
    key: str
    query: str

    @property
    def kind(self) -> str:
        """Returns its kind."""
        names = parse_qs(self.query, keep_blank_values=True)
        if "uploads" in names:
            return "begin" if self.method == "POST" else "uploads"
        if "uploadId" in names:
            return {"PUT": "part", "POST": "complete", "DELETE": "abort"}[self.method]
        if self.method == "DELETE":
            return "delete"
        if self.method == "PUT" and self.key.endswith(FAILURES):
            return "failures"
        if self.method == "PUT":
            return "manifest" if self.key.endswith(".manifest") else "put"
        return "list" if "list-type" in names else "get"


# Called before a request is forwarded and after its reply, with the name of the moment. It may return the status of a
# reply that is sent instead, or `S3Gate.LOST`.
Hook = Callable[[Request, str], int | None]


class S3Gate:
    """A gate to a store (see the module). `seen` has every request in the order of arrival.

    Args:
        store: URL of the store, on loopback.
    """

    # No reply is sent, and the connection ends.
    LOST = 0

    def __init__(self, store: str) -> None:
        self._store = urlsplit(store).netloc
        self.seen: list[Request] = []
        self.hook: Hook = lambda _request, _moment: None
        gate = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_one_request(self) -> None:
                self.raw_requestline = self.rfile.readline(65537)
                if not self.raw_requestline or not self.parse_request():
                    self.close_connection = True
                    return
                gate._exchange(self)

            def log_message(self, *_arguments: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def count(self, kind: str) -> int:
        """Returns the number of requests of a kind."""
        return sum(request.kind == kind for request in list(self.seen))

    def _exchange(self, handler: BaseHTTPRequestHandler) -> None:
        target = urlsplit(handler.path)
        request = Request(handler.command, unquote(target.path).split("/", 2)[-1], target.query)
        length = int(handler.headers.get("Content-Length", 0))
        body = handler.rfile.read(length)
        self.seen.append(request)
        if len(body) < length:
            # The client was killed. The store would wait for the rest.
            handler.close_connection = True
            return
        if (status := self.hook(request, "before")) is not None:
            self._refuse(handler, status)
            return
        with closing(http.client.HTTPConnection(self._store, timeout=60)) as connection:
            connection.putrequest(handler.command, handler.path, skip_host=True, skip_accept_encoding=True)
            for name, value in handler.headers.items():
                connection.putheader(name, value)
            connection.endheaders(body)
            reply = connection.getresponse()
            content = reply.read()
        if (status := self.hook(request, "behind")) is not None:
            self._refuse(handler, status)
            return
        self._answer(handler, reply.status, dict(reply.getheaders()), content)

    def _refuse(self, handler: BaseHTTPRequestHandler, status: int) -> None:
        if status == self.LOST:
            handler.close_connection = True
            return
        document = f"<?xml version='1.0'?><Error><Code>{CODES[status]}</Code><Message>No.</Message></Error>"
        self._answer(handler, status, {"Content-Type": "application/xml"}, document.encode())

    @staticmethod
    def _answer(handler: BaseHTTPRequestHandler, status: int, fields: dict[str, str], content: bytes) -> None:
        try:
            handler.send_response_only(status)
            for name, value in fields.items():
                if name.lower() not in ("content-length", "connection", "transfer-encoding"):
                    handler.send_header(name, value)
            if status != http.client.NO_CONTENT:
                handler.send_header("Content-Length", str(len(content)))
            handler.end_headers()
            handler.wfile.write(content)
        except OSError:
            # The client was killed.
            handler.close_connection = True
