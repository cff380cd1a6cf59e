"""Blocking lookups and connections."""

import socket
from collections.abc import Sequence
from typing import Any, NamedTuple

from fetchmill.engines.http import failure_kinds
from fetchmill.engines.http.deadlines import Deadlines
from fetchmill.engines.http.failure_kinds import AttemptError

# Maximum number of addresses to try per name.
ADDRESSES_MAX = 8
# Minimum timeout, because a socket with a timeout of 0 does not wait.
SECONDS_MIN = 0.001


class SocketAddress(NamedTuple):
    """An address to connect to, in the form that `socket` expects."""

    family: socket.AddressFamily
    protocol: int
    sockaddr: tuple[Any, ...]


def look_up(host: str, port: int) -> list[SocketAddress]:
    """Look up the addresses of a name with the system's resolver. Blocks.

    Raises:
        AttemptError: `dns-not-found`, `dns-empty`, `dns`.
    """
    try:
        # Pass bytes so that Python does not change the name.
        found = socket.getaddrinfo(host.encode(), port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        kind = failure_kinds.lookup_kind(error) if isinstance(error, OSError) else "dns-not-found"
        raise AttemptError(kind, failure_kinds.error_text(error)) from None
    return [SocketAddress(family, protocol, sockaddr) for family, _, protocol, _, sockaddr in found[:ADDRESSES_MAX]]


def connect(addresses: Sequence[SocketAddress], deadlines: Deadlines) -> socket.socket:
    """Connect to the first address that answers. Addresses are tried in turn, each for its share of the remaining time.

    Raises:
        AttemptError: the most specific of `refused`, `reset`, `connect-timeout`, `unreachable`.
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
