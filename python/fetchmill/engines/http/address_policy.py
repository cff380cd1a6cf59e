"""Where connections may lead: with `public_only` to addresses of the public internet and no others.

The origin that the user has named may be anywhere. Checked is the address that is connected to, never a name, and by
the native engine's own rule. A name that has a public and another address leads nowhere.
"""

import socket
from collections.abc import Iterable
from functools import lru_cache

from fetchmill.engines.http import request_url
from fetchmill.engines.http.failure_kinds import AttemptError
from fetchmill.engines.http.request_url import RequestUrl
from fetchmill.engines.transports import TransportOptions


def must_be_public(options: TransportOptions, address: RequestUrl) -> bool:
    """Whether what is connected to for a request must be public.

    Args:
        options: of the job.
        address: where the request leads.
    """
    named = options.named_origin
    return options.public_only and (named is None or _place(named) != _place_of(address))


@lru_cache(maxsize=4)
def _place(origin: str) -> tuple[str, str, int] | None:
    """None of one that cannot be asked: no target is there."""
    try:
        return _place_of(request_url.parse(origin))
    except AttemptError:
        return None


def _place_of(address: RequestUrl) -> tuple[str, str, int]:
    return address.scheme, address.host, address.port


def check_host(host: str) -> None:
    """Checks a host that is written as an address, in any of the ways that the system reads as one.

    Args:
        host: without brackets. A name is checked when it is looked up.

    Raises:
        Failure: `private-address`.
    """
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except (OSError, UnicodeError):
        return
    check_addresses(str(sockaddr[0]) for *_, sockaddr in found)


def check_addresses(addresses: Iterable[str]) -> None:
    """Checks the addresses of a name.

    Raises:
        Failure: `private-address`, if one of them is not public.
    """
    from fetchmill._native import is_public

    for address in addresses:
        # Only addresses of this link have a scope (fe80::1%eth0), and only those without it are text of an address.
        if not is_public(address.partition("%")[0]):
            raise AttemptError("private-address", f"{address} is not public")
