"""Converts options to header fields (credentials and User-Agent) and proxies.

Credentials belong to one origin; the core does not send them to any other.
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
    """Return the header fields for requests, in order.

    Args:
        headers: fields that are sent unchanged.
        auth: the user name and password for basic authentication (RFC 7617, in UTF-8).
        bearer: a token (RFC 6750).
        netrc_for: the origin whose user name and password are read from ~/.netrc.
        has_command: whether the token comes from a command. If so, the core adds the token.

    Raises:
        UsageError: more than one argument sets `Authorization`, ~/.netrc does not contain the host, or the token is the
            name of a file.
    """
    fields = list((headers or {}).items())
    if netrc_for is not None:
        auth = auth or _netrc_entry(netrc_for)
    named = [name for name, _ in fields if name.lower() == "authorization"]
    if len(named) + (auth is not None) + (bearer is not None) + has_command > 1:
        raise UsageError(
            "auth, bearer, bearer_command, netrc and an Authorization header cannot be combined; use only one of them",
            options=["auth", "bearer", "bearer_command", "netrc"],
        )
    if auth is not None:
        import base64

        user, password = auth if isinstance(auth, tuple) else auth.split(":", 1)
        fields.append(("Authorization", "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()))
    if bearer is not None:
        _refuse_file(bearer)
        fields.append(("Authorization", f"Bearer {bearer}"))
    return fields


def _refuse_file(bearer: str) -> None:
    """Refuse a token that is the name of a file, because the file probably contains the token."""
    import os.path
    import shlex

    # Unlike `Path.is_file`, this accepts a token that is too long for a name.
    if os.path.isfile(bearer):  # noqa: PTH113
        command = shlex.quote(f"cat {shlex.quote(bearer)}")
        raise UsageError(
            f"bearer must be the token itself, not the name of a file ({bearer!r}); pass the contents of the file",
            hint=f"let fetchmill read the file: --bearer-command {command}",
            options=["bearer"],
        )


def named_client(headers: Mapping[str, str] | None, user_agent: str | None) -> Mapping[str, str] | None:
    """Return the fields with `User-Agent` added.

    Raises:
        UsageError: the fields already contain `User-Agent`.
    """
    if user_agent is None:
        return headers
    if any(name.lower() == "user-agent" for name in headers or {}):
        raise UsageError(
            "user_agent and a User-Agent header cannot be combined; leave out one of them", options=["user_agent"]
        )
    return {**(headers or {}), "User-Agent": user_agent}


def origin_of(url: str) -> str:
    """Return the origin of a URL: `scheme://host[:port]`."""
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
        raise UsageError(f"cannot read ~/.netrc: {error}") from None
    if entry is None:
        raise UsageError(f"~/.netrc has no entry for {host}")
    return entry[0], entry[2] or ""


def proxy_of(proxy: str | None) -> str | dict[str, Any] | None:
    """Return the proxies for the native module: one URL for both schemes, or the proxies from the environment.

    Args:
        proxy: value of the option. With `env`, the proxies are taken from http_proxy, https_proxy, all_proxy and
            no_proxy.
    """
    if proxy != "env":
        return proxy
    # Imported here because the import takes a sixth of a short command's time, and few users need it.
    from urllib.request import getproxies_environment

    known = getproxies_environment()
    found = {scheme: known.get(scheme) or known.get("all") for scheme in ("http", "https")}
    return {**found, "without": [known.get("no", "")]} if any(found.values()) else None


def proxies_of(proxy: str | None) -> list[str]:
    """Return the proxy URLs, from the option or the environment."""
    given = proxy_of(proxy)
    if isinstance(given, dict):
        return [text for scheme in ("http", "https") if (text := given[scheme])]
    return [given] if given else []


def is_socks(proxy: str) -> bool:
    """Return whether a proxy URL has a SOCKS scheme."""
    return proxy.lower().startswith("socks")
