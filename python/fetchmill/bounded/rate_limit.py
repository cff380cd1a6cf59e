"""A limit on items per second, evenly spaced. The caller passes the current time."""

import math

# Maximum delay in seconds that the limiter makes up for. Delays occur if a sleep ends a few milliseconds late, or if a
# thread waits for the GIL.
SLACK_SECONDS = 0.02


class RateLimiter:
    """The generic cell rate algorithm (GCRA), which gives each item a start time at even intervals.

    >>> limiter = RateLimiter(10)
    >>> [round(limiter.reserve(0.0), 1) for _ in range(4)]
    [0.0, 0.1, 0.2, 0.3]
    """

    def __init__(self, rate: float) -> None:
        if not (rate > 0 and math.isfinite(rate)):
            raise ValueError(f"rate must be a number of items per second above 0, not {rate!r}")
        self._seconds = 1 / rate
        self._next: float | None = None

    def reserve(self, now: float) -> float:
        """Reserve the next start time, and return the seconds until then."""
        moment = now if self._next is None else max(self._next, now - SLACK_SECONDS)
        self._next = moment + self._seconds
        return max(0.0, moment - now)


def make_rate_limiter(rate: float | None) -> RateLimiter | None:
    """Return a limiter for `rate`, or None if `rate` is None."""
    return None if rate is None else RateLimiter(rate)
