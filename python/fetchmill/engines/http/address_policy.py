"""Restricts connections to addresses on the public internet, for `public_only`.

The origin that the user named can have any address. The native engine's rule is applied to the address of the
connection, never to a name. A name that has both public and other addresses is rejected.
"""

import socket
from collections.abc import Iterable
from functools import lru_cache

from fetchmill.engines.http import request_url
from fetchmill.engines.http.failure_kinds import AttemptError
from fetchmill.engines.http.request_url import RequestUrl
from fetchmill.engines.transports import TransportOptions


def must_be_public(options: TransportOptions, address: RequestUrl) -> bool:
    """Return whether the connection for a request must be to a public address.

    Args:
        options: the options of the job.
        address: the URL of the request.
    """
    named = options.named_origin
    return options.public_only and (named is None or _place(named) != _place_of(address))


@lru_cache(maxsize=4)
def _place(origin: str) -> tuple[str, str, int] | None:
    """Return an origin's scheme, host and port, or None if it cannot be requested and therefore matches no target."""
    try:
        return _place_of(request_url.parse(origin))
    except AttemptError:
        return None


def _place_of(address: RequestUrl) -> tuple[str, str, int]:
    return address.scheme, address.host, address.port


def check_host(host: str) -> None:
    """Check a host that is an address, in any notation that the system accepts.

    Args:
        host: the host without brackets. A name is checked when it is looked up.

    Raises:
        AttemptError: `private-address`.
    """
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except (OSError, UnicodeError):
        return
    check_addresses(str(sockaddr[0]) for *_, sockaddr in found)


def check_addresses(addresses: Iterable[str]) -> None:
    """Check the addresses of a host name.

    Raises:
        AttemptError: `private-address`, if one of the addresses is not public.
    """
    from fetchmill._native import is_public

    for address in addresses:
        # Remove the scope of link-local addresses (fe80::1%eth0), because `is_public` does not accept it.
        if not is_public(address.partition("%")[0]):
            raise AttemptError("private-address", f"{address} is not public")
