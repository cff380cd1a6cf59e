"""An event loop's connections, including resting ones, and answers held until their requests are certain.

By default, aiohttp reuses a connection as soon as a reply is complete, and treats all later bytes as the next reply.
Here, a connection returns to its connector only after its reply was checked. All bytes that arrive before that are
unsolicited, and `aiohttp_internals` detects them.
"""

import asyncio
import contextlib
import time
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from yarl import URL

from fetchmill.engines.answers import ReplyAnswer
from fetchmill.engines.http import failure_kinds
from fetchmill.engines.http.failure_kinds import AttemptError, UncertainError
from fetchmill.engines.http.framing import BodyEnd
from fetchmill.engines.http.held_answers import HeldAnswers, HeldShare, OriginReplies
from fetchmill.engines.http.request_url import RequestUrl
from fetchmill.engines.transports import AnswerReceiver, Target, resting_connections

if TYPE_CHECKING:
    from fetchmill.engines.answers import Answer
    from fetchmill.engines.http.aiohttp_attempt import AsyncAttempt
    from fetchmill.engines.http.aiohttp_internals import HoldingConnection

# Maximum total size of the bodies that all connections of a loop hold. Connections with requests in flight share this
# total equally, within these bounds.
_HELD_BYTES_MAX = 12 << 20
_SHARE_BYTES_MIN = 16 << 10
_SHARE_BYTES_MAX = 4 << 20
# Maximum number of answers that all connections of a loop hold. An answer takes about a kilobyte in addition to its
# body.
_HELD_ANSWERS_MAX = 6144
# Time limit for a server to close a connection. After that, the server may not have sent everything.
_CLOSE_SECONDS = 1.0
# Interval at which unused connections are checked, and the minimum silence before a connection is checked.
_SWEEP_SECONDS = 0.025
_SILENCE_MIN_SECONDS = 0.05
# The loop reads bytes that have arrived in its next iterations. A connection with unread bytes is checked again after
# `_LOOK_SECONDS`, the shortest timer of a loop, and abandoned after `_UNREAD_SECONDS_MAX`.
_LOOK_SECONDS = 0.001
_UNREAD_SECONDS_MAX = 1.0
_ORIGINS_KEPT = 1024
# The connector's key for a connection.
ConnectionKey: TypeAlias = Any


class ConnectionOwner(Protocol):
    """The owner of connections that are kept for later requests."""

    def set_aside(self, connection: "HoldingConnection") -> None:
        """Stop counting a connection that is resting."""

    def put_back(self, connection: "HoldingConnection") -> None:
        """Make a connection available to later requests."""

    def drop(self, connection: "HoldingConnection") -> None:
        """Close a connection."""


class HeldConnections:
    """The connections of one event loop and their held answers.

    Args:
        requests_max: maximum number of requests in flight.
        origin: statistics about the replies of this process.
        receiver: receives held answers. In addition to its limit of requests, half as many connections (at least one)
            can rest.
    """

    def __init__(self, requests_max: int, origin: OriginReplies, receiver: AnswerReceiver) -> None:
        self.requests_max = requests_max
        self._loop = asyncio.get_running_loop()
        self._origin = origin
        self._receiver = receiver
        self._share = HeldShare()
        # Request limit for which the share was calculated.
        self._requests = 0
        # Maximum and current number of connections that rest in addition to the requests in flight.
        self._aside_max = 0
        self._aside = 0
        # Unused connections with the time at which they became unused, in order of time.
        self.unused: dict[HoldingConnection, float] = {}
        # Connections with a request in flight, with the request's start time, in order of time.
        self.awaited: dict[HoldingConnection, float] = {}
        self._resting: set[HoldingConnection] = set()
        # Abandoned connections that are still closing, because TLS sends a close message.
        self._ending: dict[HoldingConnection, asyncio.Transport] = {}
        self._sweeper: asyncio.TimerHandle | None = None
        self._last_key: ConnectionKey = None
        self._is_closed = False

    def new_held(self) -> HeldAnswers:
        """Return the held answers of a new connection."""
        return HeldAnswers(self._origin, self._share)

    async def close(self) -> None:
        """Drop held answers, and close resting and abandoned connections. Called at the end of the job."""
        self._is_closed = True
        if self._sweeper is not None:
            self._sweeper.cancel()
        for connection in list(self._resting):
            self._end_rest(connection)
            self.give_up(connection)
        waiting = [connection.closed for connection in self._ending]
        for transport in self._ending.values():
            transport.abort()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await asyncio.gather(*(closed for closed in waiting if closed is not None), return_exceptions=True)

    def url_of(self, address: RequestUrl) -> URL:
        """Return the origin for aiohttp, because the request line is written when the request is sent."""
        return _origin(address.scheme, address.authority)

    def fields(self) -> list[tuple[str, str]]:
        """Return no additional fields."""
        return []

    def check_end(self, attempt: "AsyncAttempt", end: BodyEnd) -> None:
        """Check that the connection can prove which request a complete reply belongs to.

        Raises:
            AttemptError: the body ends when the connection ends, so proof is impossible.
        """
        connection = attempt.connection
        if connection is None:
            raise AttemptError("framing")
        if not end.is_delimited and not attempt.is_certain:
            raise UncertainError("framing")
        # The server was asked to close but did not announce it, so that only silence makes the reply certain.
        connection.is_unannounced = connection.is_last and connection.is_open and not attempt.is_certain

    async def settle(self, target: Target, answer: ReplyAnswer, attempt: "AsyncAttempt") -> ReplyAnswer | None:
        """Accept a reply that passed `check_end`. Return it if it is certain, otherwise hold it."""
        connection = attempt.connection
        if connection is None:
            return answer
        certain = self._take(connection, target, answer, attempt.sent_at)
        seconds = self._step(connection)
        if seconds is not None:
            if certain is not None:
                # A certain answer does not have to wait while its connection rests.
                self._receiver.hold(certain)
                self._receiver.give([certain])
                certain = None
            await self.rest(connection, seconds)
        return certain

    def abandon(self, attempt: "AsyncAttempt") -> None:
        """Abandon the connection of an attempt without a reply, even if aiohttp has released it."""
        if attempt.connection is not None:
            self.give_up(attempt.connection)

    def _take(
        self, connection: "HoldingConnection", target: Target, answer: ReplyAnswer, sent_at: float
    ) -> ReplyAnswer | None:
        """Accept a reply to a request sent at `sent_at`. Return the reply if it is certain immediately."""
        if self._receiver.limit != self._requests:
            self._share_out(self._receiver.limit)
        if connection.held.add(target, answer, sent_at):
            return answer
        self._receiver.hold(answer)
        return None

    def _share_out(self, requests: int) -> None:
        """Calculate each connection's limits from the maximum number of requests in flight."""
        self._requests = requests
        requests = max(1, requests)
        self._share.bytes_max = min(max(_HELD_BYTES_MAX // requests, _SHARE_BYTES_MIN), _SHARE_BYTES_MAX)
        self._share.answers_max = max(1, _HELD_ANSWERS_MAX // requests)
        self._aside_max = resting_connections(requests)

    def _step(self, connection: "HoldingConnection") -> float | None:
        """Return the seconds for which the connection must rest after a reply, or None if nothing is left to do."""
        if connection.has_surplus:
            self.give_up(connection)
        elif connection.is_last or not connection.is_open:
            return self._end(connection)
        elif (seconds := connection.held.rest_seconds()) is not None:
            return seconds
        else:
            self._put_back(connection)
        return None

    async def rest(self, connection: "HoldingConnection", seconds: float) -> None:
        """Let a connection rest without counting it as a request in flight.

        If too many connections are resting, wait until this connection has rested.
        """
        connection.is_kept = True
        is_elsewhere, self._last_key = connection.key != self._last_key, connection.key
        if self._aside < self._aside_max:
            connection.is_aside = True
            self._aside += 1
        elif is_elsewhere and not connection.held:
            # The connection's answers are already certain, and the next target is probably on another host.
            self._put_back(connection)
            return
        else:
            connection.rested = self._loop.create_future()
        self._begin_rest(connection, seconds)
        if connection.rested is not None:
            await connection.rested

    def look_again(self, connection: "HoldingConnection") -> None:
        """Handle an unused connection that became readable. The loop soon reads and reports the bytes."""
        self.unused.pop(connection, None)
        self._begin_rest(connection, _LOOK_SECONDS)

    def give_up(self, connection: "HoldingConnection") -> None:
        """Abandon a connection, and request the targets of its held answers again."""
        self._lose(connection)
        self._drop(connection)

    def _lose(self, connection: "HoldingConnection") -> None:
        """Ask the event loop to repeat the requests whose held answers will never be certain."""
        if connection.is_lost:
            return
        connection.is_lost = True
        held = connection.held
        held_bytes = held.bytes
        targets = held.lose(is_surplus=connection.has_surplus)
        if targets and not self._is_closed:
            self._receiver.ask_again(targets, held_bytes)

    def on_surplus(self, connection: "HoldingConnection") -> None:
        """Handle unsolicited bytes."""
        self._end_rest(connection)
        self.give_up(connection)

    def on_lost(self, connection: "HoldingConnection") -> None:
        """Handle the end of a connection. If a request was in flight, its attempt handles the failure."""
        self._ending.pop(connection, None)
        self.awaited.pop(connection, None)
        if connection.is_kept:
            self._end_rest(connection)
            self._settle_ended(connection)

    def _settle_ended(self, connection: "HoldingConnection") -> None:
        """Handle a connection that broke, or that the server closed after replying to every request."""
        if connection.is_broken or connection.has_surplus or connection.is_unannounced:
            self._lose(connection)
        else:
            self._give(connection.held.commit())

    def _end(self, connection: "HoldingConnection") -> float | None:
        """Handle a connection that the server is closing. If it has held answers, read it to its end."""
        if not connection.held or connection.has_partial_reply():
            connection.has_surplus = bool(connection.held)
            self.give_up(connection)
            return None
        if connection.transport is None:
            self._settle_ended(connection)
            self._drop(connection)
            return None
        connection.is_ending = True
        return _CLOSE_SECONDS

    def _drop(self, connection: "HoldingConnection") -> None:
        if connection.transport is not None:
            self._ending[connection] = connection.transport
        if connection.connector is not None:
            connection.connector.drop(connection)

    def _put_back(self, connection: "HoldingConnection") -> None:
        connection.is_kept = True
        self.unused[connection] = time.monotonic()
        if self._sweeper is None:
            self._sweeper = self._loop.call_later(_SWEEP_SECONDS, self._sweep)
        if connection.connector is not None:
            connection.connector.put_back(connection)

    def _sweep(self) -> None:
        """Mark the answers of unused connections as certain after enough silence, as if the connections had rested."""
        now, waiting = time.monotonic(), self._waiting()
        for connection, since in list(self.unused.items()):
            if now - since < _SILENCE_MIN_SECONDS:
                break
            if now - since >= connection.held.silence(waiting) and not connection.is_readable():
                del self.unused[connection]
                self._settle_silent(connection)
        self._sweeper = self._loop.call_later(_SWEEP_SECONDS, self._sweep) if self.unused else None

    def _waiting(self) -> float:
        """Return the seconds that the oldest request in flight has waited for its reply."""
        return time.monotonic() - next(iter(self.awaited.values())) if self.awaited else 0.0

    def _on_rested(self, connection: "HoldingConnection") -> None:
        # Do not use the loop's clock. uvloop's clock counts whole milliseconds, and its timers fire up to 1 ms early.
        rested = time.monotonic() - connection.rest_began
        if rested >= connection.rest_seconds and connection.held and not connection.is_ending:
            # In the meantime, replies may have turned out to be slower than expected.
            connection.rest_seconds = connection.held.longer_rest(connection.rest_seconds, self._waiting())
        left = connection.rest_seconds - rested
        is_readable = connection.is_readable()
        if left > 0 or (is_readable and left > -_UNREAD_SECONDS_MAX):
            connection.timer = self._loop.call_later(max(left, _LOOK_SECONDS), self._on_rested, connection)
            return
        self._end_rest(connection)
        if is_readable:
            self.give_up(connection)
        elif connection.is_ending:
            # The server did not close the connection as announced, but was silent for the longest rest. Accept the held
            # answers, because answers to repeated requests would be held in the same way.
            if self._settle_silent(connection):
                self._drop(connection)
        elif self._settle_silent(connection):
            self._put_back(connection)

    def _settle_silent(self, connection: "HoldingConnection") -> bool:
        """Handle a connection after enough silence, and return whether it is reusable."""
        if connection.has_partial_reply():
            connection.has_surplus = True
            self.give_up(connection)
            return False
        self._give(connection.held.commit())
        return True

    def _begin_rest(self, connection: "HoldingConnection", seconds: float) -> None:
        self._resting.add(connection)
        connection.rest_seconds, connection.rest_began = seconds, time.monotonic()
        connection.timer = self._loop.call_later(seconds, self._on_rested, connection)
        if connection.connector is not None:
            connection.connector.set_aside(connection)

    def _end_rest(self, connection: "HoldingConnection") -> None:
        """End a connection's rest, or the time in which it was unused."""
        self.unused.pop(connection, None)
        self._resting.discard(connection)
        if connection.timer is not None:
            connection.timer.cancel()
            connection.timer = None
        if connection.is_aside:
            connection.is_aside = False
            self._aside -= 1
        if connection.rested is not None:
            if not connection.rested.done():
                connection.rested.set_result(None)
            connection.rested = None

    def _give(self, answers: "list[Answer]") -> None:
        if answers and not self._is_closed:
            self._receiver.give(answers)


@lru_cache(maxsize=_ORIGINS_KEPT)
def _origin(scheme: str, authority: str) -> URL:
    """Return the URL of an origin. Parsing the whole URL for each request would be expensive."""
    try:
        return URL(f"{scheme}://{authority}/", encoded=True)
    except ValueError as error:
        raise AttemptError("url", failure_kinds.error_text(error)) from None
