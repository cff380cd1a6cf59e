"""Looks up the test world's hosts at its name server, because ways in Python can use only the system's name lookup."""

import contextlib
import itertools
import socket
import struct
import time
from collections.abc import Iterable, Iterator

_A, _IN = 1, 1
_TRUNCATED, _RECURSION = 0x0200, 0x0100
# Maximum number of datagrams in flight. With more, some would be lost.
_AT_ONCE = 100
# A name without an answer within this time has no address.
_QUIET_SECONDS = 1.0
_DATAGRAM_MAX = 65_535


def resolve(server: str, names: Iterable[str]) -> dict[str, str]:
    """Returns the first IPv4 address of each name. Names without an address are left out.

    Args:
        server: host and port of the name server.
        names: the names to look up.
    """
    host, _, port = server.rpartition(":")
    where = (host, int(port))
    found: dict[str, str] = {}
    rest = iter(names)
    while some := list(itertools.islice(rest, _AT_ONCE)):
        found.update(_ask_some(where, some))
    return found


def _ask_some(where: tuple[str, int], names: list[str]) -> Iterator[tuple[str, str]]:
    waiting = dict(enumerate(names))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.connect(where)
        udp.settimeout(_QUIET_SECONDS)
        for number, name in waiting.items():
            udp.send(_question(number, name))
        ends = time.monotonic() + 2 * _QUIET_SECONDS
        while waiting and time.monotonic() < ends:
            try:
                reply = udp.recv(_DATAGRAM_MAX)
            except TimeoutError:
                return
            number, flags = struct.unpack_from(">HH", reply)
            asked = waiting.pop(number, None)
            if asked is None:
                continue
            if flags & _TRUNCATED:
                reply = _ask_by_tcp(where, number, asked)
            if (address := _first_address(reply)) is not None:
                yield asked, address


def _ask_by_tcp(where: tuple[str, int], number: int, name: str) -> bytes:
    """Returns the entire reply, or an empty one if there is no answer."""
    with contextlib.suppress(OSError), socket.create_connection(where, _QUIET_SECONDS) as tcp:
        question = _question(number, name)
        tcp.sendall(struct.pack(">H", len(question)) + question)
        with tcp.makefile("rb") as stream:
            length = stream.read(2)
            return stream.read(int.from_bytes(length, "big"))
    return b""


def _question(number: int, name: str) -> bytes:
    labels = b"".join(bytes([len(label)]) + label.encode("ascii") for label in name.split("."))
    return struct.pack(">6H", number, _RECURSION, 1, 0, 0, 0) + labels + b"\0" + struct.pack(">HH", _A, _IN)


def _first_address(reply: bytes) -> str | None:
    """Returns the first address among the answers, which aliases may precede."""
    try:
        _, _, questions, answers, _, _ = struct.unpack_from(">6H", reply)
        offset = 12
        for _ in range(questions):
            offset = _behind_name(reply, offset) + 4
        for _ in range(answers):
            offset = _behind_name(reply, offset)
            kind, _, _, length = struct.unpack_from(">HHIH", reply, offset)
            offset += 10
            if kind == _A:
                return socket.inet_ntoa(reply[offset : offset + length])
            offset += length
    except (struct.error, IndexError, OSError):
        return None
    return None


def _behind_name(reply: bytes, offset: int) -> int:
    """Returns the offset after a name. A name ends with an empty label, or with a pointer to the rest of the name."""
    while length := reply[offset]:
        if length >= 0xC0:  # noqa: PLR2004 - both top bits mark a pointer
            return offset + 2
        offset += 1 + length
    return offset + 1
