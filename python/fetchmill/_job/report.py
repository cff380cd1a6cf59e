"""The ledger, as values: what a job counted while it runs, and at its end.

It balances: listed = fetched + absent + failed + skipped, plus what is still pending in a job that has not finished.
"""

import os
from collections.abc import Mapping
from dataclasses import asdict, field, fields
from datetime import UTC, datetime
from typing import Any, Self

from fetchmill._job.column_values import ColumnValue
from fetchmill._job.readable_report import ReadableReport
from fetchmill._quick_dataclass import dataclass

# The reason of `Report.skipped_by` that has rules.
OPTED_OUT = "opted-out"
# The rule of `stopped_by` that ends a run as it was asked for: nothing is wrong.
FIRST = "first"
# Hosts whose robots.txt forbids targets that a job counts each.
FORBIDDING_HOSTS_MAX = 4096


@dataclass(frozen=True, kw_only=True)
class Wait:
    """Something that a running job waits for.

    Args:
        what: in words, for example `the listing's page http://host/list?next-marker=k fails (status 500)`.
        since: since when, UTC.
        until: when the job gives up (`give_up_after`), UTC.
    """

    what: str
    since: datetime
    until: datetime

    def to_dict(self) -> dict[str, str]:
        """For JSON: times are ISO 8601, UTC."""
        return {"what": self.what, "since": self.since.isoformat(), "until": self.until.isoformat()}

    @classmethod
    def from_native(cls, values: Mapping[str, str]) -> Self:
        """From what the native module returns."""
        since, until = (datetime.fromisoformat(values[each]) for each in ("since", "until"))
        return cls(what=values["what"], since=since, until=until)


@dataclass(frozen=True, kw_only=True)
class LimitedBy:
    """What holds a job back, measured over the last seconds.

    Args:
        kind: `listing`, `server`, `network`, `cpu`, `disk`, `transform`, `rate`, `bwlimit`, `throttling`, `courtesy`,
            `concurrency`, `names`, `outage`, `last-targets`, or `mixed` when no single one of these does
            (docs/guide/what-limits-a-job.md).
        text: a line for people with the figure that shows it.
        share: of a report, the part of the run's time in which it did; 0 to 1. None while a job runs.
    """

    kind: str
    text: str
    share: float | None = None

    @classmethod
    def from_native(cls, values: Mapping[str, Any] | None) -> Self | None:
        """From what the native module returns; None for nothing."""
        return None if values is None else cls(**values)


@dataclass(frozen=True, kw_only=True)
class Latency:
    """What replies took, from their requests to their last bytes, in seconds.

    Args:
        p50: half of them took at most this.
        p90: 90 % of them.
        p99: 99 % of them.
        max: all of them.
    """

    p50: float
    p90: float
    p99: float
    max: float

    @classmethod
    def from_native(cls, values: Mapping[str, float] | None) -> Self | None:
        """From what the native module returns; None for nothing."""
        return None if values is None else cls(**values)


@dataclass(frozen=True, kw_only=True)
class OriginLatency:
    """What one origin of a job over many gave over the last ten seconds.

    Args:
        origin: scheme, host and port.
        replies_per_second: complete replies that are no sign of trouble.
        latency: what they took, to one significant digit.
    """

    origin: str
    replies_per_second: float
    latency: Latency

    @classmethod
    def from_native(cls, values: Mapping[str, Any]) -> Self:
        """From what the native module returns."""
        return cls(**{**values, "latency": Latency(**values["latency"])})


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """A running job's counters at one moment.

    Args:
        listed: targets that the source handed over so far.
        fetched: complete 2xx.
        absent: 404 and 410.
        failed: failed for good.
        skipped: left out on purpose.
        bytes: bytes of fetched bodies.
        in_flight: requests without a reply yet.
        waiting: targets that wait to be tried again.
        listing_done: whether `listed` is the total.
        failures: failed targets by failure kind.
        phase: `listing`, `fetching`, `draining` or `done`.
        seconds: time since this run began.
        resumed: whether an earlier run began the job.
        start_settled: targets that had an outcome before this run.
        waits: what the job waits for: a server that is down, a page of the listing that fails.
        stopped_by: the rule that ends the run, once one does.
        attempts: requests of this run.
        concurrency: requests that may be in flight now.
        tries_concurrency: whether `concurrency="auto"` still looks for that number.
        limited_by: what holds the job back; None in the first second.
        latency: of the replies of the last ten seconds; None when there were none, or the engine does not tell.
        origins: the same by origin, in a job over many: of at most 64 origins, the one with the most replies first.
        total: how many objects the listing says that it has; None when it does not.
        pages: pages of the listing in this run.
    """

    listed: int
    fetched: int
    absent: int
    failed: int
    skipped: int
    bytes: int
    in_flight: int
    waiting: int
    listing_done: bool
    failures: Mapping[str, int]
    phase: str
    seconds: float
    resumed: bool
    start_settled: int
    waits: tuple[Wait, ...] = ()
    stopped_by: str | None = None
    attempts: int = 0
    concurrency: int = 0
    tries_concurrency: bool = False
    limited_by: LimitedBy | None = None
    latency: Latency | None = None
    origins: tuple[OriginLatency, ...] = ()
    total: int | None = None
    pages: int = 0

    @property
    def settled(self) -> int:
        """Targets with an outcome."""
        return self.fetched + self.absent + self.failed + self.skipped

    @property
    def expected(self) -> int | None:
        """Targets in the end: those listed, or as many as the listing promises; None when nobody knows."""
        if self.listing_done:
            return self.listed
        return self.total if self.total is not None and self.total >= self.listed else None

    @property
    def asked_for(self) -> int:
        """Targets with an outcome, without those that were left out on purpose."""
        return self.fetched + self.absent + self.failed

    @classmethod
    def from_native(cls, values: Mapping[str, Any]) -> Self:
        """From what the native module returns."""
        made = {
            "waits": _waits_of(values),
            "limited_by": LimitedBy.from_native(values["limited_by"]),
            "latency": Latency.from_native(values["latency"]),
            "origins": tuple(map(OriginLatency.from_native, values["origins"])),
        }
        return cls(**_fields_of(cls, values) | made)


@dataclass(frozen=True, kw_only=True)
class Report(ReadableReport):
    """The ledger of a job.

    Args:
        source: where the targets came from.
        dest: the destination.
        format: how objects are stored.
        listed: targets that the source handed over.
        fetched: complete 2xx, stored.
        absent: 404 and 410.
        failed: failed for good; `fetchmill.failures(dest)` iterates over them and the absent ones.
        skipped: left out on purpose.
        pending: targets without an outcome; 0 once the job is finished.
        bytes: bytes of fetched bodies.
        failures: failed targets by failure kind.
        failed_statuses: those that failed because of their status, by that: `401 Unauthorized`. Not counted: what
            failed before a release that counts them.
        credentials: whether requests of this run may have had credentials; None when that is not known.
        seconds: time of this run.
        attempts: requests for targets, all attempts of this run counted.
        listed_at: when the listing was completed, UTC; None while it is not.
        already_finished: whether the job was finished before this run, which then fetched nothing.
        interrupted: whether the run was stopped before the end; the same call resumes.
        stopped_by: the rule that stopped it: `max_failed`, `max_duration`, `max_bytes` or `first`; None for none.
        tolerated: whether the job is finished and no more targets failed or were absent than `max_failed` allows.
        resumed: whether an earlier run began the job.
        doubtful: names of objects that were stored before it turned out that their bytes may be another object's: a
            reply that nobody asked for came too late (docs/reference/http-support.md). The first 10,000 of them.
        doubtful_count: how many such objects there are.
        limited_by: what has held this run back for longest; None when it was over before that was measured.
        notices: what a person should know, a line each.
        skipped_by: skipped targets by reason: `filter`, `other-origin`, `other-path`, `robots`, `folder-marker`,
            `no-object`, `unchanged` (304), `dropped` (by a transform), `opted-out`, `duplicate`; empty for a job of
            0.1.0.
        opted_out_by: those that `opted-out` by rule: `X-Robots-Tag noai`, `TDM-Reservation`, `meta noindex`,
            `robots.txt`. Of a value with more than one directive, the first that reserves the object is the rule.
            Not counted: what a release without this mapping has skipped.
        forbidding_hosts: the hosts (scheme, name and port) whose robots.txt forbids most targets, and how many: at
            most 10, the first one with most. Counted are the first 4,096 hosts that forbid any.
        forbidding_host_count: how many hosts forbid any; 4,097 means that many or more.
        found_nothing: whether the job is finished without an object for a reason that nobody asked for: all that is
            listed was skipped, or a list has no target. The command line exits with 3 then.
    """

    source: str
    dest: str
    format: str
    listed: int
    fetched: int
    absent: int
    failed: int
    skipped: int
    pending: int
    bytes: int
    failures: Mapping[str, int]
    seconds: float
    attempts: int
    listed_at: datetime | None
    already_finished: bool
    interrupted: bool
    stopped_by: str | None = None
    tolerated: bool = False
    resumed: bool
    doubtful: tuple[str, ...]
    doubtful_count: int
    limited_by: LimitedBy | None = None
    notices: tuple[str, ...]
    skipped_by: Mapping[str, int] = field(default_factory=dict)
    opted_out_by: Mapping[str, int] = field(default_factory=dict)
    forbidding_hosts: Mapping[str, int] = field(default_factory=dict)
    forbidding_host_count: int = 0
    found_nothing: bool = False
    failed_statuses: Mapping[str, int] = field(default_factory=dict)
    credentials: bool | None = None

    @property
    def settled(self) -> int:
        """Targets with an outcome."""
        return self.fetched + self.absent + self.failed + self.skipped

    @property
    def balanced(self) -> bool:
        """Whether each listed target is counted exactly once."""
        return self.listed == self.settled + self.pending

    @property
    def finished(self) -> bool:
        """Whether the listing is complete and every target has an outcome."""
        return self.listed_at is not None and self.pending == 0

    def to_dict(self) -> dict[str, Any]:
        """For JSON: times are ISO 8601, UTC."""
        values = asdict(self)
        values["failures"] = dict(self.failures)
        values["skipped_by"] = dict(self.skipped_by)
        values["opted_out_by"] = dict(self.opted_out_by)
        values["forbidding_hosts"] = dict(self.forbidding_hosts)
        values["failed_statuses"] = dict(self.failed_statuses)
        values["doubtful"] = list(self.doubtful)
        values["notices"] = list(self.notices)
        values["listed_at"] = self.listed_at.isoformat() if self.listed_at else None
        return values

    @classmethod
    def from_native(cls, values: Mapping[str, Any]) -> Self:
        """From what the native module returns."""
        own = _fields_of(cls, values)
        own["dest"] = os.fspath(own["dest"])
        own["listed_at"] = datetime.fromisoformat(own["listed_at"]) if own["listed_at"] else None
        own["doubtful"] = tuple(own["doubtful"])
        own["limited_by"] = LimitedBy.from_native(own["limited_by"])
        own["notices"] = tuple(own["notices"])
        return cls(**own)


@dataclass(frozen=True, kw_only=True)
class JobProgress:
    """How fast a running job is, as it wrote into its journal a second ago.

    Args:
        time: when it was measured, UTC.
        objects_per_second: targets that get an outcome, over the last ten seconds.
        bytes_per_second: bytes of fetched bodies, the same.
        in_flight: requests without a reply.
        concurrency: requests that may be in flight.
        latency: of the replies of the last ten seconds; None when there were none, or the engine does not tell.
        limited_by: what holds the job back; None before that is known.
    """

    time: datetime
    objects_per_second: float
    bytes_per_second: float
    in_flight: int
    concurrency: int
    latency: Latency | None
    limited_by: LimitedBy | None

    def to_dict(self) -> dict[str, Any]:
        """For JSON: times are ISO 8601, UTC."""
        return asdict(self) | {"time": self.time.isoformat()}

    @classmethod
    def from_native(cls, values: Mapping[str, Any] | None) -> Self | None:
        """From what the native module returns; None for nothing."""
        if values is None:
            return None
        made = {
            "time": datetime.fromtimestamp(values["time"], UTC),
            "latency": Latency.from_native(values["latency"]),
            "limited_by": LimitedBy.from_native(values["limited_by"]),
        }
        return cls(**_fields_of(cls, values) | made)


@dataclass(frozen=True, kw_only=True)
class Status(Report):
    """The ledger of a job as its journal has it, read while the job may be running.

    Args:
        running: whether a process runs the job now.
        waits: what it waits for, if it runs: a server that is down, a page of the listing that fails.
        started_at: when its first run began, UTC.
        age: seconds since then, until now or until its end; None when it is not known.
        progress: how fast it is, if it runs.
    """

    running: bool
    waits: tuple[Wait, ...] = ()
    started_at: datetime | None = None
    age: float | None = None
    progress: JobProgress | None = None

    @property
    def remaining_seconds(self) -> float | None:
        """Seconds to the end at the present rate; None while the total is unknown or nothing moves."""
        rate = self.progress.objects_per_second if self.progress else 0.0
        return self.pending / rate if self.listed_at and rate > 0 else None

    def to_dict(self) -> dict[str, Any]:
        """For JSON: times are ISO 8601, UTC."""
        return super().to_dict() | {
            "waits": [wait.to_dict() for wait in self.waits],
            "started_at": self.started_at.isoformat() if self.started_at else None,
            "remaining_seconds": self.remaining_seconds,
            "progress": self.progress.to_dict() if self.progress else None,
        }

    @classmethod
    def from_native(cls, values: Mapping[str, Any]) -> Self:
        """From what the native module returns."""
        started, ended = (_time_of(values[each]) for each in ("started_at", "finished_at"))
        age = ((ended or datetime.now(UTC)) - started).total_seconds() if started else None
        progress = JobProgress.from_native(values["progress"])
        made = {
            "waits": _waits_of(values),
            "started_at": started,
            "age": age,
            "progress": progress,
            "limited_by": None,
        }
        return super().from_native({**values, **made})


@dataclass(frozen=True, kw_only=True)
class Skipped:
    """Targets that a job has skipped for one reason.

    Args:
        reason: why, as in `Report.skipped_by`.
        count: how many.
        names: the first 100; bytes that are not UTF-8 are escaped with a backslash. Empty in jobs of `check`.
        rules: of those that `opted-out`, how many by rule, as in `Report.opted_out_by`.
        hosts: of the same, the hosts whose robots.txt forbids most, as in `Report.forbidding_hosts`.
    """

    reason: str
    count: int
    names: tuple[str, ...]
    rules: Mapping[str, int] = field(default_factory=dict)
    hosts: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A target that is absent or failed.

    Args:
        name: the target's name, whole, with its control characters; bytes that are not UTF-8 are escaped. A folder
            that gave no listing ends with a slash.
        sequence: its sequence number in the job; None for a folder.
        outcome: `absent` or `failed`.
        kind: the failure kind, or `absent`.
        status: the HTTP status of the last reply, None when there was none.
        attempts: requests that were made for it.
        detail: a line for people.
        url: the URL it was asked for, when that is not its name.
        columns: the kept columns of its list, by name.
    """

    name: str
    sequence: int | None
    outcome: str
    kind: str
    status: int | None
    attempts: int
    detail: str
    url: str | None
    columns: dict[str, ColumnValue] = field(hash=False)

    @classmethod
    def from_native(cls, values: Mapping[str, Any]) -> Self:
        """From what the native module returns."""
        return cls(**_fields_of(cls, values))


def _time_of(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


def _waits_of(values: Mapping[str, Any]) -> tuple[Wait, ...]:
    return tuple(Wait.from_native(wait) for wait in values["waits"])


def _fields_of(cls: Any, values: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ANN401 - a dataclass type
    """The values that are fields: the native module may say more, never less."""
    return {each.name: values[each.name] for each in fields(cls)}
