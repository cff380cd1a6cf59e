"""Heartbeats: which workers of a shared job live, and how many share its limits.

Each worker writes a file of its own. Its age is by the clock of the file system or of the bucket, so that clocks of
machines may differ.
"""

import json
from collections.abc import Mapping
from typing import Any

from fetchmill._quick_dataclass import dataclass
from fetchmill._shared.job_directory import JobDirectory

# Heartbeats in the time of a lease.
BEATS_IN_A_LEASE = 5


@dataclass(frozen=True, kw_only=True)
class Heartbeat:
    """What a worker said of itself last.

    Args:
        worker: its name: host, process and a random part.
        state: `waiting`, `working`, `draining` or `ended`.
        age: seconds since it said so, by the store's clock.
        sharers: among how many workers it divides the job's rate.
        ranges: the ids of the ranges that it has.
        counts: what its attempts counted that are not final yet.
        objects_per_second: outcomes of its attempts, over their time.
    """

    worker: str
    state: str
    age: float
    sharers: int
    ranges: tuple[str, ...]
    counts: Mapping[str, int]
    objects_per_second: float

    def lives(self, lease: float) -> bool:
        """Whether its claims hold."""
        return self.state != "ended" and self.age <= lease


class Heartbeats:
    """The heartbeats in a job directory.

    Args:
        directory: the job directory.
        worker: the name of this process, or of one that only looks.
    """

    def __init__(self, directory: JobDirectory, worker: str) -> None:
        self._store = directory.store
        self._worker = worker
        self._now = 0.0

    def write(self, values: Mapping[str, Any]) -> None:
        """Says how this worker is."""
        self._now = self._store.replace(f"workers/{self._worker}.json", json.dumps(values).encode())

    def read(self) -> list[Heartbeat]:
        """What each worker said last; of what is damaged nothing."""
        found = []
        for file in self._store.contents("workers"):
            age = max(self._now - file.written_at, 0.0)
            heartbeat = _heartbeat(file.name.removesuffix(".json"), file.content, age)
            if heartbeat is not None:
                found.append(heartbeat)
        return found

    def look(self) -> list[Heartbeat]:
        """The same for a process that is not a worker, such as `status`: it asks the store for the time."""
        self._now = self._store.now()
        return self.read()


def _heartbeat(worker: str, content: bytes, age: float) -> Heartbeat | None:
    try:
        values = json.loads(content)
        return Heartbeat(
            worker=worker,
            state=str(values["state"]),
            age=age,
            sharers=int(values["sharers"]),
            ranges=tuple(map(str, values["ranges"])),
            counts={str(name): int(count) for name, count in values["counts"].items()},
            objects_per_second=float(values["objects_per_second"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return None
