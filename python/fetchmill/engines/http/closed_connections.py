"""aiohttp connections that are closed after their reply, for untested aiohttp versions. Uses only the public API.

The first reply on a connection cannot belong to another request, so no answer is held. The transport imports this
module only when it starts, because the module requires aiohttp.
"""

from functools import partial
from types import SimpleNamespace
from typing import Any, TypeAlias

import aiohttp
from yarl import URL

from fetchmill.engines.answers import ReplyAnswer
from fetchmill.engines.http import failure_kinds
from fetchmill.engines.http.aiohttp_attempt import (
    CURRENT_ATTEMPT,
    DNS_CACHE_SECONDS,
    AsyncAttempt,
    Resolver,
    judged_socket,
    open_session,
)
from fetchmill.engines.http.failure_kinds import AttemptError
from fetchmill.engines.http.framing import BodyEnd
from fetchmill.engines.http.held_answers import HeldAnswers, OriginReplies
from fetchmill.engines.http.request_url import RequestUrl
from fetchmill.engines.transports import Target, TransportOptions
from fetchmill.errors import InternalError, UsageError

# Header fields that aiohttp adds by default.
_AUTOMATIC_FIELDS = ("Accept", "Accept-Encoding", "User-Agent")
# A value that parts of aiohttp exchange, and that this module only forwards.
LibraryValue: TypeAlias = Any


class ClosedConnections:
    """The connections of an event loop, one for each request. An implementation of `Connections`.

    Args:
        requests_max: maximum number of requests in flight.
        origin: statistics about the replies of this process.
    """

    def __init__(self, requests_max: int, origin: OriginReplies) -> None:
        self._requests_max = requests_max
        self._origin = origin
        self._resolvers: list[Resolver] = []

    def session(self, judging: TransportOptions | None) -> aiohttp.ClientSession:
        """Return a session that does not keep connections.

        Raises:
            UsageError: this aiohttp version does not support the required options.
        """
        resolver = Resolver(judging)
        self._resolvers.append(resolver)
        options: dict[str, LibraryValue] = {"resolver": resolver, "ttl_dns_cache": DNS_CACHE_SECONDS}
        if judging is not None and judging.public_only:
            # A host that this version considers an address bypasses the resolver.
            options["socket_factory"] = partial(judged_socket, judging)
        try:
            connector = aiohttp.TCPConnector(limit=self._requests_max, force_close=True, **options)
            return open_session(
                connector, self._requests_max, skip_auto_headers=_AUTOMATIC_FIELDS, trace_configs=[_trace_config()]
            )
        except TypeError as error:
            raise UsageError(
                f"aiohttp {aiohttp.__version__} cannot be used ({error}); install a "
                "tested version: pip install 'fetchmill[engines]'"
            ) from None

    def url_of(self, address: RequestUrl) -> URL:
        """Return the whole URL.

        Raises:
            AttemptError: aiohttp would request a different URL, without parts that it considers redundant.
        """
        try:
            url = URL(address.url, encoded=True)
        except ValueError as error:
            raise AttemptError("url", failure_kinds.error_text(error)) from None
        if url.raw_path_qs != address.target or str(url) != address.url:
            raise AttemptError(
                "url", f"aiohttp {aiohttp.__version__} would request {url} instead; use a tested version"
            )
        return url

    def fields(self) -> list[tuple[str, str]]:
        """Return a header field that asks the server to close the connection as well."""
        return [("Connection", "close")]

    def head_kind(self, error: BaseException) -> str:
        """Return `framing` for all errors, because only private exceptions show which part of a head is wrong."""
        del error
        return "framing"

    def check_end(self, attempt: AsyncAttempt, end: BodyEnd) -> None:  # noqa: ARG002 - every end is accepted
        """Check that this is the first reply of its connection.

        Raises:
            InternalError: the reply may not be the first one.
        """
        if attempt.is_reused:
            raise InternalError(
                f"aiohttp {aiohttp.__version__} kept a connection open that should be closed; "
                "install a tested version: pip install 'fetchmill[engines]'"
            )

    async def settle(self, target: Target, answer: ReplyAnswer, attempt: AsyncAttempt) -> ReplyAnswer | None:
        """Record the reply in the origin's statistics and return it, because it is certain."""
        held = HeldAnswers(self._origin)
        if not held.add(target, answer, attempt.sent_at):
            held.commit()
        return answer

    def abandon(self, attempt: AsyncAttempt) -> None:
        """Do nothing, because aiohttp has closed the connection."""

    async def close(self) -> None:
        """End the lookups. The sessions close their connections."""
        for resolver in self._resolvers:
            await resolver.close()


def _trace_config() -> aiohttp.TraceConfig:
    """Return callbacks that report the phases of an attempt, and prevent aiohttp's own retries."""
    config = aiohttp.TraceConfig()
    config.on_connection_create_start.append(_on_connect)
    config.on_connection_create_end.append(_on_connected)
    config.on_connection_reuseconn.append(_on_reused)
    return config


async def _on_connect(_session: aiohttp.ClientSession, context: SimpleNamespace, _parameters: LibraryValue) -> None:
    """Called when a connection is started. A second connection would be aiohttp's retry after the first one broke."""
    if hasattr(context, "has_connected"):
        raise AttemptError("reset")
    context.has_connected = True


async def _on_connected(_session: aiohttp.ClientSession, _context: SimpleNamespace, _parameters: LibraryValue) -> None:
    """Called when the connection is ready, just before the request is sent."""
    CURRENT_ATTEMPT.get().on_request_sent()


async def _on_reused(_session: aiohttp.ClientSession, _context: SimpleNamespace, _parameters: LibraryValue) -> None:
    """Called for a reused connection, whose reply could belong to another request and is refused by `check_end`."""
    attempt = CURRENT_ATTEMPT.get()
    attempt.on_request_sent()
    attempt.is_reused = True
