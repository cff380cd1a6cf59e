"""Divides the limits of a shared job among its workers.

While an attempt runs, its request rate can be changed, but its share of the per-host limits cannot. An attempt
therefore ends early when an unknown worker appears, and the new worker starts only after that.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fetchmill._shared.heartbeats import FETCHING, Heartbeat


class Shares:
    """One worker's part of the limits. The heartbeat thread writes it, and other threads read it.

    Args:
        worker: the name of this worker.
        options: the options of the job.
        rate: total requests per second of all workers; None for no limit.
    """

    def __init__(self, worker: str, options: Mapping[str, Any], rate: float | None) -> None:
        self.rate = rate
        # Living workers, according to their heartbeats.
        self.workers = frozenset((worker,))
        self._worker = worker
        self._limit_per_host = int(options.get("limit_per_host") or 0)
        # Limits set by the user are never exceeded. Default limits are also divided, but no worker waits for the
        # division.
        self.has_host_limits = bool(self._limit_per_host or options.get("rate_per_host"))

    @property
    def sharers(self) -> int:
        """Number of living workers."""
        return len(self.workers)

    @property
    def is_exclusive(self) -> bool:
        """Whether two workers may not use the same part of a limit even briefly."""
        return self.rate is not None or self.has_host_limits

    @property
    def host_sharers(self) -> int:
        """Number of workers that share the per-host limits, up to `limit_per_host`."""
        return min(self.sharers, self._limit_per_host) if self._limit_per_host else self.sharers

    @property
    def rank(self) -> int:
        """Position of this worker among living workers by name, from 0. The first workers get a limit's remainder.

        A worker's share never grows when another worker appears. The shares therefore stay within the limit even while
        some workers still count others that have ended.
        """
        return sorted(self.workers).index(self._worker)

    @property
    def is_standby(self) -> bool:
        """Whether this worker has no share, because there are more workers than `limit_per_host`."""
        return self.rank >= self.host_sharers

    def rate_of_one(self, attempts: int) -> float | None:
        """Return the requests per second that each attempt of this worker may make."""
        return None if self.rate is None else self.rate / self.sharers / max(attempts, 1)

    def observe(self, living: Iterable[Heartbeat]) -> bool:
        """Record the living workers. Return whether they have changed."""
        before, self.workers = self.workers, frozenset((self._worker, *(each.worker for each in living)))
        return self.workers != before

    def may_start(self, living: Iterable[Heartbeat]) -> bool:
        """Return whether all other workers have made room for this worker, which has not fetched yet."""
        fetching = [each for each in living if each.state in (*FETCHING, "listing")]
        if self.has_host_limits and not all(self._worker in each.knows for each in fetching):
            return False
        return self.rate is None or all(each.sharers >= self.sharers for each in fetching)

    def is_outdated(self, known: frozenset[str]) -> bool:
        """Return whether an attempt that knows only these living workers must end."""
        return self.has_host_limits and (self.is_standby or not self.workers <= known)

    def as_heartbeat(self, known: Sequence[frozenset[str]]) -> dict[str, Any]:
        """Return the values for a heartbeat. `known` contains the workers that each running attempt knows."""
        knows = self.workers.intersection(*known) if self.has_host_limits else ()
        return {"sharers": self.sharers, "knows": sorted(knows)}


class HostShares(Shares):
    """A worker's part of the limits if the list is divided by host. The full limits apply to each of its hosts."""

    def __init__(self, worker: str, options: Mapping[str, Any], rate: float | None) -> None:
        super().__init__(worker, options, rate)
        # No other worker makes requests to the hosts of this worker, so per-host limits are not divided.
        self.has_host_limits = False

    @property
    def is_exclusive(self) -> bool:
        """See `Shares`."""
        return True

    @property
    def host_sharers(self) -> int:
        """See `Shares`."""
        return 1

    @property
    def rank(self) -> int:
        """See `Shares`."""
        return 0
