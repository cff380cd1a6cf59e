"""When another worker is worth starting. No clock, no lock: numbers in, a number out."""

from fetchmill.bounded.failures import check_count


class Scaler:
    """Counts workers and says how many more to start: on demand, never more than `limit`.

    Where a start is slow (`is_slow`: a client is made, a process is started), as many start at once as are ready, and
    one more: starts often use the processor, and a hundred at once would hold up the workers that are ready. When the
    input has ended, none is started that would be ready only after the others are through.
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
        """How many to start now for so many items that wait, counted as starting from here on."""
        # With a rate one takes an item after the other; a second idle one would have nothing to do.
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
        """One is ready, so many seconds after it was started, and idle."""
        self.starting -= 1
        self.ready += 1
        self.idle += 1
        self._start_seconds.add(seconds)

    def on_start_failed(self) -> None:
        """One could not be started."""
        self.starting -= 1

    def on_taken(self) -> None:
        """One that was idle has an item."""
        self.idle -= 1

    def on_call_done(self, seconds: float) -> None:
        """It is idle again, after so many seconds."""
        self.idle += 1
        self._call_seconds.add(seconds)

    def on_returned(self) -> None:
        """It is idle again, and has done nothing."""
        self.idle += 1

    def on_left(self) -> None:
        """One that was idle is gone."""
        self.ready -= 1
        self.idle -= 1

    def _is_worthwhile(self, waiting: int) -> bool:
        """Whether what waits keeps those that are ready busy for twice as long as a start takes."""
        if not self.ready or self._call_seconds.value is None or self._start_seconds.value is None:
            return True
        return waiting * self._call_seconds.value / self.ready > 2 * self._start_seconds.value


class _MovingAverage:
    """A mean in which the latest values count most: starts take the longer the more there are at once."""

    def __init__(self, *, weight: float) -> None:
        self._weight = weight
        self.value: float | None = None

    def add(self, value: float) -> None:
        self.value = value if self.value is None else self.value + (value - self.value) * self._weight
