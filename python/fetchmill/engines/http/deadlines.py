"""The deadlines of an attempt: one for its current phase, and one for the whole attempt."""

import time

from fetchmill.engines.transports import TransportOptions

# Number of body bytes for which the total deadline is extended by one second.
_BYTES_A_SECOND = 1 << 16


class Deadlines:
    """The deadlines of one attempt, on the monotonic clock."""

    def __init__(self, options: TransportOptions) -> None:
        self._options = options
        self._total = time.monotonic() + options.total_timeout
        self.on_connect()

    def on_connect(self) -> None:
        """Start the deadline for connecting."""
        self._enter("connect-timeout", self._options.connect_timeout)

    def on_connect_phase(self, kind: str) -> None:
        """Record the start of a connection phase. `kind` is the failure kind if the attempt times out in this phase.

        All phases share one deadline.
        """
        self._kind = kind

    def on_request_sent(self) -> None:
        """Start the deadline for the head. Called when the request is sent."""
        self._enter("head-timeout", self._options.head_timeout)

    def on_head(self) -> None:
        """Start the deadline for the next bytes. Called when the head has arrived."""
        self._enter("idle-timeout", self._options.idle_timeout)

    def on_bytes(self, count: int) -> None:
        """Extend the deadlines. Called when bytes of the body have arrived."""
        self._total += count / _BYTES_A_SECOND
        self._enter("idle-timeout", self._options.idle_timeout)

    def on_waited(self, seconds: float) -> None:
        """Extend the deadlines by a delay that this process caused by not reading."""
        self._total += seconds
        self._until += seconds

    @property
    def until(self) -> float:
        """The time at which the next deadline expires."""
        return min(self._until, self._total)

    def remaining(self) -> tuple[float, str]:
        """Return the seconds until the next deadline (0 or less if it has expired), and its failure kind."""
        until, kind = min((self._until, self._kind), (self._total, "total-timeout"))
        return until - time.monotonic(), kind

    def _enter(self, kind: str, seconds: float) -> None:
        self._kind = kind
        self._until = time.monotonic() + seconds
