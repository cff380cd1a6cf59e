"""Detects that an attempt is stuck.

A stuck attempt gets no outcome for much longer than before, for example because the machine has lost its network.
"""

import time

# Time without an outcome after which an attempt may be stuck.
STUCK_SECONDS = 2.0
# Limit before the first outcome, when reply times are unknown, and upper limit for slow replies.
STUCK_SECONDS_MAX = 10.0
# An attempt counts as stuck after this many times its longest wait for an outcome so far, within the limits above.
_WAITS = 3.0


class AttemptProgress:
    """The outcomes of an attempt over time."""

    def __init__(self) -> None:
        self._settled = 0
        self._since = time.monotonic()
        self._longest = STUCK_SECONDS_MAX

    def note(self, settled: int) -> None:
        """Record the number of outcomes so far."""
        if settled <= self._settled:
            return
        now = time.monotonic()
        waited = now - self._since
        self._longest = waited if self._settled == 0 else max(self._longest, waited)
        self._settled, self._since = settled, now

    def is_stuck(self) -> bool:
        """Return whether the attempt is stuck."""
        limit = min(max(STUCK_SECONDS, _WAITS * self._longest), STUCK_SECONDS_MAX)
        return time.monotonic() - self._since > limit
