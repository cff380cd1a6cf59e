"""What requests carry to tell who asks: header fields, and how to reach a proxy. Off unless asked for.

Everything here belongs to one origin; the core sends it nowhere else.
"""

from collections.abc import Mapping
from typing import Any

from fetchmill.errors import UsageError


def request_fields(
    headers: Mapping[str, str] | None,
    auth: str | tuple[str, str] | None,
    bearer: str | None,
    netrc_for: str | None,
    *,
    has_command: bool,
) -> list[tuple[str, str]]:
    """The fields in their order.

    Args:
        headers: fields as they are.
        auth: user and password, for basic authentication (RFC 7617, in UTF-8).
        bearer: a token (RFC 6750).
        netrc_for: an origin whose user and password ~/.netrc has.
        has_command: whether a command prints a token, which the core adds.

    Raises:
        UsageError: more than one of them says who asks, or ~/.netrc does not know the host.
    """
    fields = list((headers or {}).items())
    if netrc_for is not None:
        auth = auth or _netrc_entry(netrc_for)
    named = [name for name, _ in fields if name.lower() == "authorization"]
    if len(named) + (auth is not None) + (bearer is not None) + has_command > 1:
        raise UsageError(
            "auth, bearer, bearer_command, netrc and a header Authorization exclude one another: give one",
            options=["auth", "bearer", "bearer_command", "netrc"],
        )
    if auth is not None:
        import base64

        user, password = auth if isinstance(auth, tuple) else auth.split(":", 1)
        fields.append(("Authorization", "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()))
    if bearer is not None:
        fields.append(("Authorization", f"Bearer {bearer}"))
    return fields


def named_client(headers: Mapping[str, str] | None, user_agent: str | None) -> Mapping[str, str] | None:
    """The fields with the name of the client.

    Raises:
        UsageError: the fields name it, too.
    """
    if user_agent is None:
        return headers
    if any(name.lower() == "user-agent" for name in headers or {}):
        raise UsageError("user_agent and a header User-Agent exclude one another: give one", options=["user_agent"])
    return {**(headers or {}), "User-Agent": user_agent}


def origin_of(url: str) -> str:
    """`scheme://host[:port]` of a URL."""
    from urllib.parse import urlsplit

    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _netrc_entry(origin: str) -> tuple[str, str]:
    import netrc
    from urllib.parse import urlsplit

    host = urlsplit(origin).hostname or ""
    try:
        entry = netrc.netrc().authenticators(host)
    except (OSError, netrc.NetrcParseError) as error:
        raise UsageError(f"~/.netrc cannot be used: {error}") from None
    if entry is None:
        raise UsageError(f"~/.netrc has no entry for {host}")
    return entry[0], entry[2] or ""


def proxy_of(proxy: str | None) -> str | dict[str, Any] | None:
    """The proxies as the native module takes them: a URL for both schemes, or what the environment says.

    Args:
        proxy: as the option says it; `env` for what http_proxy, https_proxy, all_proxy and no_proxy say.
    """
    if proxy != "env":
        return proxy
    # It takes as long to load as a sixth of a command that fetches little, and few want it.
    from urllib.request import getproxies_environment

    known = getproxies_environment()
    found = {scheme: known.get(scheme) or known.get("all") for scheme in ("http", "https")}
    return {**found, "without": [known.get("no", "")]} if any(found.values()) else None


def proxies_of(proxy: str | None) -> list[str]:
    """The proxies that the option names: its own, or those of the environment."""
    given = proxy_of(proxy)
    if isinstance(given, dict):
        return [text for scheme in ("http", "https") if (text := given[scheme])]
    return [given] if given else []


def is_socks(proxy: str) -> bool:
    """Whether a proxy speaks SOCKS."""
    return proxy.lower().startswith("socks")
