"""The proxies of a job, and the hosts that are requested without a proxy."""

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
# Port of a proxy whose URL does not contain a port.
_PORT = 80


@dataclass(frozen=True)
class Proxy:
    """A proxy.

    Args:
        url: the proxy's URL, without user and password.
        fields: header fields that authenticate to the proxy. They are secret, and sent only to the proxy.
    """

    url: str
    fields: dict[str, str] = field(repr=False)

    @property
    def host(self) -> str:
        """Name or address of the proxy, without brackets."""
        return urlsplit(self.url).hostname or ""

    @property
    def port(self) -> int:
        """Port of the proxy."""
        return urlsplit(self.url).port or _PORT

    @classmethod
    def of_text(cls, text: str | None) -> Self | None:
        """Create a proxy from the validated text of an option or environment variable."""
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
    """Proxies by scheme.

    Args:
        of_scheme: proxies by `http` and `https`.
        without: hosts that are requested without a proxy, as in no_proxy.
    """

    of_scheme: dict[str, Proxy]
    without: list[str]

    @classmethod
    def of(cls, options: TransportOptions) -> Self:
        """Return the proxies named in the options."""
        given = options.proxy
        values = given if isinstance(given, Mapping) else {"http": given, "https": given}
        named = {scheme: Proxy.of_text(values.get(scheme)) for scheme in ("http", "https")}
        of_scheme = {scheme: proxy for scheme, proxy in named.items() if proxy is not None}
        return cls(of_scheme, list(values.get("without") or ()))

    def proxy_of(self, address: RequestUrl) -> Proxy | None:
        """Return the proxy for a URL, or None if the URL is requested directly."""
        proxy = self.of_scheme.get(address.scheme)
        if proxy is None or no_proxy_covers(self.without, address.host, address.port):
            return None
        return proxy


@contextmanager
def no_way_to_proxy() -> Iterator[None]:
    """Convert failures to reach a proxy to the failure kind `proxy`, because they say nothing about the origin."""
    try:
        yield
    except AttemptError as error:
        raise AttemptError("proxy", f"cannot reach the proxy ({error.kind})") from None


def proxy_error(status: int) -> AttemptError:
    """Return the failure for a proxy that answered with this status instead of opening a tunnel."""
    is_retried = status in _RETRIED or status >= _SERVER_ERRORS
    return AttemptError("proxy" if is_retried else "proxy-refused", f"the proxy answered {status}")
