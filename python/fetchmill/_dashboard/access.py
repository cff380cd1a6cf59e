"""Access to a dashboard: its address, its host names and its token."""

import base64
import binascii
import hmac
import ipaddress
import os
import re
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field

from fetchmill.errors import UsageError

ADDRESS_DEFAULT = "127.0.0.1:0"
# Maximum number of connections waiting to be accepted.
_BACKLOG = 32
_TOKEN_LEAST, _TOKEN_MOST = 16, 256
_TOKEN = re.compile(r"[\x21-\x7e]+")
_ADDRESS = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([^\[\]:\s]+)):([0-9]{1,5})")
_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+))(?::[0-9]{1,5})?")
_PORT_MOST = 65535


@dataclass(frozen=True)
class Access:
    """Rules that decide which clients can read a dashboard.

    Args:
        names: host names that browsers can use for the dashboard, in lower case.
        token: the token that clients must present. None if only users of this machine can reach the dashboard.
    """

    names: frozenset[str]
    token: str | None = field(default=None, repr=False)

    def allows_host(self, host: str, local: str) -> bool:
        """Return whether a request's Host field names this dashboard.

        This defends against DNS rebinding: a request from another site's page names that site as its host, even if the
        name resolves to this address.

        Args:
            host: the field's value.
            local: the local address of the connection.
        """
        match = _HOST.fullmatch(host)
        if match is None:
            return False
        name = (match[1] or match[2]).lower()
        return name in self.names or _normal(name) == _normal(local)

    def allows_authorization(self, field_value: str | None) -> bool:
        """Return whether the token was presented, as a bearer token or as the password of any user.

        Browsers cannot send a bearer token, only a password.
        """
        if self.token is None:
            return True
        scheme, _, given = (field_value or "").partition(" ")
        if scheme.lower() == "basic":
            given = _password(given)
        elif scheme.lower() != "bearer":
            return False
        return hmac.compare_digest(given.strip().encode(), self.token.encode())


def listen(address: str | None, names: Sequence[str], token: str | None) -> tuple[socket.socket, Access]:
    """Reserve a dashboard's port, and determine which clients can read the dashboard.

    Args:
        address: HOST:PORT. Port 0 picks a free port.
        names: additional host names that browsers can use for the dashboard.
        token: the token that clients must present.

    Raises:
        UsageError: the address is invalid or unavailable, or other machines could read the dashboard without a token.
    """
    if token is not None:
        check_token(token)
    host, port = _host_and_port(address or ADDRESS_DEFAULT)
    family, place = _resolved(host, port)
    if token is None and not _is_loopback(place[0]):
        raise UsageError(
            f"dashboard_addr {host}:{port} can be reached from other machines; set a token: openssl rand -hex "
            "16 > token.txt, then --dashboard-token token.txt (or FETCHMILL_DASHBOARD_TOKEN)",
            options=["dashboard_addr"],
        )
    try:
        listener = socket.create_server(place, family=family, backlog=_BACKLOG)
    except OSError as error:
        raise UsageError(
            f"the dashboard cannot listen on {host}:{port}: {os.strerror(error.errno or 0)}; "
            "choose another --dashboard-addr (port 0 selects a free port)"
        ) from None
    known = {name.lower() for name in names} | {"localhost", host.lower()}
    return listener, Access(frozenset(known), token)


def url_of(listener: socket.socket, address: str | None, names: Sequence[str]) -> str:
    """Return the URL for browsers. If the dashboard listens on all addresses, use the first name, if any."""
    host, _ = _host_and_port(address or ADDRESS_DEFAULT)
    found = _normal(host)
    if names and found is not None and found.is_unspecified:
        host = names[0]
    port = listener.getsockname()[1]
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def check_token(token: str) -> None:
    """Check that a token can be sent in a header field and is too long to guess.

    Raises:
        UsageError: the token is unsuitable. The message does not contain the token.
    """
    if not (_TOKEN_LEAST <= len(token) <= _TOKEN_MOST and _TOKEN.fullmatch(token)):
        raise UsageError(
            f"dashboard_token must be {_TOKEN_LEAST} to {_TOKEN_MOST} visible ASCII "
            "characters; create one with openssl rand -hex 16",
            options=["dashboard_token"],
        )


def _host_and_port(address: str) -> tuple[str, int]:
    match = _ADDRESS.fullmatch(address)
    if match is None or int(match[3]) > _PORT_MOST:
        raise UsageError(
            f"dashboard_addr must be HOST:PORT, such as 127.0.0.1:9000 or [::1]:0, not {address!r}",
            options=["dashboard_addr"],
        )
    return match[1] or match[2], int(match[3])


def _resolved(host: str, port: int) -> tuple[socket.AddressFamily, tuple[str, int]]:
    """Return the first address of a host."""
    try:
        family, _, _, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a valid name"
        raise UsageError(f"dashboard_addr: cannot resolve {host} ({reason})", options=["dashboard_addr"]) from None
    return family, (str(place[0]), int(place[1]))


def _is_loopback(host: str) -> bool:
    address = _normal(host)
    return isinstance(address, (ipaddress.IPv4Address, ipaddress.IPv6Address)) and address.is_loopback


def _normal(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return the address in canonical form, or None if the text is a host name."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def _password(encoded: str) -> str:
    try:
        text = base64.b64decode(encoded.strip(), validate=True).decode()
    except (binascii.Error, ValueError):
        return ""
    return text.partition(":")[2]
