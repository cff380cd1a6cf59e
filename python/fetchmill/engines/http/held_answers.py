"""Answers that wait until it is certain whose they are, and what an unused connection tells.

The rules are the native module's; docs/reference/http-support.md says what they are.
"""

import select
import socket
import ssl
import sys
import time
from dataclasses import dataclass
from enum import Enum

from fetchmill._native import ConnectionReplies, OriginReplies
from fetchmill.engines.answers import Answer, ReplyAnswer
from fetchmill.engines.transports import Target

__all__ = ["HeldAnswers", "HeldShare", "OriginReplies", "Unused", "look", "rest"]

# Bytes of bodies that a connection holds: more would cost memory, and a rest of 50 ms for so many costs little.
_HELD_BYTES_MAX = 256 * 1024
# As `REST_MAX` of certainty.rs: where replies may be slower than it covers, a connection ends after its next one.
_REST_SECONDS_MAX = 1.0


class Unused(Enum):
    """What has come on a connection without a request."""

    QUIET = "nothing"
    SURPLUS = "bytes that nobody asked for"
    CLOSED = "its end"
    BROKEN = "an error"


@dataclass
class HeldShare:
    """What a connection may hold: with more it must rest. Connections share it, and it may change.

    Args:
        bytes_max: bytes of bodies.
        answers_max: answers.
    """

    bytes_max: int = _HELD_BYTES_MAX
    answers_max: int = sys.maxsize


class HeldAnswers:
    """What one connection has brought and is not certain yet; a connection that takes its place begins anew.

    Args:
        origin: what the replies of this process were like.
        share: what it may hold.
    """

    def __init__(self, origin: OriginReplies, share: HeldShare | None = None) -> None:
        self._origin = origin
        self._share = share or HeldShare()
        self._held: list[tuple[Target, ReplyAnswer]] = []
        # Bytes of their bodies.
        self.bytes = 0
        # Whether nothing can be on its way that would be taken for the next reply.
        self.is_next_certain = True
        # Whether the next request asks the server to close the connection.
        self.is_ending = False
        # When the request that is out was sent.
        self.sent_at: float | None = None
        self._replies = ConnectionReplies(self._origin)

    def __len__(self) -> int:
        return len(self._held)

    def add(self, target: Target, answer: ReplyAnswer, started: float) -> list[Answer]:
        """A reply to a request that was sent at `started`: gives it back if it is certain at once."""
        self.is_next_certain = False
        if self._replies.note(started, time.monotonic(), answer.status, answer.retry_after, len(answer.body)):
            return [answer]
        self._held.append((target, answer))
        self.bytes += len(answer.body)
        return []

    def rest_seconds(self) -> float | None:
        """How long the connection must rest before its next request."""
        is_full = self.bytes >= self._share.bytes_max or len(self._held) >= self._share.answers_max
        seconds = self._replies.rest_seconds(is_full, time.monotonic())
        self.is_ending = self._replies.is_ending
        return seconds

    def silence(self, waiting: float) -> float:
        """How long it must be silent until what is held is certain, while another request has waited for so long."""
        return self._replies.silence(waiting)

    def longer_rest(self, seconds: float, waiting: float) -> float:
        """What a rest of so many seconds becomes while another request has waited for so long.

        Not more than the longest rest: replies that wait for room in memory take long, and while what is held rests for
        their sake there is none.
        """
        return max(seconds, min(self.silence(waiting), _REST_SECONDS_MAX))

    def commit(self) -> list[Answer]:
        """The connection was silent, or has ended as it should: what was held."""
        held, self._held, self.bytes = self._held, [], 0
        self._replies.rested()
        self.is_next_certain = True
        return [answer for _, answer in held]

    def lose(self, *, is_surplus: bool) -> list[Target]:
        """The connection is given up: what must be asked for again."""
        if is_surplus:
            self._origin.note_surplus()
        elif self._held:
            self._origin.note_break()
        held, self._held, self.bytes = self._held, [], 0
        self.is_next_certain, self.is_ending = True, False
        self._replies = ConnectionReplies(self._origin)
        return [target for target, _ in held]


def look(connection: socket.socket) -> Unused:
    """What has come, without waiting."""
    timeout = connection.gettimeout()
    connection.settimeout(0)
    try:
        # TLS has no look without taking: what nobody asked for ends the connection anyway.
        is_tls = isinstance(connection, ssl.SSLSocket)
        found = connection.recv(1) if is_tls else connection.recv(1, socket.MSG_PEEK)
    except (BlockingIOError, ssl.SSLWantReadError):
        return Unused.QUIET
    except OSError:
        return Unused.BROKEN
    finally:
        connection.settimeout(timeout)
    return Unused.SURPLUS if found else Unused.CLOSED


def rest(connection: socket.socket, seconds: float) -> Unused:
    """Waits for so long, or until something comes."""
    until = time.monotonic() + seconds
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    while True:
        # Before the look: a thread that is not run in between must look again.
        left = until - time.monotonic()
        unused = look(connection)
        if unused is not Unused.QUIET or left <= 0:
            return unused
        poll.poll(left * 1000)
