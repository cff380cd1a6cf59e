"""Makes many concurrent requests in one event loop, using aiohttp."""

from collections.abc import Awaitable
from functools import cached_property
from typing import TYPE_CHECKING

from fetchmill.engines.answers import Answer
from fetchmill.engines.http.held_answers import OriginReplies
from fetchmill.engines.http.libraries import AIOHTTP, untested_notices
from fetchmill.engines.http.proxies import Proxies
from fetchmill.engines.transports import AnswerReceiver, Target, TransportOptions

if TYPE_CHECKING:
    from fetchmill.engines.http.aiohttp_client import AiohttpClient, Connections


class AiohttpTransport:
    """An implementation of `AsyncTransport` that can be sent to another process.

    Args:
        options: the options of the job.

    Raises:
        UsageError: aiohttp is not installed.
    """

    def __init__(self, options: TransportOptions) -> None:
        # If there is a notice, each connection is closed after its reply.
        self.notices = untested_notices([AIOHTTP])
        self._options = options
        self._proxies = Proxies.of(options)

    @cached_property
    def origin_replies(self) -> OriginReplies:
        """Statistics about the replies of this process."""
        return OriginReplies()

    async def start(self, receiver: AnswerReceiver) -> "AiohttpClient":
        """Return the client of a loop."""
        from fetchmill.engines.http.aiohttp_client import AiohttpClient

        return AiohttpClient(self._options, self._proxies, receiver, self._connections(receiver))

    def fetch(self, target: Target, state: "AiohttpClient") -> Awaitable[Answer | None]:
        """Make one attempt at a target."""
        return state.fetch(target)

    async def done(self, state: "AiohttpClient") -> None:
        """Close the connections."""
        await state.close()

    def _connections(self, receiver: AnswerReceiver) -> "Connections":
        """Return the connections of a loop. For an untested version, do not import code for aiohttp's private parts."""
        if self.notices:
            from fetchmill.engines.http.closed_connections import ClosedConnections

            return ClosedConnections(self._options.connections, self.origin_replies)
        from fetchmill.engines.http.aiohttp_internals import KeptConnections

        return KeptConnections(self._options.connections, self.origin_replies, receiver)
