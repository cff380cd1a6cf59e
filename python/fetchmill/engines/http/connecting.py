"""Look-ups, and connections that block."""

import socket
from collections.abc import Sequence
from typing import Any, NamedTuple

from fetchmill.engines.http import kinds
from fetchmill.engines.http.deadlines import Deadlines
from fetchmill.engines.http.kinds import Failure

# Addresses of a name that are tried.
ADDRESSES_MAX = 8
_SECONDS_MIN = 0.001


class Place(NamedTuple):
    """An address to connect to, as `socket` calls it."""

    family: socket.AddressFamily
    protocol: int
    sockaddr: tuple[Any, ...]


def look_up(host: str, port: int) -> list[Place]:
    """Asks the system for the addresses of a name; blocks.

    Raises:
        Failure: `dns-not-found`, `dns-empty`, `dns`.
    """
    try:
        # As bytes, so that Python does not change the name.
        found = socket.getaddrinfo(host.encode(), port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        kind = kinds.of_lookup(error) if isinstance(error, OSError) else "dns-not-found"
        raise Failure(kind, kinds.text_of(error)) from None
    return [Place(family, protocol, sockaddr) for family, _, protocol, _, sockaddr in found[:ADDRESSES_MAX]]


def connect(places: Sequence[Place], deadlines: Deadlines) -> socket.socket:
    """Connects to the first that answers: one after the other, each with its share of the time that is left.

    Raises:
        Failure: `refused`, `reset`, `connect-timeout`, `unreachable`: the one that says most.
    """
    failed: dict[str, str] = {}
    for behind, place in enumerate(places):
        seconds, kind = deadlines.left()
        if seconds <= 0:
            raise Failure(kind)
        try:
            connection = _connect(place, seconds / (len(places) - behind))
        except OSError as error:
            failed.setdefault(kinds.of_connecting(error), kinds.text_of(error))
        else:
            # For TLS: all that is left, and never 0, which would mean that nothing is waited for.
            connection.settimeout(max(deadlines.left()[0], _SECONDS_MIN))
            return connection
    kind = kinds.most_telling(failed)
    raise Failure(kind, failed.get(kind))


def _connect(place: Place, seconds: float) -> socket.socket:
    connection = socket.socket(place.family, socket.SOCK_STREAM, place.protocol)
    try:
        connection.settimeout(seconds)
        connection.connect(place.sockaddr)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except BaseException:
        connection.close()
        raise
    return connection
