"""Many requests at a time in one event loop, with the library aiohttp."""

from collections.abc import Awaitable
from functools import cached_property
from typing import TYPE_CHECKING

from fetchmill.engines.answers import Answer
from fetchmill.engines.http.held_answers import OriginReplies
from fetchmill.engines.http.libraries import import_library
from fetchmill.engines.http.proxies import Proxies
from fetchmill.engines.transports import AnswerReceiver, Target, TransportOptions

if TYPE_CHECKING:
    from fetchmill.engines.http.aiohttp_client import AiohttpClient


class AiohttpTransport:
    """Implements `AsyncTransport`; may be sent to another process.

    Args:
        options: of the job.

    Raises:
        UsageError: the library is not installed.
    """

    def __init__(self, options: TransportOptions) -> None:
        import_library("aiohttp")
        self._options = options
        self._proxies = Proxies.of(options)

    @cached_property
    def origin_replies(self) -> OriginReplies:
        """What the replies of this process were like."""
        return OriginReplies()

    async def start(self, receiver: AnswerReceiver) -> "AiohttpClient":
        """What a loop has for itself."""
        from fetchmill.engines.http.aiohttp_client import AiohttpClient

        return AiohttpClient(self._options, self._proxies, self.origin_replies, receiver)

    def fetch(self, target: Target, state: "AiohttpClient") -> Awaitable[Answer | None]:
        """One attempt at a target."""
        return state.fetch(target)

    async def done(self, state: "AiohttpClient") -> None:
        """Closes the connections."""
        await state.close()
