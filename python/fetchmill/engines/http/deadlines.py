"""The deadlines of an attempt: one for its current phase, and one for the whole attempt."""

import time

from fetchmill.engines.transports import TransportOptions

# A body extends the total deadline by one second for this number of bytes.
_BYTES_A_SECOND = 1 << 16


class Deadlines:
    """The deadlines of one attempt, on the monotonic clock."""

    def __init__(self, options: TransportOptions) -> None:
        self._options = options
        self._total = time.monotonic() + options.total_timeout
        self.on_connect()

    def on_connect(self) -> None:
        """Called when a connection begins."""
        self._enter("connect-timeout", self._options.connect_timeout)

    def on_connect_phase(self, kind: str) -> None:
        """Called when connecting enters a part with its own failure kind. All parts share one deadline."""
        self._kind = kind

    def on_request_sent(self) -> None:
        """Called when the request is sent."""
        self._enter("head-timeout", self._options.head_timeout)

    def on_head(self) -> None:
        """Called when the head has arrived."""
        self._enter("idle-timeout", self._options.idle_timeout)

    def on_bytes(self, count: int) -> None:
        """Called when bytes of the body have arrived."""
        self._total += count / _BYTES_A_SECOND
        self._enter("idle-timeout", self._options.idle_timeout)

    def on_waited(self, seconds: float) -> None:
        """Extend the deadlines by a time in which this process did not read. The server did not cause this delay."""
        self._total += seconds
        self._until += seconds

    @property
    def until(self) -> float:
        """The time at which the attempt is too slow."""
        return min(self._until, self._total)

    def remaining(self) -> tuple[float, str]:
        """Return the remaining seconds (0 or less if it is too late), and the failure kind after that time."""
        until, kind = min((self._until, self._kind), (self._total, "total-timeout"))
        return until - time.monotonic(), kind

    def _enter(self, kind: str, seconds: float) -> None:
        self._kind = kind
        self._until = time.monotonic() + seconds
