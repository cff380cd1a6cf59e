"""Makes one request at a time with the `requests` library, for thread and process workers."""

import socket
import time
from collections import deque
from functools import cached_property
from http.client import HTTPException
from typing import TYPE_CHECKING

from fetchmill.engines.answers import Answer, FailureAnswer, ReplyAnswer, checksum_fields
from fetchmill.engines.http import request_url
from fetchmill.engines.http.blocking_attempt import BlockingAttempt
from fetchmill.engines.http.failure_kinds import AttemptError
from fetchmill.engines.http.framing import BodyEnd
from fetchmill.engines.http.held_answers import HeldAnswers, OriginReplies, Unused, look, rest
from fetchmill.engines.http.libraries import REQUESTS, URLLIB3, untested_notices
from fetchmill.engines.transports import Target, TransportOptions

if TYPE_CHECKING:
    import requests

    from fetchmill.engines.http.urllib3_pools import Session

_PIECE_BYTES = 1 << 16
# Failure kinds of attempts that may have read bytes of another reply.
_MISREAD_KINDS = ("framing", "not-http")


class _RequestsState:
    """The state of one thread.

    Args:
        session: the session with the connection.
        attempt: the attempt, which the layers of the library share.
        held: answers from the connection that are not certain yet.
    """

    def __init__(self, session: "Session", attempt: BlockingAttempt, held: HeldAnswers) -> None:
        self.session = session
        self.attempt = attempt
        self.held = held
        self.again: deque[Target] = deque()

    @property
    def socket(self) -> socket.socket | None:
        """The connection's socket, or None if the connection is not open."""
        return None if self.attempt.connection is None else self.attempt.connection.sock

    def close(self) -> None:
        """Close the connection. The next request opens a new one."""
        if self.attempt.connection is not None:
            self.attempt.connection.close()


class RequestsTransport:
    """An implementation of `BlockingTransport` that can be sent to another process.

    Args:
        options: the options of the job.

    Raises:
        UsageError: the library is not installed.
    """

    def __init__(self, options: TransportOptions) -> None:
        # If there is a notice, each connection is closed after its reply.
        self.notices = untested_notices([REQUESTS, URLLIB3])
        self._options = options
        # The held answers of all threads.
        self._held: list[HeldAnswers] = []

    @cached_property
    def origin_replies(self) -> OriginReplies:
        """Statistics about the replies of all threads of a process."""
        return OriginReplies()

    def held(self) -> int:
        """Return the number of replies that are not certain yet."""
        return sum(map(len, self._held))

    def start(self) -> _RequestsState:
        """Return the state of a thread, including a session with one connection."""
        from fetchmill.engines.http.urllib3_pools import Session

        attempt = BlockingAttempt(self._options, keeps_connections=not self.notices)
        held = HeldAnswers(self.origin_replies)
        self._held.append(held)
        return _RequestsState(Session(attempt), attempt, held)

    def fetch(self, target: Target, state: _RequestsState) -> list[Answer]:
        """Make an attempt at a target, and at any earlier targets that must be requested again."""
        certain = self._look(state)
        state.again.append(target)
        while state.again:
            certain += self._fetch_next(state)
        return certain

    def rest(self, state: _RequestsState, *, is_idle: bool) -> list[Answer]:
        """Wait for the silence after which held answers are certain."""
        certain: list[Answer] = []
        seconds = self._rest_seconds(state, is_idle=is_idle)
        while seconds is not None:
            certain += self._settle(state, self._rest_for(state, seconds))
            # Another rest is necessary only if requests were repeated.
            seconds = None
            while state.again:
                certain += self._fetch_next(state)
                seconds = self._rest_seconds(state, is_idle=is_idle)
        return certain

    def done(self, state: _RequestsState) -> None:
        """Close the connection."""
        state.session.close()

    def _rest_seconds(self, state: _RequestsState, *, is_idle: bool) -> float | None:
        if is_idle:
            return state.held.silence(self._waiting()) if state.held else None
        return state.held.rest_seconds() if state.socket is not None else None

    def _waiting(self) -> float:
        """Return how many seconds the oldest request of any other thread has waited for its reply."""
        now = time.monotonic()
        return max((now - sent_at for held in self._held if (sent_at := held.sent_at) is not None), default=0.0)

    def _rest_for(self, state: _RequestsState, seconds: float) -> Unused:
        """Wait for `seconds`, or longer if replies turn out to be slower than expected."""
        connection = state.socket
        if connection is None:
            return Unused.BROKEN
        rested = 0.0
        while (left := seconds - rested) > 0:
            if (unused := rest(connection, left)) is not Unused.QUIET:
                return unused
            rested = seconds
            seconds = state.held.longer_rest(seconds, self._waiting()) if state.held else seconds
        return Unused.QUIET

    def _look(self, state: _RequestsState) -> list[Answer]:
        """Handle bytes that have arrived since the last request. Called before a request."""
        connection = state.socket
        unused = Unused.QUIET if connection is None else look(connection)
        return [] if unused is Unused.QUIET else self._settle(state, unused)

    def _settle(self, state: _RequestsState, unused: Unused) -> list[Answer]:
        """Handle an event on a connection without a request, and return the answers that are now certain."""
        if unused in (Unused.QUIET, Unused.CLOSED):
            certain = state.held.commit()
        else:
            certain = []
            state.again += state.held.lose(is_surplus=unused is Unused.SURPLUS)
        if unused is not Unused.QUIET:
            state.close()
        return certain

    def _fetch_next(self, state: _RequestsState) -> list[Answer]:
        target = state.again.popleft()
        try:
            state.attempt.begin(request_url.parse(target.url))
        except AttemptError as failure:
            # No connection was used, so held answers have not changed.
            return [FailureAnswer(target.sequence, failure.kind, failure.detail)]
        was_ending, is_certain = state.held.is_ending, state.held.is_next_certain
        state.held.sent_at = started = time.monotonic()
        answer = self._ask(target, state)
        state.held.sent_at = None
        attempt = state.attempt
        if not attempt.is_reused:
            # The answers of the previous connection can no longer become certain.
            state.again += state.held.lose(is_surplus=False)
        if isinstance(answer, FailureAnswer):
            # Close the connection. Otherwise, its next reply would count as its first.
            state.close()
            state.again += state.held.lose(is_surplus=False)
            is_misread = answer.kind in _MISREAD_KINDS or (answer.kind == "body-too-large" and not is_certain)
            if attempt.is_reused and is_misread:
                # The bytes may have belonged to an earlier reply. On a new connection, the reply is certain.
                state.again.append(target)
                return []
            return [answer]
        certain = state.held.add(target, answer, started)
        unused = self._after_reply(state, was_ending=was_ending)
        return certain if unused is Unused.QUIET else certain + self._settle(state, unused)

    def _after_reply(self, state: _RequestsState, *, was_ending: bool) -> Unused:
        """Return the state of a connection after a complete reply."""
        reply = state.attempt.reply
        if reply.has_surplus:
            return Unused.SURPLUS
        if reply.is_ended or not state.attempt.keeps_connections:
            return Unused.CLOSED
        # The server was asked to close after this reply. If it did not, the reply may belong to an earlier request.
        return Unused.BROKEN if state.socket is None or was_ending else Unused.QUIET

    def _ask(self, target: Target, state: _RequestsState) -> ReplyAnswer | FailureAnswer:
        try:
            fields = target.headers()
            if state.held.is_ending or not state.attempt.keeps_connections:
                fields = [*fields, ("Connection", "close")]
            reply, end = state.session.ask(fields)
            try:
                body = self._read(reply, end, state.attempt)
            except BaseException:
                reply.close()
                raise
            state.attempt.end_reply()
            reply.raw.release_conn()
        except AttemptError as failure:
            return FailureAnswer(target.sequence, failure.kind, failure.detail)
        finally:
            state.attempt.close_reply()
        return ReplyAnswer.of(
            target.sequence,
            reply.status_code,
            body,
            reply.headers,
            is_verified=end.is_delimited,
            checksums=checksum_fields(reply.headers),
        )

    def _read(self, reply: "requests.Response", end: BodyEnd, attempt: BlockingAttempt) -> bytes:
        """Read the body without decoding it.

        Raises:
            AttemptError: the body is too large or broken.
        """
        from urllib3.exceptions import HTTPError

        if end.length is not None and end.length > self._options.max_size:
            raise AttemptError("body-too-large")
        body = bytearray()
        try:
            for piece in reply.raw.stream(_PIECE_BYTES, decode_content=False):
                body += piece
                if len(body) > self._options.max_size:
                    raise AttemptError("body-too-large")
        except (HTTPError, HTTPException, OSError, ValueError):
            raise AttemptError("truncated" if attempt.reply.is_cut else "framing") from None
        if end.is_delimited and attempt.reply.is_cut:
            raise AttemptError("truncated")
        return bytes(body)
