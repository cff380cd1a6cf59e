"""Look-ups, and connections that block."""

import socket
from collections.abc import Sequence
from typing import Any, NamedTuple

from fetchmill.engines.http import failure_kinds
from fetchmill.engines.http.deadlines import Deadlines
from fetchmill.engines.http.failure_kinds import AttemptError

# Addresses of a name that are tried.
ADDRESSES_MAX = 8
# A timeout of 0 would mean that nothing is waited for.
SECONDS_MIN = 0.001


class SocketAddress(NamedTuple):
    """An address to connect to, as `socket` calls it."""

    family: socket.AddressFamily
    protocol: int
    sockaddr: tuple[Any, ...]


def look_up(host: str, port: int) -> list[SocketAddress]:
    """Asks the system for the addresses of a name; blocks.

    Raises:
        Failure: `dns-not-found`, `dns-empty`, `dns`.
    """
    try:
        # As bytes, so that Python does not change the name.
        found = socket.getaddrinfo(host.encode(), port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        kind = failure_kinds.lookup_kind(error) if isinstance(error, OSError) else "dns-not-found"
        raise AttemptError(kind, failure_kinds.error_text(error)) from None
    return [SocketAddress(family, protocol, sockaddr) for family, _, protocol, _, sockaddr in found[:ADDRESSES_MAX]]


def connect(addresses: Sequence[SocketAddress], deadlines: Deadlines) -> socket.socket:
    """Connects to the first that answers: one after the other, each with its share of the time that is left.

    Raises:
        Failure: `refused`, `reset`, `connect-timeout`, `unreachable`: the one that says most.
    """
    failed: dict[str, str] = {}
    for behind, address in enumerate(addresses):
        seconds, kind = deadlines.remaining()
        if seconds <= 0:
            raise AttemptError(kind)
        try:
            connection = _connect(address, seconds / (len(addresses) - behind))
        except OSError as error:
            failed.setdefault(failure_kinds.connect_kind(error), failure_kinds.error_text(error))
        else:
            connection.settimeout(max(deadlines.remaining()[0], SECONDS_MIN))
            return connection
    kind = failure_kinds.most_specific(failed)
    raise AttemptError(kind, failed.get(kind))


def _connect(address: SocketAddress, seconds: float) -> socket.socket:
    connection = socket.socket(address.family, socket.SOCK_STREAM, address.protocol)
    try:
        connection.settimeout(seconds)
        connection.connect(address.sockaddr)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except BaseException:
        connection.close()
        raise
    return connection
