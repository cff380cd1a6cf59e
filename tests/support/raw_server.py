"""A scripted server over raw sockets: it can send any bytes, trickle, stall, close and reset, and counts requests.

It shares no code with the project, so that no bug can be on both sides.
"""

import contextlib
import json
import select
import socket
import ssl
import struct
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from urllib.parse import quote

from connection_server import ConnectionServer

STALL_SECONDS_MAX = 30.0
REQUEST_BYTES_MAX = 1 << 16


class Exchange:
    """One request, and the means to answer it.

    Args:
        connection: the socket.
        target: the undecoded target in the request line.
        number: 1 for the first request of this target, 2 for the next.
        turn: 1 for the first request of this connection, 2 for the next.
        head: the received request, up to its empty line.
    """

    def __init__(self, connection: socket.socket, target: str, number: int, turn: int, head: bytes = b"") -> None:
        self._connection = connection
        self.target = target
        self.number = number
        self.turn = turn
        self.head = head

    def send(self, *pieces: bytes, pause: float = 0.0) -> None:
        """Sends the pieces one by one, with pauses in seconds between them."""
        for index, piece in enumerate(pieces):
            if index and pause:
                time.sleep(pause)
            self._connection.sendall(piece)

    def trickle(self, text: bytes, pause: float) -> None:
        """Sends byte by byte."""
        self.send(*(text[index : index + 1] for index in range(len(text))), pause=pause)

    def flood(self, text: bytes) -> None:
        """Sends the same data again and again until the client has gone."""
        block = text * (1 + 16384 // len(text))
        while True:
            self._connection.sendall(block)

    def client_speaks(self, within: float) -> bool:
        """Waits for the client to send something or to close; False if it did neither."""
        return bool(select.select([self._connection], [], [], within)[0])

    def stall(self) -> None:
        """Sends nothing more, until the client has gone."""
        self.client_speaks(STALL_SECONDS_MAX)
        self.close()

    def close(self) -> None:
        """Closes the connection after the sent data."""
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()

    def reset(self) -> None:
        """Resets the connection."""
        self._connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._connection.close()


# The reply, or a function that sends or returns it. A closed connection takes no further request.
Behaviour = bytes | Callable[[Exchange], bytes | None]


class RawServer(ConnectionServer):
    """Answers by request target; a target with a query may be scripted by its path alone.

    If a request asks to close the connection, the reply says so and the connection ends. Only a function that sends its
    own reply may do otherwise. The end of the `with` block raises errors of behaviours.
    """

    def __init__(
        self,
        routes: Mapping[str, Behaviour],
        address: tuple[str, int] = ("127.0.0.1", 0),
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.routes = dict(routes)
        self._tls = tls
        self.requests: list[str] = []
        self.connections = 0
        # Number of simultaneously open connections.
        self.most_open = 0
        self._counts: Counter[str] = Counter()
        super().__init__(address)

    @property
    def url(self) -> str:
        """Returns the SOURCE of a job."""
        host, port = self._listener.getsockname()
        return f"http://{host}:{port}" if self._tls is None else f"https://localhost:{port}"

    def count(self, target: str) -> int:
        """Returns the number of requests for a target so far."""
        with self._lock:
            return self._counts[target]

    def asked(self, prefix: str = "/get/") -> list[str]:
        """Returns the requested targets so far, in order, with repetitions."""
        with self._lock:
            return [target for target in self.requests if target.startswith(prefix)]

    def _accepted(self) -> None:
        self.connections += 1
        self.most_open = max(self.most_open, len(self._open))

    def _serve(self, connection: socket.socket) -> None:
        if self._tls is None:
            self._answer_all(connection)
            return
        with self._secured(self._tls, connection) as secured:
            self._answer_all(secured)

    def _answer_all(self, connection: socket.socket) -> None:
        received = b""
        turn = 0
        while connection.fileno() >= 0:
            while b"\r\n\r\n" not in received:
                more = connection.recv(REQUEST_BYTES_MAX)
                if not more:
                    return
                received += more
            head, _, received = received.partition(b"\r\n\r\n")
            turn += 1
            self._answer(connection, head, turn)

    def _answer(self, connection: socket.socket, head: bytes, turn: int) -> None:
        target = _target_of(head)
        with self._lock:
            self.requests.append(target)
            self._counts[target] += 1
            number = self._counts[target]
        behaviour = self.routes.get(target) or self.routes.get(target.partition("?")[0], reply(status="404 Not Found"))
        exchange = Exchange(connection, target, number, turn, head)
        answer = behaviour if isinstance(behaviour, bytes) else behaviour(exchange)
        if answer and _asks_to_close(head):
            connection.sendall(_as_last(answer))
            exchange.close()
        elif answer:
            connection.sendall(answer)


def _asks_to_close(head: bytes) -> bool:
    """Returns whether the connection must end after the reply: a client asks for this to be certain."""
    return b"\r\nconnection: close" in head.lower()


def _as_last(answer: bytes) -> bytes:
    """Marks the reply as the last one, as RFC 9112, section 9.6, requires."""
    status_line, _, rest = answer.partition(b"\r\n")
    return b"\r\n".join([status_line, b"Connection: close", rest])


def _target_of(head: bytes) -> str:
    """Returns the target of the one request line in a head."""
    method, target, version = head.split(b"\r\n")[0].split(b" ")
    if (
        method not in (b"GET", b"POST")
        or version != b"HTTP/1.1"
        or any(b"\r" in line or b"\n" in line for line in head.split(b"\r\n"))
    ):
        raise AssertionError(f"no good request: {head!r}")
    return target.decode("ascii")


def reply(
    body: bytes = b"",
    *fields: str,
    status: str = "200 OK",
    length: int | None = None,
    version: str = "HTTP/1.1",
) -> bytes:
    """Returns a reply with a length: the body's, unless another one is given."""
    return (
        bare_reply(
            f"Content-Length: {len(body) if length is None else length}", *fields, status=status, version=version
        )
        + body
    )


def bare_reply(*fields: str, status: str = "200 OK", version: str = "HTTP/1.1") -> bytes:
    """Returns a head with only these fields."""
    return "\r\n".join([f"{version} {status}", *fields, "", ""]).encode("latin-1")


def chunked_reply(*chunks: bytes) -> bytes:
    """Returns a reply in chunks."""
    body = b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks if chunk)
    return bare_reply("Transfer-Encoding: chunked") + body + b"0\r\n\r\n"


def page(names: Iterable[str], marker: str | None = None) -> bytes:
    """Returns a page of the listing."""
    values: dict[str, object] = {"FileNames": list(names)}
    if marker is not None:
        values["NextMarker"] = marker
    return reply(json.dumps(values).encode(), "Content-Type: application/json")


def get_target(name: str) -> str:
    """Returns the request target of an object; a segment of dots must not lead away."""
    segments = (segment.replace(".", "%2E") if segment in {".", ".."} else segment for segment in _quoted(name))
    return "/get/" + "/".join(segments)


def _quoted(name: str) -> list[str]:
    return quote(name, safe="/-._~").split("/")


def mirror(names: Iterable[str], scripted: Mapping[str, Behaviour] | None = None) -> dict[str, Behaviour]:
    """Returns routes of a server that lists these names on one page; each object is its own name, unless scripted."""
    listed = list(names)
    routes: dict[str, Behaviour] = {"/list": page(listed)}
    for name in listed:
        routes[get_target(name)] = (scripted or {}).get(name) or reply(name.encode())
    return routes


def in_turn(*behaviours: Behaviour) -> Behaviour:
    """Uses one behaviour for each request of a target in turn; the last one is repeated."""

    def behave(exchange: Exchange) -> bytes | None:
        behaviour = behaviours[min(exchange.number, len(behaviours)) - 1]
        return behaviour if isinstance(behaviour, bytes) else behaviour(exchange)

    return behave


def then_close(text: bytes) -> Behaviour:
    """Sends data and closes."""

    def behave(exchange: Exchange) -> None:
        exchange.send(text)
        exchange.close()

    return behave


def then_reset(text: bytes) -> Behaviour:
    """Sends data and resets."""

    def behave(exchange: Exchange) -> None:
        exchange.send(text)
        exchange.reset()

    return behave


def then_stall(text: bytes) -> Behaviour:
    """Sends data and nothing more."""

    def behave(exchange: Exchange) -> None:
        exchange.send(text)
        exchange.stall()

    return behave


def then_flood(text: bytes, flood: bytes) -> Behaviour:
    """Sends data, and then the same data endlessly."""

    def behave(exchange: Exchange) -> None:
        exchange.send(text)
        exchange.flood(flood)

    return behave
