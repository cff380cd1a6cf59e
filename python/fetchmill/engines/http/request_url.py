"""Where a URL leads, without changing a byte of it."""

import ipaddress
import re
from typing import NamedTuple

from fetchmill.engines.http.failure_kinds import AttemptError

_PORTS = {"http": 80, "https": 443}
# What a source gives is normalised already: a scheme in lower case, no user, no fragment, nothing but visible ASCII.
_URL = re.compile(r"(https?)://((?:\[[0-9A-Fa-f:.]+\]|[0-9A-Za-z._~!$&'()*+,;=%-]+)(?::([0-9]{1,5}))?)([/?][!\"$-~]*)?")


class RequestUrl(NamedTuple):
    """The parts of a URL.

    Args:
        scheme: http or https.
        authority: host and port as they stand there.
        host: a name or an address, without brackets, in lower case.
        port: the port, the scheme's own if there is none.
        target: what the request line asks for, byte for byte.
    """

    scheme: str
    authority: str
    host: str
    port: int
    target: str

    @property
    def url(self) -> str:
        """In absolute form, as a proxy is asked."""
        return f"{self.scheme}://{self.authority}{self.target}"

    @property
    def bracketed_host(self) -> str:
        """The host as a URL has it."""
        return f"[{self.host}]" if ":" in self.host else self.host

    @property
    def host_field(self) -> str:
        """The field Host: without a port that is the scheme's own."""
        is_usual = self.port == _PORTS[self.scheme]
        return self.bracketed_host if is_usual else f"{self.bracketed_host}:{self.port}"


def parse(url: str) -> RequestUrl:
    """Takes a URL apart.

    Raises:
        Failure: `url`: it is none of http or https, has a user in it, or a byte that no URL may have.
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
    """Whether what is in brackets, if there are some, is an address of IPv6."""
    if authority[0] != "[":
        return True
    try:
        ipaddress.IPv6Address(authority[1:].partition("]")[0])
    except ValueError:
        return False
    return True
