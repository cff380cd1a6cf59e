"""A rate: so many items a second, evenly. No clock of its own: time is an argument."""

import math

# How far behind it may run to catch up: a sleep ends some milliseconds late, a thread waits for the interpreter.
SLACK_SECONDS = 0.02


class RateLimiter:
    """The generic cell rate algorithm (GCRA): moments at even distances, one for each item.

    >>> limiter = RateLimiter(10)
    >>> [round(limiter.reserve(0.0), 1) for _ in range(4)]
    [0.0, 0.1, 0.2, 0.3]
    """

    def __init__(self, rate: float) -> None:
        if not (rate > 0 and math.isfinite(rate)):
            raise ValueError(f"rate is {rate!r}: give a number above 0, in items a second")
        self._seconds = 1 / rate
        self._next: float | None = None

    def reserve(self, now: float) -> float:
        """Takes the next moment; how long it is until then, in seconds."""
        moment = now if self._next is None else max(self._next, now - SLACK_SECONDS)
        self._next = moment + self._seconds
        return max(0.0, moment - now)


def make_rate_limiter(rate: float | None) -> RateLimiter | None:
    """None for no rate."""
    return None if rate is None else RateLimiter(rate)
