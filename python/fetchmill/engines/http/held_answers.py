"""Holds answers until it is certain to which requests they belong, and checks unused connections.

The native module applies the same rules, which docs/reference/http-support.md describes.
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

# Maximum total size of the bodies that a connection holds. A higher limit would use more memory for little gain,
# because resting for 50 ms after this many bytes is cheap.
_HELD_BYTES_MAX = 256 * 1024
# The same as `REST_MAX` in certainty.rs. If replies can be slower than this, a connection ends after its next reply.
_REST_SECONDS_MAX = 1.0


class Unused(Enum):
    """Events on a connection without a request in flight."""

    QUIET = "nothing"
    SURPLUS = "unsolicited bytes"
    CLOSED = "its end"
    BROKEN = "an error"


@dataclass
class HeldShare:
    """Limits for the held answers of a connection, beyond which it must rest.

    Connections share this object, and its values can change.

    Args:
        bytes_max: maximum bytes of bodies.
        answers_max: maximum number of answers.
    """

    bytes_max: int = _HELD_BYTES_MAX
    answers_max: int = sys.maxsize


class HeldAnswers:
    """The uncertain answers of a connection. The history starts over when a new connection replaces the old one.

    Args:
        origin: statistics about the replies of this process.
        share: the limits for held answers.
    """

    def __init__(self, origin: OriginReplies, share: HeldShare | None = None) -> None:
        self._origin = origin
        self._share = share or HeldShare()
        self._held: list[tuple[Target, ReplyAnswer]] = []
        # Total size of the bodies of held answers in bytes.
        self.bytes = 0
        # Whether no bytes can arrive that would be mistaken for the next reply.
        self.is_next_certain = True
        # Whether the next request asks the server to close the connection.
        self.is_ending = False
        # Time at which the current request was sent, or None without a request.
        self.sent_at: float | None = None
        self._replies = ConnectionReplies(self._origin)

    def __len__(self) -> int:
        return len(self._held)

    def add(self, target: Target, answer: ReplyAnswer, started: float) -> list[Answer]:
        """Add a reply to a request that was sent at `started`. Return the reply if it is certain immediately."""
        self.is_next_certain = False
        if self._replies.note(started, time.monotonic(), answer.status, answer.retry_after, len(answer.body)):
            return [answer]
        self._held.append((target, answer))
        self.bytes += len(answer.body)
        return []

    def rest_seconds(self) -> float | None:
        """Return the seconds that the connection must rest before its next request, or None for no rest."""
        is_full = self.bytes >= self._share.bytes_max or len(self._held) >= self._share.answers_max
        seconds = self._replies.rest_seconds(is_full, time.monotonic())
        self.is_ending = self._replies.is_ending
        return seconds

    def silence(self, waiting: float) -> float:
        """Return the seconds of silence after which held answers are certain.

        Args:
            waiting: seconds that another request has waited for its reply.
        """
        return self._replies.silence(waiting)

    def longer_rest(self, seconds: float, waiting: float) -> float:
        """Extend a rest of `seconds` if another request has waited for `waiting` seconds. Return the new duration.

        The duration is limited, because replies that wait for memory take a long time, and held answers do not free
        memory while their connection rests.
        """
        return max(seconds, min(self.silence(waiting), _REST_SECONDS_MAX))

    def commit(self) -> list[Answer]:
        """Return the held answers, which are now certain because the connection was silent or ended properly."""
        held, self._held, self.bytes = self._held, [], 0
        self._replies.rested()
        self.is_next_certain = True
        return [answer for _, answer in held]

    def lose(self, *, is_surplus: bool) -> list[Target]:
        """Return the targets to request again, because the connection is abandoned."""
        if is_surplus:
            self._origin.note_surplus()
        elif self._held:
            self._origin.note_break()
        held, self._held, self.bytes = self._held, [], 0
        self.is_next_certain, self.is_ending = True, False
        self._replies = ConnectionReplies(self._origin)
        return [target for target, _ in held]


def look(connection: socket.socket) -> Unused:
    """Return what has happened on the connection, without waiting."""
    timeout = connection.gettimeout()
    connection.settimeout(0)
    try:
        # With TLS, bytes cannot be checked without reading them. This is harmless, because unsolicited bytes end the
        # connection anyway.
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
    """Wait for up to `seconds`, until something happens on the connection."""
    until = time.monotonic() + seconds
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    while True:
        # Read the clock before checking, so that a thread that is suspended in between checks again when it continues.
        left = until - time.monotonic()
        unused = look(connection)
        if unused is not Unused.QUIET or left <= 0:
            return unused
        poll.poll(left * 1000)
