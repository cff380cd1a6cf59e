"""Detects that an attempt is stuck.

A stuck attempt gets no outcome for much longer than before, for example because the machine has lost its network.
"""

import time

# Minimum time without an outcome before an attempt counts as stuck.
STUCK_SECONDS = 1.0
# Limit before the first outcome, when reply times are unknown, and upper limit for slow replies.
STUCK_SECONDS_MAX = 10.0
# An attempt counts as stuck if it waits this many times as long as its longest wait so far, within the limits above.
_WAITS = 3.0


class AttemptProgress:
    """The outcomes of an attempt over time.

    Args:
        longest: longest wait for an outcome in the worker's previous attempt. It applies until the first outcome.
        silent: seconds for which the worker's other attempts have already waited for an outcome.
    """

    def __init__(self, longest: float = STUCK_SECONDS_MAX, silent: float = 0.0) -> None:
        self._settled = 0
        self._started = time.monotonic()
        self._since = self._started - silent
        self._longest = longest

    def following(self, *, is_waiting: bool) -> "AttemptProgress":
        """Return the progress of the worker's next attempt. If this attempt is stuck, so is the next one.

        Args:
            is_waiting: whether this attempt is waiting for outcomes.
        """
        return AttemptProgress(self._longest, time.monotonic() - self._since if is_waiting else 0.0)

    def note(self, settled: int) -> None:
        """Record the number of outcomes so far."""
        if settled <= self._settled:
            return
        now = time.monotonic()
        self._longest = now - self._started if self._settled == 0 else max(self._longest, now - self._since)
        self._settled, self._since = settled, now

    def is_stuck(self) -> bool:
        """Return whether the attempt is stuck."""
        limit = min(max(STUCK_SECONDS, _WAITS * self._longest), STUCK_SECONDS_MAX)
        return time.monotonic() - self._since > limit
