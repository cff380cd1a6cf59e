"""The pace of a worker, which is its number of requests per second to an origin that throttles.

Each attempt is a job, and each job learns this pace from the requests that the origin refuses. If an attempt began
without a pace, its requests would be refused for several seconds. A worker therefore passes its pace from one attempt
to the next, and a new worker takes over a share of the other workers' pace.
"""

from collections.abc import Iterable, Sequence
from typing import Protocol

from fetchmill._shared.heartbeats import Heartbeat


class AttemptWithPace(Protocol):
    """An attempt with a pace."""

    def pace(self) -> float | None:
        """Return the pace in requests per second; None if the origin does not throttle."""

    def set_pace(self, per_second: float) -> None:
        """Set the requests per second to the origin while the origin throttles."""


class OriginPace:
    """The pace of one worker. The caller ensures that only one thread at a time uses it."""

    def __init__(self) -> None:
        # The total for all attempts, in requests per second. None if the origin does not throttle.
        self.per_second: float | None = None

    def note(self, attempts: Sequence[AttemptWithPace]) -> bool:
        """Update the pace from the attempts. Return whether it is new and must be divided among several attempts."""
        found = [attempt.pace() for attempt in attempts]
        if len(found) == 1:
            # If there are several attempts, one of them is near its end and does not use its part. The sum would then
            # be too low.
            self.per_second = found[0]
        elif self.per_second is None and any(found):
            self.per_second = sum(pace or 0.0 for pace in found)
            return True
        return False

    def take_over(self, peers: Iterable[Heartbeat]) -> None:
        """If this worker has no pace, use an equal share of the other workers' pace."""
        paces = [each.pace for each in peers if each.pace is not None]
        if self.per_second is None and paces:
            self.per_second = sum(paces) / (len(paces) + 1)

    def divide(self, attempts: Sequence[AttemptWithPace]) -> None:
        """Divide the pace among the attempts of this worker."""
        if self.per_second is None:
            return
        for attempt in attempts:
            attempt.set_pace(self.per_second / len(attempts))

    def scale(self, before: int, after: int) -> None:
        """Adapt the pace to a new number of workers, which share the origin's capacity."""
        if self.per_second is not None:
            self.per_second *= before / after
