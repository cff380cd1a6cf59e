"""When an attempt is too slow: one deadline for the phase that it is in, and one for all of it."""

import time

from fetchmill.engines.transports import TransportOptions

# A body has one second more for each of these.
_BYTES_A_SECOND = 1 << 16


class Deadlines:
    """Of one attempt, by the monotonic clock."""

    def __init__(self, options: TransportOptions) -> None:
        self._options = options
        self._total = time.monotonic() + options.total_timeout
        self.on_connect()

    def on_connect(self) -> None:
        """A connection begins."""
        self._enter("connect-timeout", self._options.connect_timeout)

    def on_connect_phase(self, kind: str) -> None:
        """It has come to a part that has a failure kind of its own; all parts share one deadline."""
        self._kind = kind

    def on_request_sent(self) -> None:
        """The request is sent."""
        self._enter("head-timeout", self._options.head_timeout)

    def on_head(self) -> None:
        """The head is there."""
        self._enter("idle-timeout", self._options.idle_timeout)

    def on_bytes(self, count: int) -> None:
        """Bytes of the body came."""
        self._total += count / _BYTES_A_SECOND
        self._enter("idle-timeout", self._options.idle_timeout)

    def on_waited(self, seconds: float) -> None:
        """So long we have not read what is there: that is not the server's time."""
        self._total += seconds
        self._until += seconds

    @property
    def until(self) -> float:
        """When the attempt is too slow."""
        return min(self._until, self._total)

    def remaining(self) -> tuple[float, str]:
        """Seconds that are left, 0 or less when it is too late; and the failure kind when they have passed."""
        until, kind = min((self._until, self._kind), (self._total, "total-timeout"))
        return until - time.monotonic(), kind

    def _enter(self, kind: str, seconds: float) -> None:
        self._kind = kind
        self._until = time.monotonic() + seconds
