"""Connections of aiohttp that are closed after their reply, for versions that nobody has tested. Public API only.

The first reply of a connection can be no other request's, so nothing is held. Imported by the transport when it starts,
for it needs the library.
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

# Fields that aiohttp adds of its own unless it is told not to.
_AUTOMATIC_FIELDS = ("Accept", "Accept-Encoding", "User-Agent")
# What aiohttp passes on.
LibraryValue: TypeAlias = Any


class ClosedConnections:
    """The connections of an event loop, one for each request. Implements `Connections`.

    Args:
        requests_max: requests in flight at most, at any time.
        origin: what the replies of this process were like.
    """

    def __init__(self, requests_max: int, origin: OriginReplies) -> None:
        self._requests_max = requests_max
        self._origin = origin
        self._resolvers: list[Resolver] = []

    def session(self, judging: TransportOptions | None) -> aiohttp.ClientSession:
        """A session that keeps no connection.

        Raises:
            UsageError: this version cannot do what is asked of it.
        """
        resolver = Resolver(judging)
        self._resolvers.append(resolver)
        options: dict[str, LibraryValue] = {"resolver": resolver, "ttl_dns_cache": DNS_CACHE_SECONDS}
        if judging is not None and judging.public_only:
            # What a version takes for an address never comes to the resolver.
            options["socket_factory"] = partial(judged_socket, judging)
        try:
            connector = aiohttp.TCPConnector(limit=self._requests_max, force_close=True, **options)
            return open_session(
                connector, self._requests_max, skip_auto_headers=_AUTOMATIC_FIELDS, trace_configs=[_trace_config()]
            )
        except TypeError as error:
            raise UsageError(
                f"aiohttp {aiohttp.__version__}: cannot be used ({error}); "
                "install a tested version: pip install 'fetchmill[engines]'"
            ) from None

    def url_of(self, address: RequestUrl) -> URL:
        """The whole URL.

        Raises:
            AttemptError: aiohttp would ask for another one: it leaves out what it thinks means nothing.
        """
        try:
            url = URL(address.url, encoded=True)
        except ValueError as error:
            raise AttemptError("url", failure_kinds.error_text(error)) from None
        if url.raw_path_qs != address.target or str(url) != address.url:
            raise AttemptError("url", f"aiohttp {aiohttp.__version__} would ask for {url}; use a tested version")
        return url

    def fields(self) -> list[tuple[str, str]]:
        """The server closes the connection, too."""
        return [("Connection", "close")]

    def head_kind(self, error: BaseException) -> str:
        """Which part of a head is wrong only private exceptions tell."""
        del error
        return "framing"

    def check_end(self, attempt: AsyncAttempt, end: BodyEnd) -> None:  # noqa: ARG002 - any end will do
        """Nothing came before this reply.

        Raises:
            InternalError: something may have.
        """
        if attempt.is_reused:
            raise InternalError(
                f"aiohttp {aiohttp.__version__} has kept a connection that was to be closed; "
                "install a tested version: pip install 'fetchmill[engines]'"
            )

    async def settle(self, target: Target, answer: ReplyAnswer, attempt: AsyncAttempt) -> ReplyAnswer | None:
        """Gives it back, for it is certain; what it says of the origin is noted as always."""
        held = HeldAnswers(self._origin)
        if not held.add(target, answer, attempt.sent_at):
            held.commit()
        return answer

    def abandon(self, attempt: AsyncAttempt) -> None:
        """The library has closed its connection."""

    async def close(self) -> None:
        """Ends the look-ups; connections are their sessions'."""
        for resolver in self._resolvers:
            await resolver.close()


def _trace_config() -> aiohttp.TraceConfig:
    """Reports the phases of an attempt, and forbids what aiohttp must not do of its own."""
    config = aiohttp.TraceConfig()
    config.on_connection_create_start.append(_on_connect)
    config.on_connection_create_end.append(_on_connected)
    config.on_connection_reuseconn.append(_on_reused)
    return config


async def _on_connect(_session: aiohttp.ClientSession, context: SimpleNamespace, _parameters: LibraryValue) -> None:
    """A connection begins. A second one would be for a request that aiohttp makes again when the first one broke."""
    if hasattr(context, "has_connected"):
        raise AttemptError("reset")
    context.has_connected = True


async def _on_connected(_session: aiohttp.ClientSession, _context: SimpleNamespace, _parameters: LibraryValue) -> None:
    """Nothing but the request is left to send."""
    CURRENT_ATTEMPT.get().on_request_sent()


async def _on_reused(_session: aiohttp.ClientSession, _context: SimpleNamespace, _parameters: LibraryValue) -> None:
    """The reply could be another request's: `check_end` lets none of them pass."""
    attempt = CURRENT_ATTEMPT.get()
    attempt.on_request_sent()
    attempt.is_reused = True
