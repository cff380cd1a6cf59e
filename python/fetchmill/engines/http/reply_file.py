"""Reads replies from a blocking connection, with the deadlines of an attempt."""

import io
import socket
from typing import TYPE_CHECKING, Any, TypeAlias

from fetchmill.engines.http import failure_kinds
from fetchmill.engines.http.failure_kinds import AttemptError

if TYPE_CHECKING:
    from fetchmill.engines.http.blocking_attempt import BlockingAttempt

# Time limit for a server to close a connection. After that, the server may not have sent everything.
_CLOSE_SECONDS = 1.0
# A `bytearray` or a `memoryview`.
Buffer: TypeAlias = Any


class ReplyFile(io.BufferedReader):
    """A reply as a file that `http.client` reads.

    `http.client` closes the file right after the body, but the attempt still has to check for unsolicited bytes.
    Therefore, the file stays open until `finish`.

    Args:
        connection: the reply's connection.
        attempt: the attempt, which contains the deadlines and counts the bytes.
    """

    def __init__(self, connection: socket.socket, attempt: "BlockingAttempt") -> None:
        self._reader = _DeadlineReader(connection, attempt)
        super().__init__(self._reader)

    def look(self, *, until_closed: bool) -> tuple[bool, bool]:
        """Return whether bytes follow the body, and whether the connection ended without additional bytes."""
        self._reader.is_over = True
        if self.peek(1):
            return True, False
        return self._reader.wait_for_end() if until_closed else (False, False)

    def close(self) -> None:
        """Do nothing; see the class."""

    def finish(self) -> None:
        """Close the file, and the connection if all other users have closed it."""
        super().close()


class _DeadlineReader(io.RawIOBase):
    """The bytes of one reply. The time limit for each read is the attempt's remaining time."""

    def __init__(self, connection: socket.socket, attempt: "BlockingAttempt") -> None:
        self._connection = connection
        self._raw = connection.makefile("rb", buffering=0)
        self._attempt = attempt
        # Whether the reply is complete, after which nothing is read.
        self.is_over = False

    def wait_for_end(self) -> tuple[bool, bool]:
        """Wait for the end. Return whether more bytes arrive, and whether the connection ends without more bytes."""
        try:
            self._connection.settimeout(_CLOSE_SECONDS)
            found = self._raw.read(1)
        except OSError:
            return False, False
        return bool(found), found == b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer) -> int | None:
        if self.is_over:
            return None
        seconds, kind = self._attempt.deadlines.remaining()
        if seconds <= 0:
            raise AttemptError(kind)
        try:
            self._connection.settimeout(seconds)
            count = self._raw.readinto(buffer) or 0
        except TimeoutError as error:
            raise AttemptError(kind if error.errno is None else self._attempt.read_failure_kind(error)) from None
        except OSError as error:
            raise AttemptError(self._attempt.read_failure_kind(error), failure_kinds.error_text(error)) from None
        self._attempt.on_bytes(count)
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()
