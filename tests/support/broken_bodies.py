"""Large bodies that break off: a scripted object that knows `Range` and `If-Range`, and a cutting relay."""

import random
import re
import select
import socket
from collections.abc import Callable, Iterator, Sequence

from connection_server import ConnectionServer
from raw_server import Behaviour, Exchange, bare_reply

MIB = 1 << 20
# From this many bytes on, the rest is requested (limits/replies.rs).
RESUMED_BYTES_MIN = MIB
PIECE = 1 << 16


class BrokenObject:
    """A behaviour: an object whose replies break off after some bytes, except for the last ones.

    Args:
        body: its bytes.
        breaks: for each reply, the number of bytes after which it breaks off; None, like any further reply, does not
            break off.
        etag: its ETag as written in the head; empty for none.
        fields: other fields of its head.
        end: how it breaks off.
        rests: answers requests for the rest; correctly by default.
    """

    def __init__(
        self,
        body: bytes,
        breaks: Sequence[int | None] = (),
        *,
        etag: str = '"v1"',
        fields: Sequence[str] = (),
        end: Callable[[Exchange], None] = Exchange.close,
        rests: Behaviour | None = None,
    ) -> None:
        self.body = body
        self.breaks = list(breaks)
        self.etag = etag
        self.fields = list(fields)
        self.end = end
        self.rests = rests
        # Start of each request: 0, or the start of its range.
        self.firsts: list[int] = []
        # Bytes of bodies.
        self.sent = 0

    def __call__(self, exchange: Exchange) -> bytes | None:
        """Answers a request."""
        first, if_range = asked_from(exchange)
        self.firsts.append(first)
        if first and self.rests is not None:
            return self.rests if isinstance(self.rests, bytes) else self.rests(exchange)
        if if_range not in (None, self.etag):
            first = 0
        rest = self.body[first:]
        breaks = self.breaks.pop(0) if self.breaks else None
        exchange.send(self.head(first))
        sent = memoryview(rest)[:breaks]
        self.sent += len(sent)
        for at in range(0, len(sent), PIECE):
            exchange.send(bytes(sent[at : at + PIECE]))
        if breaks is not None and breaks < len(rest):
            self.end(exchange)
        return None

    def head(self, first: int) -> bytes:
        """Returns the head of a reply from this byte on."""
        own = [f"ETag: {self.etag}"] if self.etag else []
        return head_of(first, len(self.body), *own, *self.fields)


def head_of(first: int, length: int, *fields: str) -> bytes:
    """Returns the head of a reply with an object from this byte on."""
    own = [f"Content-Length: {length - first}", *fields]
    if first == 0:
        return bare_reply(*own)
    return bare_reply(*own, f"Content-Range: bytes {first}-{length - 1}/{length}", status="206 Partial Content")


def asked_from(exchange: Exchange) -> tuple[int, str | None]:
    """Returns the first requested byte, and the ETag of the condition: a range request has both."""
    ranges = re.findall(rb"\r\nrange: *bytes=(\d+)-\d+(?=\r\n|$)", exchange.head, re.IGNORECASE)
    etags = re.findall(rb"\r\nif-range: *([^\r]+)", exchange.head, re.IGNORECASE)
    assert len(ranges) == len(etags) <= 1, exchange.head
    return (int(ranges[0]), etags[0].decode()) if ranges else (0, None)


def bytes_of(seed: int, length: int) -> bytes:
    """Returns random bytes."""
    return random.Random(seed).randbytes(length)


class CuttingRelay(ConnectionServer):
    """Forwards connections to a loopback port, and resets each after it has returned some bytes.

    Args:
        port: port of the server.
        cuts: number of bytes for each connection; further connections are not cut.
    """

    def __init__(self, port: int, cuts: Sequence[int]) -> None:
        self._port = port
        self._cuts: Iterator[int] = iter(cuts)
        # Returned bytes.
        self.passed = 0
        self.connections = 0
        super().__init__()

    def _accepted(self) -> None:
        self.connections += 1

    def _serve(self, connection: socket.socket) -> None:
        left = next(self._cuts, None)
        with self._kept(socket.create_connection(("127.0.0.1", self._port))) as server:
            while True:
                ready, _, _ = select.select([connection, server], [], [])
                if connection in ready:
                    asked = connection.recv(PIECE)
                    if not asked:
                        return
                    server.sendall(asked)
                if server in ready:
                    came = server.recv(PIECE if left is None else min(PIECE, left))
                    connection.sendall(came)
                    with self._lock:
                        self.passed += len(came)
                    left = None if left is None else left - len(came)
                    if not came or left == 0:
                        return
