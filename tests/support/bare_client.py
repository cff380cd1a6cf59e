"""A client of the standard library with its own look-ups, independent of fetchmill."""

import http.client
import secrets
import socket
import ssl
import struct
from dataclasses import dataclass, field
from urllib.parse import urlsplit

A, CNAME, SOA, AAAA, OPT = 1, 5, 6, 28, 41
NOERROR, SERVFAIL, NXDOMAIN = 0, 2, 3


@dataclass(frozen=True)
class Answer:
    """The answer of a name server."""

    rcode: int
    is_truncated: bool
    question: str
    records: list[tuple[str, int, str]] = field(default_factory=list)
    authority: list[int] = field(default_factory=list)

    @property
    def addresses(self) -> list[str]:
        """Returns the addresses of both families, in order."""
        return [data for _, kind, data in self.records if kind in (A, AAAA)]


def ask(server: str, name: str, kind: int = A, *, tcp: bool = False, payload: int = 0, timeout: float = 2) -> Answer:
    """Sends one query and returns its answer, without a retry."""
    address = (server.rpartition(":")[0], int(server.rpartition(":")[2]))
    number = secrets.randbelow(1 << 16)
    query = _query(number, name, kind, payload)
    with socket.socket(type=socket.SOCK_STREAM if tcp else socket.SOCK_DGRAM) as asking:
        asking.settimeout(timeout)
        asking.connect(address)
        if not tcp:
            asking.send(query)
            return _parsed(asking.recv(65_535), number)
        asking.sendall(struct.pack("!H", len(query)) + query)
        with asking.makefile("rb") as stream:
            return _parsed(stream.read(struct.unpack("!H", stream.read(2))[0]), number)


def _query(number: int, name: str, kind: int, payload: int) -> bytes:
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    extension = struct.pack("!BHHIH", 0, OPT, payload, 0, 0) if payload else b""
    head = struct.pack("!6H", number, 0x0100, 1, 0, 0, bool(payload))
    return head + labels + b"\0" + struct.pack("!2H", kind, 1) + extension


def _parsed(message: bytes, number: int) -> Answer:
    answered, flags, questions, answers, authority, _ = struct.unpack("!6H", message[:12])
    assert (answered, questions, flags >> 15) == (number, 1, 1)
    question, at = _name(message, 12)
    at += 4
    records: list[tuple[str, int, str]] = []
    for _ in range(answers + authority):
        owner, at = _name(message, at)
        kind, _, _, length = struct.unpack("!2HIH", message[at : at + 10])
        at += 10
        records.append((owner, kind, _data(message, kind, at, length)))
        at += length
    said = [kind for _, kind, _ in records[answers:]]
    return Answer(flags & 15, bool(flags & 0x0200), question, records[:answers], said)


def _data(message: bytes, kind: int, at: int, length: int) -> str:
    if kind == CNAME:
        return _name(message, at)[0]
    if kind in (A, AAAA):
        return socket.inet_ntop(socket.AF_INET if kind == A else socket.AF_INET6, message[at : at + length])
    return ""


def _name(message: bytes, at: int) -> tuple[str, int]:
    """Returns a name and its end; a pointer must point back."""
    labels: list[str] = []
    while length := message[at]:
        if length >= 0xC0:
            target = struct.unpack("!H", message[at : at + 2])[0] & 0x3FFF
            assert target < at
            rest, _ = _name(message, target)
            return ".".join([*labels, *([rest] if rest else [])]), at + 2
        labels.append(message[at + 1 : at + 1 + length].decode())
        at += 1 + length
    return ".".join(labels), at + 1


@dataclass(frozen=True)
class Got:
    """A reply."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes


class Client:
    """Connects to hosts at the addresses of their name server."""

    def __init__(self, dns: str, ca_pem: str, timeout: float = 2) -> None:
        self._dns = dns
        self._timeout = timeout
        self._context = ssl.create_default_context(cadata=ca_pem)

    def connect(self, url: str, alpn: str | None = None) -> socket.socket:
        """Returns a connection to a host's first IPv4 address, inside TLS for https."""
        parts = urlsplit(url)
        host, port = str(parts.hostname), parts.port
        address = ask(self._dns, host).addresses[0]
        connection = socket.create_connection((address, port), self._timeout)
        if parts.scheme == "http":
            return connection
        context = self._context
        context.set_alpn_protocols([alpn] if alpn else [])
        try:
            return context.wrap_socket(connection, server_hostname=host)
        except BaseException:
            connection.close()
            raise

    def get(self, url: str, method: str = "GET") -> Got:
        """Sends one request on its own connection, without following redirects."""
        parts = urlsplit(url)
        talk = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=self._timeout)
        with self.connect(url) as talk.sock:
            talk.request(method, parts.path or "/")
            with talk.getresponse() as reply:
                return Got(reply.status, reply.headers, reply.read())

    def follow(self, url: str, most: int = 40) -> tuple[Got, list[str]]:
        """Returns the first reply that is not a redirect, and the URLs before it."""
        way = [url]
        for _ in range(most):
            got = self.get(way[-1])
            location = got.headers["Location"]
            if location is None:
                return got, way
            parts = urlsplit(way[-1])
            way.append(location if "://" in location else f"{parts.scheme}://{parts.netloc}{location}")
        return got, way
