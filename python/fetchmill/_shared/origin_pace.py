"""The requests per second that a worker makes to an origin that throttles.

Each attempt is a job, and each job finds this pace by what the origin refuses. An attempt that began without a pace
would be refused for seconds. So a worker hands its pace from one attempt to the next, and a new worker takes over the
pace of the others.
"""

from collections.abc import Iterable, Sequence
from typing import Protocol

from fetchmill._shared.heartbeats import Heartbeat


class AttemptWithPace(Protocol):
    """An attempt with a pace."""

    def pace(self) -> float | None:
        """Return the requests per second that the origin gets; None if it does not throttle."""

    def set_pace(self, per_second: float) -> None:
        """Set the requests per second that the origin gets while it throttles."""


class OriginPace:
    """The pace of one worker. The caller protects it from use by two threads at once."""

    def __init__(self) -> None:
        # Of all attempts together, in requests per second. None if the origin does not throttle.
        self.per_second: float | None = None

    def note(self, attempts: Sequence[AttemptWithPace]) -> bool:
        """Note what the attempts have found. Return whether they must divide it: it is new, and only some have it."""
        found = [attempt.pace() for attempt in attempts]
        if len(found) == 1:
            # Of several, one is at its end and does not use its part.
            self.per_second = found[0]
        elif self.per_second is None and any(found):
            self.per_second = sum(pace or 0.0 for pace in found)
            return True
        return False

    def take_over(self, peers: Iterable[Heartbeat]) -> None:
        """Take an equal part of the pace of the other workers, if this worker has none."""
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
        """Adapt the pace to a new number of workers, which share what the origin gives."""
        if self.per_second is not None:
            self.per_second *= before / after
