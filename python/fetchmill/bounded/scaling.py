"""Decides when to start another worker, from numbers that the caller passes. It uses no clock or lock of its own."""

from fetchmill.bounded.failures import check_count


class Scaler:
    """Counts workers, and decides how many more to start on demand, up to `limit`.

    Starts are slow (`is_slow`) if each one creates a client or a process. In that case, the number of workers starting
    at the same time is limited to the number of ready workers plus one. A start often needs CPU time, so a hundred
    simultaneous starts would delay the ready workers. After the input has ended, a new worker is not started if the
    others would finish before it is ready.
    """

    def __init__(self, limit: int, *, is_slow: bool, is_paced: bool) -> None:
        check_count("limit", limit)
        self.limit = limit
        self.idle = 0
        self.ready = 0
        self.starting = 0
        self._is_slow = is_slow
        self._is_paced = is_paced
        self._start_seconds = _MovingAverage(weight=0.5)
        self._call_seconds = _MovingAverage(weight=0.125)

    def scale_up(self, waiting: int, *, is_ended: bool) -> int:
        """Return how many workers to start for `waiting` items, and count these workers as starting."""
        # With a rate limit, items are taken one at a time, so a second idle worker would have nothing to do.
        wanted = min(waiting, 1) if self._is_paced else waiting
        number = min(wanted - self.idle - self.starting, self.limit - self.ready - self.starting)
        if self._is_slow:
            number = min(number, self.ready + 1 - self.starting)
            if is_ended and not self._is_worthwhile(waiting):
                number = 0
        number = max(number, 0)
        self.starting += number
        return number

    def on_started(self, seconds: float) -> None:
        """Record that a worker is ready and idle, `seconds` after its start."""
        self.starting -= 1
        self.ready += 1
        self.idle += 1
        self._start_seconds.add(seconds)

    def on_start_failed(self) -> None:
        """Record that a worker could not be started."""
        self.starting -= 1

    def on_taken(self) -> None:
        """Record that an idle worker has taken an item."""
        self.idle -= 1

    def on_call_done(self, seconds: float) -> None:
        """Record that a worker is idle again after a call that took `seconds`."""
        self.idle += 1
        self._call_seconds.add(seconds)

    def on_returned(self) -> None:
        """Record that a worker is idle again without having called the function."""
        self.idle += 1

    def on_left(self) -> None:
        """Record that an idle worker has ended."""
        self.ready -= 1
        self.idle -= 1

    def _is_worthwhile(self, waiting: int) -> bool:
        """Return whether the waiting items would keep the ready workers busy for more than twice the start time."""
        if not self.ready or self._call_seconds.value is None or self._start_seconds.value is None:
            return True
        return waiting * self._call_seconds.value / self.ready > 2 * self._start_seconds.value


class _MovingAverage:
    """A mean that gives recent values more weight, because starts take longer if many happen at the same time."""

    def __init__(self, *, weight: float) -> None:
        self._weight = weight
        self.value: float | None = None

    def add(self, value: float) -> None:
        self.value = value if self.value is None else self.value + (value - self.value) * self._weight
