"""A server that accepts HTTP/2 in TLS and then requires HTTP/1.1 for each request (HTTP_1_1_REQUIRED, RFC 9113, 7)."""

import socket
import ssl
from collections import Counter
from typing import Literal

from certificates import Leaf
from connection_server import ConnectionServer

PREFACE_BYTES = 24
FRAME_HEAD_BYTES = 9
HEADERS, RESET, SETTINGS, GOAWAY = 1, 3, 4, 7
ACKNOWLEDGED = 1
HTTP_1_1_REQUIRED = (13).to_bytes(4)


def frame(kind: int, payload: bytes = b"", stream: int = 0, flags: int = 0) -> bytes:
    """Returns a frame of HTTP/2."""
    return len(payload).to_bytes(3) + bytes([kind, flags]) + stream.to_bytes(4) + payload


class Http1OnlyServer(ConnectionServer):
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
        self.requests: Counter[str] = Counter()
        super().__init__()

    @property
    def url(self) -> str:
        """Returns its address."""
        return f"https://localhost:{self.port}"

    def _serve(self, connection: socket.socket) -> None:
        with self._secured(self._context, connection) as secured:
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
