"""Heartbeats, which show which workers of a shared job are alive and how many of them share its limits.

Each worker writes its own file. The age of a file is measured by the clock of the file system or bucket, so the
machines' clocks may differ.
"""

import json
from collections.abc import Mapping
from typing import Any

from fetchmill._quick_dataclass import dataclass
from fetchmill._shared.job_directory import JobDirectory

# Number of heartbeats per lease.
BEATS_IN_A_LEASE = 5
# States of a worker that is fetching or may start to fetch.
FETCHING = ("working", "waiting", "standby", "draining")

# Values for the heartbeat of a process without attempts.
_IDLE: Mapping[str, Any] = {
    "sharers": 1,
    "knows": [],
    "ranges": [],
    "stuck": [],
    "left": None,
    "counts": {},
    "objects_per_second": 0.0,
    "pace": None,
    "listed": None,
    "lease": None,
    "discarded": 0,
    "settled": {},
}


@dataclass(frozen=True, kw_only=True)
class Heartbeat:
    """The last heartbeat of a worker.

    Args:
        worker: name of the worker: host, process and a random part.
        state: `waiting`, `working`, `standby`, `draining` or `ended`; `listing` before there is a job.
        age: seconds since the heartbeat, according to the store's clock.
        sharers: number of workers among which this worker divides the job's rate.
        knows: names of the workers among which this worker divides the limits for each host; empty if the job has no
            such limits.
        ranges: the ids of the worker's ranges.
        stuck: the ids of the worker's stuck ranges. Another worker may also fetch these.
        left: number of open ranges without a living worker, as far as this worker knows; None before its first claim.
        counts: counts of the worker's attempts that are not final yet.
        objects_per_second: outcomes per second of these attempts.
        pace: requests per second that the worker makes to a throttling origin; None if the origin does not throttle.
        listed: number of rows that the worker has added to the source's list; None if the worker does not list.
        lease: lease in seconds of a process that lists before there is a job; None for all other processes.
        discarded: number of outcomes in attempts of the worker that have ended without becoming final.
        settled: number of outcomes in the current attempts, by range id.
    """

    worker: str
    state: str
    age: float
    sharers: int
    knows: frozenset[str]
    ranges: tuple[str, ...]
    stuck: frozenset[str]
    left: int | None
    counts: Mapping[str, int]
    objects_per_second: float
    pace: float | None
    listed: int | None
    lease: float | None
    discarded: int
    settled: Mapping[str, int]

    def lives(self, lease: float) -> bool:
        """Return whether the claims of the worker are still valid."""
        return self.state != "ended" and self.age <= lease


class Heartbeats:
    """The heartbeats in a job directory.

    Args:
        directory: the job directory.
        worker: the name of this process. A process that only reads heartbeats may use any name.
    """

    def __init__(self, directory: JobDirectory, worker: str) -> None:
        self._store = directory.store
        self._worker = worker
        self._now = 0.0

    def write(self, values: Mapping[str, Any]) -> None:
        """Write the heartbeat of this worker."""
        self._now = self._store.replace(f"workers/{self._worker}.json", json.dumps({**_IDLE, **values}).encode())

    def read(self) -> list[Heartbeat]:
        """Return the last heartbeat of each worker. Damaged files are ignored."""
        found = []
        for file in self._store.contents("workers"):
            age = max(self._now - file.written_at, 0.0)
            heartbeat = _heartbeat(file.name.removesuffix(".json"), file.content, age)
            if heartbeat is not None:
                found.append(heartbeat)
        return found

    def look(self) -> list[Heartbeat]:
        """Read heartbeats in a process that is not a worker, such as `status`. Ask the store for its time first."""
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
            knows=frozenset(map(str, values["knows"])),
            ranges=tuple(map(str, values["ranges"])),
            stuck=frozenset(map(str, values["stuck"])),
            left=None if values["left"] is None else int(values["left"]),
            counts={str(name): int(count) for name, count in values["counts"].items()},
            objects_per_second=float(values["objects_per_second"]),
            pace=None if values["pace"] is None else float(values["pace"]),
            listed=None if values["listed"] is None else int(values["listed"]),
            lease=None if values["lease"] is None else float(values["lease"]),
            discarded=int(values["discarded"]),
            settled={str(range_id): int(count) for range_id, count in values["settled"].items()},
        )
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return None
