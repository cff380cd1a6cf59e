"""A server that accepts HTTP/2 in TLS and then requires HTTP/1.1 for each request (HTTP_1_1_REQUIRED, RFC 9113, 7)."""

import contextlib
import socket
import ssl
import threading
from collections import Counter
from typing import Literal, Self

from certificates import Leaf

PREFACE_BYTES = 24
FRAME_HEAD_BYTES = 9
HEADERS, RESET, SETTINGS, GOAWAY = 1, 3, 4, 7
ACKNOWLEDGED = 1
HTTP_1_1_REQUIRED = (13).to_bytes(4)
STOP_SECONDS_MAX = 10.0


def frame(kind: int, payload: bytes = b"", stream: int = 0, flags: int = 0) -> bytes:
    """Returns a frame of HTTP/2."""
    return len(payload).to_bytes(3) + bytes([kind, flags]) + stream.to_bytes(4) + payload


class Http1OnlyServer:
    """Counts requests by version in `requests`: `h2` and `http/1.1`. Each object is its path.

    Args:
        leaf: its certificate.
        refusal: how a request over HTTP/2 is refused: its stream, or with its connection.
    """

    def __init__(self, leaf: Leaf, refusal: Literal["stream", "connection"]) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(leaf.chain, leaf.key)
        context.set_alpn_protocols(["h2", "http/1.1"])
        self._context = context
        self._refusal = refusal
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self.requests: Counter[str] = Counter()
        self._threads[0].start()

    @property
    def url(self) -> str:
        """Returns its address."""
        return f"https://localhost:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            for connection in self._open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(STOP_SECONDS_MAX)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
            with self._lock:
                self._open.add(connection)
                self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), self._context.wrap_socket(connection, server_side=True) as secured:
            with self._lock:
                self._open.add(secured)
            if secured.selected_alpn_protocol() == "h2":
                self._refuse(secured)
            else:
                self._answer(secured)

    def _refuse(self, connection: ssl.SSLSocket) -> None:
        received = connection.makefile("rb")
        received.read(PREFACE_BYTES)
        connection.sendall(frame(SETTINGS))
        while len(head := received.read(FRAME_HEAD_BYTES)) == FRAME_HEAD_BYTES:
            received.read(int.from_bytes(head[:3]))
            kind, flags, stream = head[3], head[4], int.from_bytes(head[5:])
            if kind == SETTINGS and not flags & ACKNOWLEDGED:
                connection.sendall(frame(SETTINGS, flags=ACKNOWLEDGED))
            if kind != HEADERS:
                continue
            self._count("h2")
            if self._refusal == "connection":
                connection.sendall(frame(GOAWAY, (0).to_bytes(4) + HTTP_1_1_REQUIRED))
                continue
            connection.sendall(frame(RESET, HTTP_1_1_REQUIRED, stream))

    def _answer(self, connection: ssl.SSLSocket) -> None:
        received = connection.makefile("rb")
        while request := received.readline():
            while received.readline().strip():
                pass
            self._count("http/1.1")
            body = request.split()[1]
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))

    def _count(self, version: str) -> None:
        with self._lock:
            self.requests[version] += 1
