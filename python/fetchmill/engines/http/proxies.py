"""The proxies of a job, and what is reached without one."""

import base64
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import unquote, urlsplit

from fetchmill._native import no_proxy_covers
from fetchmill.engines.http.failure_kinds import AttemptError
from fetchmill.engines.http.request_url import RequestUrl
from fetchmill.engines.transports import TransportOptions

_RETRIED = (408, 429)
_SERVER_ERRORS = 500
# Of a proxy whose URL has none.
_PORT = 80


@dataclass(frozen=True)
class Proxy:
    """A proxy.

    Args:
        url: where it is, without user and password.
        fields: what says to it who asks; a secret, which goes to the proxy and nowhere else.
    """

    url: str
    fields: dict[str, str] = field(repr=False)

    @property
    def host(self) -> str:
        """Its name or address, without brackets."""
        return urlsplit(self.url).hostname or ""

    @property
    def port(self) -> int:
        """Its port."""
        return urlsplit(self.url).port or _PORT

    @classmethod
    def of_text(cls, text: str | None) -> Self | None:
        """What an option or the environment says; that was checked before."""
        if not text:
            return None
        parts = urlsplit(text if "://" in text else f"http://{text}")
        fields = {}
        if parts.username is not None:
            user = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            fields["Proxy-Authorization"] = "Basic " + base64.b64encode(user.encode()).decode()
        return cls(f"http://{parts.netloc.rpartition('@')[2]}", fields)


@dataclass(frozen=True)
class Proxies:
    """One for each scheme, or none.

    Args:
        of_scheme: by `http` and `https`.
        without: hosts that are reached without one, as in no_proxy.
    """

    of_scheme: dict[str, Proxy]
    without: list[str]

    @classmethod
    def of(cls, options: TransportOptions) -> Self:
        """Those that the options name."""
        given = options.proxy
        values = given if isinstance(given, Mapping) else {"http": given, "https": given}
        named = {scheme: Proxy.of_text(values.get(scheme)) for scheme in ("http", "https")}
        of_scheme = {scheme: proxy for scheme, proxy in named.items() if proxy is not None}
        return cls(of_scheme, list(values.get("without") or ()))

    def proxy_of(self, address: RequestUrl) -> Proxy | None:
        """The one that a URL is asked through; None: it is asked directly."""
        proxy = self.of_scheme.get(address.scheme)
        if proxy is None or no_proxy_covers(self.without, address.host, address.port):
            return None
        return proxy


@contextmanager
def no_way_to_proxy() -> Iterator[None]:
    """What fails on the way to a proxy says nothing of the origin behind it."""
    try:
        yield
    except AttemptError as error:
        raise AttemptError("proxy", f"cannot reach the proxy ({error.kind})") from None


def proxy_error(status: int) -> AttemptError:
    """What it means that a proxy made no tunnel and answered so."""
    is_retried = status in _RETRIED or status >= _SERVER_ERRORS
    return AttemptError("proxy" if is_retried else "proxy-refused", f"the proxy answered {status}")
