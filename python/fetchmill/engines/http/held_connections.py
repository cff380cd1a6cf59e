"""The connections of an event loop: what they hold until it is certain whose it is, and when they rest.

aiohttp keeps a connection for the next request as soon as a reply is complete, and takes whatever comes then for the
next reply. Here a connection goes back to its connector when its reply was judged, and what comes while no request is
out is surplus. How a connection of aiohttp finds that out is the business of `aiohttp_internals`.
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

# Bodies that all connections of a loop may hold, shared among those that make requests, and bounds of the share.
_HELD_BYTES_MAX = 12 << 20
_SHARE_BYTES_MIN = 16 << 10
_SHARE_BYTES_MAX = 4 << 20
# Answers that they may hold; an answer takes about a kilobyte beside its body.
_HELD_ANSWERS_MAX = 6144
# A server that closes does so within this, or it is not known whether it has sent all that it will.
_CLOSE_SECONDS = 1.0
# Connections that nobody uses are looked at so often, and none of them before it was silent for so long.
_SWEEP_SECONDS = 0.025
_SILENCE_MIN_SECONDS = 0.05
# What has come is read by the loop in its next rounds: it is looked again after this, and given up after that. No timer
# of a loop is shorter.
_LOOK_SECONDS = 0.001
_UNREAD_SECONDS_MAX = 1.0
_ORIGINS_KEPT = 1024
# The connector's.
ConnectionKey: TypeAlias = Any


class ConnectionOwner(Protocol):
    """What keeps connections for the next request."""

    def set_aside(self, connection: "HoldingConnection") -> None:
        """It rests, and is no longer counted."""

    def put_back(self, connection: "HoldingConnection") -> None:
        """The next request may have it."""

    def drop(self, connection: "HoldingConnection") -> None:
        """Closes it."""


class HeldConnections:
    """The connections of one event loop: what they hold, and when they rest.

    Args:
        requests_max: requests in flight at most, at any time.
        origin: what the replies of this process were like.
        receiver: where answers go that were held. Of the requests that it may have out, half as many connections more
            may rest, and at least one.
    """

    def __init__(self, requests_max: int, origin: OriginReplies, receiver: AnswerReceiver) -> None:
        self.requests_max = requests_max
        self._loop = asyncio.get_running_loop()
        self._origin = origin
        self._receiver = receiver
        self._share = HeldShare()
        # What the share is reckoned for.
        self._requests = 0
        # Connections that rest beside the requests in flight.
        self._aside_max = 0
        self._aside = 0
        # Connections that nobody uses, and since when; in the order of these times.
        self.unused: dict[HoldingConnection, float] = {}
        # Those with a request out, and since when, in this order, too.
        self.awaited: dict[HoldingConnection, float] = {}
        self._resting: set[HoldingConnection] = set()
        # Given up, and not gone yet: TLS says good-bye.
        self._ending: dict[HoldingConnection, asyncio.Transport] = {}
        self._sweeper: asyncio.TimerHandle | None = None
        self._last_key: ConnectionKey = None
        self._is_closed = False

    def new_held(self) -> HeldAnswers:
        """For a connection."""
        return HeldAnswers(self._origin, self._share)

    async def close(self) -> None:
        """The job has ended: what is held is lost, and connections that rest, or were given up, are gone."""
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
        """What aiohttp is asked for: the origin. The request line is written when the request is sent."""
        return _origin(address.scheme, address.authority)

    def fields(self) -> list[tuple[str, str]]:
        """None besides those of a request's target."""
        return []

    def check_end(self, attempt: "AsyncAttempt", end: BodyEnd) -> None:
        """A reply is complete: whether its connection can prove whose it is.

        Raises:
            AttemptError: it cannot: the end of the connection is that of the body.
        """
        connection = attempt.connection
        if connection is None:
            raise AttemptError("framing")
        if not end.is_delimited and not attempt.is_certain:
            raise UncertainError("framing")
        # The server was asked to close and does not say that it will: only silence shows whose reply it is.
        connection.is_unannounced = connection.is_last and connection.is_open and not attempt.is_certain

    async def settle(self, target: Target, answer: ReplyAnswer, attempt: "AsyncAttempt") -> ReplyAnswer | None:
        """Takes a reply that has passed `check_end`: gives it back if it is certain, or it is held from now on."""
        connection = attempt.connection
        if connection is None:
            return answer
        certain = self._take(connection, target, answer, attempt.sent_at)
        seconds = self._step(connection)
        if seconds is not None:
            if certain is not None:
                # It need not rest with its connection.
                self._receiver.hold(certain)
                self._receiver.give([certain])
                certain = None
            await self.rest(connection, seconds)
        return certain

    def abandon(self, attempt: "AsyncAttempt") -> None:
        """An attempt has no reply: its connection can't be used any more, also one that aiohttp has released."""
        if attempt.connection is not None:
            self.give_up(attempt.connection)

    def _take(
        self, connection: "HoldingConnection", target: Target, answer: ReplyAnswer, sent_at: float
    ) -> ReplyAnswer | None:
        """Takes a reply, to a request that was sent then: gives it back if it is certain at once."""
        if self._receiver.limit != self._requests:
            self._share_out(self._receiver.limit)
        if connection.held.add(target, answer, sent_at):
            return answer
        self._receiver.hold(answer)
        return None

    def _share_out(self, requests: int) -> None:
        """So many requests may be out: what each connection may hold follows from it."""
        self._requests = requests
        requests = max(1, requests)
        self._share.bytes_max = min(max(_HELD_BYTES_MAX // requests, _SHARE_BYTES_MIN), _SHARE_BYTES_MAX)
        self._share.answers_max = max(1, _HELD_ANSWERS_MAX // requests)
        self._aside_max = resting_connections(requests)

    def _step(self, connection: "HoldingConnection") -> float | None:
        """Behind a reply: how many seconds the connection must rest, or None when nothing more is to be done."""
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
        """Has it rest beside the requests in flight, if that may be; else returns when it has rested."""
        connection.is_kept = True
        is_elsewhere, self._last_key = connection.key != self._last_key, connection.key
        if self._aside < self._aside_max:
            connection.is_aside = True
            self._aside += 1
        elif is_elsewhere and not connection.held:
            # What it brought is certain already, and the next target has another host, probably.
            self._put_back(connection)
            return
        else:
            connection.rested = self._loop.create_future()
        self._begin_rest(connection, seconds)
        if connection.rested is not None:
            await connection.rested

    def look_again(self, connection: "HoldingConnection") -> None:
        """Something has come on an unused connection: the loop will read it and say what it is."""
        self.unused.pop(connection, None)
        self._begin_rest(connection, _LOOK_SECONDS)

    def give_up(self, connection: "HoldingConnection") -> None:
        """It can't be used any more: what it holds is asked for again."""
        self._lose(connection)
        self._drop(connection)

    def _lose(self, connection: "HoldingConnection") -> None:
        """What it holds will never be certain."""
        if connection.is_lost:
            return
        connection.is_lost = True
        held = connection.held
        held_bytes = held.bytes
        targets = held.lose(is_surplus=connection.has_surplus)
        if targets and not self._is_closed:
            self._receiver.ask_again(targets, held_bytes)

    def on_surplus(self, connection: "HoldingConnection") -> None:
        """Bytes came that nobody asked for."""
        self._end_rest(connection)
        self.give_up(connection)

    def on_lost(self, connection: "HoldingConnection") -> None:
        """It has ended. What follows when a request was out is that request's business."""
        self._ending.pop(connection, None)
        self.awaited.pop(connection, None)
        if connection.is_kept:
            self._end_rest(connection)
            self._settle_ended(connection)

    def _settle_ended(self, connection: "HoldingConnection") -> None:
        """The server has closed it behind as many replies as requests, or it broke."""
        if connection.is_broken or connection.has_surplus or connection.is_unannounced:
            self._lose(connection)
        else:
            self._give(connection.held.commit())

    def _end(self, connection: "HoldingConnection") -> float | None:
        """The server ends it: it is read to its end if something is held."""
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
        """What nobody has used for long enough is as certain as what has rested."""
        now, waiting = time.monotonic(), self._waiting()
        for connection, since in list(self.unused.items()):
            if now - since < _SILENCE_MIN_SECONDS:
                break
            if now - since >= connection.held.silence(waiting) and not connection.is_readable():
                del self.unused[connection]
                self._settle_silent(connection)
        self._sweeper = self._loop.call_later(_SWEEP_SECONDS, self._sweep) if self.unused else None

    def _waiting(self) -> float:
        """How long the oldest request that is out has waited for its reply."""
        return time.monotonic() - next(iter(self.awaited.values())) if self.awaited else 0.0

    def _on_rested(self, connection: "HoldingConnection") -> None:
        # The loop's own clock won't do: uvloop's has whole milliseconds, and its timers come up to one too early.
        rested = time.monotonic() - connection.rest_began
        if rested >= connection.rest_seconds and connection.held and not connection.is_ending:
            # It may have turned out that replies can be slower.
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
            # The server ignores that it should close, and was silent for the longest rest. If this was asked for again,
            # the next such connection would hold it, and so on.
            if self._settle_silent(connection):
                self._drop(connection)
        elif self._settle_silent(connection):
            self._put_back(connection)

    def _settle_silent(self, connection: "HoldingConnection") -> bool:
        """It was silent for long enough; whether it can be used again."""
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
        """It is no longer unused, and does not rest."""
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
    """Where a connection leads: for each request the library would take its whole URL apart, which costs much."""
    try:
        return URL(f"{scheme}://{authority}/", encoded=True)
    except ValueError as error:
        raise AttemptError("url", failure_kinds.error_text(error)) from None
