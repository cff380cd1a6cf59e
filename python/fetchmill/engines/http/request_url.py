"""Splits a URL into parts without changing its bytes."""

import ipaddress
import re
from typing import NamedTuple

from fetchmill.engines.http.failure_kinds import AttemptError

_PORTS = {"http": 80, "https": 443}
# A source's URLs are already normalised, with a lower-case scheme, no user, no fragment, and only visible ASCII.
_URL = re.compile(r"(https?)://((?:\[[0-9A-Fa-f:.]+\]|[0-9A-Za-z._~!$&'()*+,;=%-]+)(?::([0-9]{1,5}))?)([/?][!\"$-~]*)?")


class RequestUrl(NamedTuple):
    """The parts of a URL.

    Args:
        scheme: http or https.
        authority: the host and port, unchanged.
        host: the name or address, without brackets, in lower case.
        port: the port, or the scheme's default port.
        target: the request target, unchanged.
    """

    scheme: str
    authority: str
    host: str
    port: int
    target: str

    @property
    def url(self) -> str:
        """The absolute form, which is used in requests to a proxy."""
        return f"{self.scheme}://{self.authority}{self.target}"

    @property
    def bracketed_host(self) -> str:
        """The host in the form used in URLs, with brackets around an IPv6 address."""
        return f"[{self.host}]" if ":" in self.host else self.host

    @property
    def host_field(self) -> str:
        """The value of the Host field, without the scheme's default port."""
        is_usual = self.port == _PORTS[self.scheme]
        return self.bracketed_host if is_usual else f"{self.bracketed_host}:{self.port}"


def parse(url: str) -> RequestUrl:
    """Split a URL into its parts.

    Raises:
        AttemptError: `url`, if the scheme is neither http nor https, or the URL contains a user or an invalid byte.
    """
    found = _URL.fullmatch(url)
    if found is None or int(found[3] or 0) >= 1 << 16 or not _is_host(found[2]):
        raise AttemptError("url", "not a URL that can be requested")
    scheme, authority, port, target = found.groups()
    host = authority if port is None else authority[: -len(port) - 1]
    if not target or target[0] != "/":
        target = f"/{target or ''}"
    return RequestUrl(scheme, authority, host.strip("[]").lower(), int(port or _PORTS[scheme]), target)


def _is_host(authority: str) -> bool:
    """Return whether the brackets, if there are any, contain an IPv6 address."""
    if authority[0] != "[":
        return True
    try:
        ipaddress.IPv6Address(authority[1:].partition("]")[0])
    except ValueError:
        return False
    return True
