"""The options of `fetchmill.stream`, `astream`, `stream_batches` and `Client`: one table for all of them.

A field is an option, as in `fetchmill.options`; those that `get` has too have the same names and meanings.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TypedDict

from fetchmill.credentials import proxy_of, request_fields
from fetchmill.errors import UsageError
from fetchmill.options import AddressingStyle, _option, default_text, shared
from fetchmill.values import check_path, check_value


@dataclass(frozen=True, kw_only=True)
class StreamOptions:
    """How requests of a program are made: validated, immutable.

    Raises:
        UsageError: a value that cannot be used.

    The options:
    """

    limit: int | None = _option("count", 64, "Requests in flight at most.")
    attempts: int = _option("count", 5, "Attempts at a request that may be made twice.")
    connect_timeout: float = _option("seconds", 5.0, "Time for a connection.")
    head_timeout: float = _option("seconds", 15.0, "Time from a request to the end of the reply's head.")
    idle_timeout: float = _option("seconds", 15.0, "Time without a byte of a body.")
    total_timeout: float = _option("seconds", 60.0, "Time for an attempt, plus a second for each 64 KiB of its body.")
    max_size: int = _option("bytes", 64 << 20, "Largest body; a larger one is an error.")
    allow_eof_bodies: bool = _option(
        "flag", False, "Accept bodies that end with the connection: whether they are whole cannot be known."
    )
    redirects: int = _option("whole", 5, "Redirects that are followed one after the other; with 0 they are replies.")
    headers: Mapping[str, str] | None = _option(
        "headers",
        None,
        "Header fields of all requests. Those that may be secrets go to the origin `credentials_for` only; Accept, "
        "Accept-Language and User-Agent go everywhere.",
    )
    auth: str | tuple[str, str] | None = _option("auth", None, "Basic authentication, a pair or `user:password`.")
    bearer: str | None = _option("text", None, "Token for bearer authentication.")
    netrc: bool = _option("flag", False, "Take user and password from ~/.netrc.")
    credentials_for: str | None = _option(
        "text", None, "The origin that gets headers and credentials, such as `https://host`."
    )
    ca_file: str | os.PathLike[str] | None = _option(
        "path", None, "Certificates to trust instead of the system's, in PEM."
    )
    insecure_host: Sequence[str] | None = _option("patterns", None, "Hosts whose certificates are not checked.")
    http2: bool = _option("flag", True, "Use HTTP/2 where a server of https offers it.")
    proxy: str | None = _option(
        "text", None, "Proxy for all requests, http://[USER:PASSWORD@]HOST:PORT; `env` takes it from the environment."
    )
    rate: float | None = _option("number", None, "Requests a second at most.")
    rate_per_host: float | None = _option("number", None, "Requests a second at most, to each host.")
    resolver: Sequence[str] | None = _option(
        "patterns", None, "Name servers to ask, ADDRESS[:PORT], or only `system` for the machine's own look-up."
    )
    public_only: bool = _option("flag", False, "Let no request lead to a private address.")
    endpoint_url: str | None = shared("endpoint_url")
    region: str | None = shared("region")
    profile: str | None = shared("profile")
    no_sign_request: bool = shared("no_sign_request")
    addressing_style: AddressingStyle | None = shared("addressing_style")

    def __post_init__(self) -> None:
        for own in fields(self):
            check_value(own.name, getattr(self, own.name), own.metadata)
        if self.ca_file is not None:
            object.__setattr__(self, "ca_file", check_path("ca_file", self.ca_file))

    def to_json(self) -> str:
        """For the native module: what is None is left out, which means the core's default."""
        credentials = ("headers", "auth", "bearer", "netrc")
        values = {name: value for name, value in vars(self).items() if name not in credentials}
        if self.netrc and self.credentials_for is None:
            raise UsageError("netrc needs credentials_for: a stream may lead anywhere")
        netrc_for = self.credentials_for if self.netrc else None
        values["headers"] = request_fields(self.headers, self.auth, self.bearer, netrc_for)
        values["no_sign_request"] = self.no_sign_request or None
        values["proxy"], values["no_proxy"] = proxy_of(self.proxy, self.credentials_for or "")
        return json.dumps({name: value for name, value in values.items() if value is not None})


class StreamKeywords(TypedDict, total=False):
    """The keyword arguments that are options: the fields of StreamOptions, for type checkers."""

    limit: int | None
    attempts: int
    connect_timeout: float
    head_timeout: float
    idle_timeout: float
    total_timeout: float
    max_size: int
    allow_eof_bodies: bool
    redirects: int
    headers: Mapping[str, str] | None
    auth: str | tuple[str, str] | None
    bearer: str | None
    netrc: bool
    credentials_for: str | None
    ca_file: str | os.PathLike[str] | None
    insecure_host: Sequence[str] | None
    http2: bool
    proxy: str | None
    rate: float | None
    rate_per_host: float | None
    resolver: Sequence[str] | None
    public_only: bool
    endpoint_url: str | None
    region: str | None
    profile: str | None
    no_sign_request: bool
    addressing_style: AddressingStyle | None


def _describe_options() -> str:
    """The table as text, so that `help(fetchmill.StreamOptions)` shows it."""
    lines = []
    for own in fields(StreamOptions):
        shown = default_text(own.metadata["kind"], own.default)
        default = f" Default: {shown}." if shown else ""
        lines.append(f"        {own.name}: {own.metadata['help']}{default}")
    return "\n".join(lines)


StreamOptions.__doc__ = f"{StreamOptions.__doc__}\n{_describe_options()}\n"
