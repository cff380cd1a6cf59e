"""The proxy of a job, and what is reached without it."""

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import unquote, urlsplit

from fetchmill.engines.http.failure_kinds import AttemptError
from fetchmill.engines.transports import TransportOptions

_RETRIED = (408, 429)
_SERVER_ERRORS = 500


@dataclass(frozen=True)
class Proxy:
    """A proxy.

    Args:
        url: where it is, without user and password.
        fields: what says to it who asks; a secret, which goes to the proxy and nowhere else.
        without: hosts that are reached without it; a name stands for its subdomains too, `*` for all.
    """

    url: str
    fields: dict[str, str] = field(repr=False)
    without: tuple[str, ...]

    @classmethod
    def of(cls, options: TransportOptions) -> Self | None:
        """The one that the options name, if they name one; they were checked before."""
        if options.proxy is None:
            return None
        parts = urlsplit(options.proxy)
        fields = {}
        if parts.username is not None:
            user = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            fields["Proxy-Authorization"] = "Basic " + base64.b64encode(user.encode()).decode()
        return cls(f"http://{parts.netloc.rpartition('@')[2]}", fields, options.no_proxy)

    def is_for(self, host: str) -> bool:
        """Whether a host is asked through it."""
        return not any(end in ("*", host) or host.endswith(f".{end.lstrip('.')}") for end in self.without)


@contextmanager
def no_way_to_proxy() -> Iterator[None]:
    """What fails on the way to a proxy says nothing of the origin behind it."""
    try:
        yield
    except AttemptError as error:
        raise AttemptError("proxy", f"no way to the proxy ({error.kind})") from None


def proxy_error(status: int) -> AttemptError:
    """What it means that a proxy made no tunnel and answered so."""
    is_retried = status in _RETRIED or status >= _SERVER_ERRORS
    return AttemptError("proxy" if is_retried else "proxy-refused", f"the proxy answered {status}")
