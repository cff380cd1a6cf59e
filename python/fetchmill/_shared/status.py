"""Determines the status of a shared job: its progress from commit records, and its workers from heartbeats."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, field
from typing import Any, Self

from fetchmill._quick_dataclass import dataclass
from fetchmill._shared.heartbeats import FETCHING, Heartbeat, Heartbeats
from fetchmill._shared.job_directory import JobDirectory
from fetchmill._shared.records import (
    COUNTS,
    NAMED_COUNTS,
    OUTCOMES,
    CommitRecord,
    JobRecord,
    ListingTotals,
    empty_ledger,
)


@dataclass(frozen=True, kw_only=True)
class SumOfLedgers:
    """The sum of the ledgers of several commit records.

    Args:
        ledger: `listed`, `fetched`, `absent`, `failed`, `skipped`, `bytes`, `attempts`.
        named: failed targets by kind and by status, and skipped targets by reason.
        worker_seconds: total duration of the attempts in seconds.
        ranges: number of ranges.
        set_aside: the ids of ranges that are set aside.
        bytes_of_list: total size of the ranges, in bytes of the list.
    """

    ledger: Mapping[str, int]
    named: Mapping[str, Mapping[str, int]]
    worker_seconds: float
    ranges: int
    set_aside: tuple[str, ...]
    bytes_of_list: int

    def to_bytes(self) -> bytes:
        """Return the content for a file."""
        return json.dumps(asdict(self)).encode() + b"\n"


def sum_of(records: Iterable[CommitRecord], job: JobRecord) -> SumOfLedgers:
    """Return the sum of the ledgers of these records."""
    ledger, seconds, ranges, set_aside, list_bytes = empty_ledger(), 0.0, 0, [], 0
    named: dict[str, dict[str, int]] = {name: {} for name in NAMED_COUNTS}
    for record in records:
        if record.range.file >= len(job.files):
            continue  # the range belongs to a list that was added after `job` was read
        ranges += 1
        list_bytes += job.files[record.range.file].share(record.range)
        seconds += record.seconds
        for name in COUNTS:
            ledger[name] += record.ledger[name]
        for name, counts in named.items():
            for each, count in record.named.get(name, {}).items():
                counts[each] = counts.get(each, 0) + count
        if record.set_aside:
            set_aside.append(record.range.id)
    return SumOfLedgers(
        ledger=ledger,
        named=named,
        worker_seconds=seconds,
        ranges=ranges,
        set_aside=tuple(sorted(set_aside)),
        bytes_of_list=list_bytes,
    )


@dataclass(frozen=True, kw_only=True)
class WorkerStatus:
    """A worker of a shared job, from its last heartbeat.

    Args:
        name: name of the worker: host, process and a random part.
        state: `working`, `waiting` (every range has a worker), `standby` (there are more workers than
            `limit_per_host`), `draining`, `ended`, or `lost` (no heartbeat for longer than the lease).
        age: seconds since the last heartbeat.
        ranges: the IDs of the worker's ranges at the last heartbeat.
        objects_per_second: targets finished per second, over the duration of the current attempts.
        listed: number of rows added by the worker to the source's list; None if the worker is not listing.
        ranges_done: number of ranges committed by the worker.
        fetched: number of fetched targets in these ranges.
        failed: number of failed targets in these ranges.
        seconds: total duration of the attempts at these ranges.
    """

    name: str
    state: str
    age: float
    ranges: tuple[str, ...]
    objects_per_second: float
    listed: int | None = None
    ranges_done: int = 0
    fetched: int = 0
    failed: int = 0
    seconds: float = 0.0

    @classmethod
    def of(cls, heartbeat: Heartbeat, lease: float, done: Mapping[str, float]) -> Self:
        """Make the status from a heartbeat and the sums of the worker's commit records."""
        is_lost = heartbeat.state != "ended" and not heartbeat.lives(lease)
        return cls(
            name=heartbeat.worker,
            state="lost" if is_lost else heartbeat.state,
            age=heartbeat.age,
            ranges=heartbeat.ranges,
            objects_per_second=heartbeat.objects_per_second,
            listed=heartbeat.listed,
            ranges_done=int(done["ranges"]),
            fetched=int(done["fetched"]),
            failed=int(done["failed"]),
            seconds=done["seconds"],
        )


@dataclass(frozen=True, kw_only=True)
class SharedStatus:
    """The status of a shared job.

    Only `ledger` is final: it is the sum of all commit records. Later work of living workers is in `in_progress`.

    Args:
        source: the list.
        added: added lists.
        is_listed: whether the whole list is known. The list grows while a worker lists a server or a bucket.
        dest: the job directory.
        format: storage format of the objects.
        ledger: counts by name: `listed`, `fetched`, `absent`, `failed`, `skipped`, `bytes`, and `attempts` (requests).
        failures: number of failed targets by failure kind.
        failed_statuses: number of targets that failed because of their HTTP status, by status.
        skipped_by: number of skipped targets by reason.
        in_progress: counts of unfinished attempts of living workers. An attempt may still be discarded.
        bytes_of_list: size of the list in bytes.
        bytes_done: size of the ranges with a commit record, in bytes of the list.
        ranges_done: number of ranges with a commit record.
        ranges_open: number of ranges without a commit record.
        set_aside: the IDs of ranges set aside after the deaths of workers that had claimed them.
        worker_seconds: total duration of all final attempts in seconds.
        discarded: number of outcomes in discarded attempts, according to all workers' heartbeats. These targets were
            fetched again.
        workers: all workers, living workers first.
        stopped: `drain` or `now` if `fetchmill stop` stopped the job; otherwise None.
    """

    source: str
    added: tuple[str, ...] = ()
    is_listed: bool = True
    dest: str
    format: str
    ledger: Mapping[str, int]
    failures: Mapping[str, int] = field(default_factory=dict)
    failed_statuses: Mapping[str, int] = field(default_factory=dict)
    skipped_by: Mapping[str, int] = field(default_factory=dict)
    in_progress: Mapping[str, int]
    bytes_of_list: int
    bytes_done: int
    ranges_done: int
    ranges_open: int
    set_aside: tuple[str, ...]
    worker_seconds: float
    discarded: int = 0
    workers: tuple[WorkerStatus, ...]
    stopped: str | None

    @property
    def finished(self) -> bool:
        """Whether the whole list is known, and every range has a commit record."""
        return self.is_listed and self.ranges_open == 0

    @property
    def living(self) -> tuple[WorkerStatus, ...]:
        """The workers that are alive."""
        return tuple(worker for worker in self.workers if worker.state in FETCHING)

    @property
    def runs(self) -> bool:
        """Whether any worker is alive."""
        return bool(self.living)

    @property
    def discarded_share(self) -> float:
        """Share of all outcomes that were discarded, from 0 to 1."""
        settled = sum(self.ledger[name] for name in OUTCOMES)
        return self.discarded / (settled + self.discarded) if self.discarded else 0.0

    @property
    def has_failures(self) -> bool:
        """Whether any requested object is missing."""
        return bool(self.ledger["failed"] or self.ledger["absent"] or self.set_aside)

    def to_dict(self) -> dict[str, Any]:
        """Return the status as a dict for JSON."""
        return asdict(self) | {"finished": self.finished}


def shared_status(directory: JobDirectory) -> SharedStatus:
    """Return the status of a directory's shared job.

    Raises:
        UsageError: there is no shared job.
        JournalError: a file of the job directory is damaged.
        StorageError, TemporaryError: the store failed.
    """
    job = directory.job()
    by_worker: dict[str, dict[str, float]] = {}
    winners: dict[str, str] = {}
    total = sum_of(_counted(directory.commits(), by_worker, winners), job)
    ledger, failures, skipped_by = _with_listing(total, job.totals)
    heartbeats = Heartbeats(directory, "status").look()
    open_ranges = directory.open_ranges(job)
    in_progress = empty_ledger()
    for heartbeat in heartbeats:
        if heartbeat.lives(job.lease):
            for name in COUNTS:
                in_progress[name] += heartbeat.counts.get(name, 0)
    workers = sorted(
        (WorkerStatus.of(each, job.lease, by_worker.get(each.worker, _NOTHING_DONE)) for each in heartbeats), key=_order
    )
    return SharedStatus(
        source=job.source,
        added=job.added,
        is_listed=job.is_listed,
        dest=directory.text,
        format=str(job.options.get("format", "files")),
        ledger=ledger,
        failures=failures,
        failed_statuses=total.named["failed_statuses"],
        skipped_by=skipped_by,
        in_progress=in_progress,
        bytes_of_list=sum(file.size - file.header for file in job.files),
        bytes_done=total.bytes_of_list,
        ranges_done=total.ranges,
        ranges_open=len(open_ranges),
        set_aside=total.set_aside,
        worker_seconds=total.worker_seconds,
        discarded=sum(_discarded(each, job.lease, winners) for each in heartbeats),
        workers=tuple(workers),
        stopped=directory.is_stopped(),
    )


_NOTHING_DONE: Mapping[str, float] = {"ranges": 0, "fetched": 0, "failed": 0, "seconds": 0.0}


def _counted(
    records: Iterable[CommitRecord], by_worker: dict[str, dict[str, float]], winners: dict[str, str]
) -> Iterator[CommitRecord]:
    """Yield the records. Add each record to its worker's sums, and the worker to the winners by range ID."""
    for record in records:
        winners[record.range.id] = record.worker
        if not record.set_aside:
            sums = by_worker.setdefault(record.worker, dict(_NOTHING_DONE))
            own = {"ranges": 1, "seconds": record.seconds, **record.ledger}
            for name in sums:
                sums[name] += own[name]
        yield record


def _discarded(heartbeat: Heartbeat, lease: float, winners: Mapping[str, str]) -> int:
    """Return the number of a worker's discarded outcomes.

    A lost worker also loses its last attempts, unless their ranges became final after its last heartbeat.
    """
    if heartbeat.state == "ended" or heartbeat.lives(lease):
        return heartbeat.discarded
    lost = (count for each, count in heartbeat.settled.items() if winners.get(each) != heartbeat.worker)
    return heartbeat.discarded + sum(lost)


def _with_listing(
    total: SumOfLedgers, listed: ListingTotals | None
) -> tuple[Mapping[str, int], Mapping[str, int], Mapping[str, int]]:
    """Return the ledger, the failures and the skipped targets, including those counted by the listing."""
    failures, skipped_by = Counter(total.named["failures"]), Counter(total.named["skipped_by"])
    ledger = Counter(total.ledger)
    if listed is not None:
        skipped_by.update(listed.skipped)
        failures["listing"] += listed.failed_folders
        skipped = sum(listed.skipped.values())
        ledger.update(skipped=skipped, failed=listed.failed_folders, listed=skipped + listed.failed_folders)
    return dict(ledger), dict(+failures), dict(skipped_by)


def _order(worker: WorkerStatus) -> tuple[bool, bool, str]:
    return worker.state == "ended", worker.state == "lost", worker.name
