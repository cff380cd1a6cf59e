"""The ledger, which contains a job's counters during the run and at the end.

The counters balance: listed = fetched + absent + failed + skipped, plus pending targets if the job has not finished.
"""

import os
from collections.abc import Mapping
from dataclasses import asdict, field, fields
from datetime import UTC, datetime
from typing import Any, Self

from fetchmill._job.column_values import ColumnValue
from fetchmill._job.readable_report import ReadableReport
from fetchmill._quick_dataclass import dataclass

# The reason in `Report.skipped_by` that is broken down by rule.
OPTED_OUT = "opted-out"
# The rule in `stopped_by` that is not a problem, because the run ended as requested.
FIRST = "first"
# Maximum number of hosts that a job counts as forbidding targets by robots.txt.
FORBIDDING_HOSTS_MAX = 4096


@dataclass(frozen=True, kw_only=True)
class Wait:
    """A problem that a running job is waiting out.

    Args:
        what: description of the problem, for example `the listing's page http://host/list?next-marker=k fails (status
            500)`.
        since: start of the wait, UTC.
        until: the time when the job gives up (`give_up_after`), UTC.
    """

    what: str
    since: datetime
    until: datetime

    def to_dict(self) -> dict[str, str]:
        """Return a dict for JSON, with times in ISO 8601 UTC."""
        return {"what": self.what, "since": self.since.isoformat(), "until": self.until.isoformat()}

    @classmethod
    def from_native(cls, values: Mapping[str, str]) -> Self:
        """Create an instance from the native module's result."""
        since, until = (datetime.fromisoformat(values[each]) for each in ("since", "until"))
        return cls(what=values["what"], since=since, until=until)


@dataclass(frozen=True, kw_only=True)
class LimitedBy:
    """The bottleneck of a job, measured over the last few seconds.

    Args:
        kind: `listing`, `server`, `network`, `cpu`, `disk`, `transform`, `rate`, `bwlimit`, `throttling`, `courtesy`,
            `concurrency`, `names`, `outage`, `last-targets`, or `mixed` if there is more than one bottleneck
            (docs/guide/what-limits-a-job.md).
        text: a human-readable line with the measured figure.
        share: in a report, the fraction of the run with this bottleneck, 0 to 1. None while a job is running.
    """

    kind: str
    text: str
    share: float | None = None

    @classmethod
    def from_native(cls, values: Mapping[str, Any] | None) -> Self | None:
        """Create an instance from the native module's result, or return None if the result is None."""
        return None if values is None else cls(**values)


@dataclass(frozen=True, kw_only=True)
class Latency:
    """Response times in seconds, from the request to the last byte of the reply.

    Args:
        p50: the median: half of the replies took at most this long.
        p90: 90 % of the replies took at most this long.
        p99: 99 % of the replies took at most this long.
        max: the longest response time.
    """

    p50: float
    p90: float
    p99: float
    max: float

    @classmethod
    def from_native(cls, values: Mapping[str, float] | None) -> Self | None:
        """Create an instance from the native module's result, or return None if the result is None."""
        return None if values is None else cls(**values)


@dataclass(frozen=True, kw_only=True)
class OriginLatency:
    """Throughput and latency of one origin over the last ten seconds, for a job with many origins.

    Args:
        origin: scheme, host and port.
        replies_per_second: complete replies per second, except replies that indicate a problem.
        latency: response times of these replies, to one significant digit.
    """

    origin: str
    replies_per_second: float
    latency: Latency

    @classmethod
    def from_native(cls, values: Mapping[str, Any]) -> Self:
        """Create an instance from the native module's result."""
        return cls(**{**values, "latency": Latency(**values["latency"])})


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """A running job's counters at one moment.

    Args:
        listed: number of targets listed so far.
        fetched: number of targets with a complete 2xx reply.
        absent: number of targets with status 404 or 410.
        failed: number of targets that failed permanently.
        skipped: number of targets that were left out on purpose.
        bytes: size of all fetched bodies in bytes.
        in_flight: number of requests that have no reply yet.
        waiting: number of targets waiting for a retry.
        listing_done: whether the listing is complete. `listed` is then the total.
        failures: number of failed targets by failure kind.
        phase: `listing`, `fetching`, `draining` or `done`.
        seconds: seconds since this run began.
        resumed: whether an earlier run began the job.
        start_settled: number of targets that had an outcome before this run.
        waits: the problems that the job is waiting out, such as a server that is down or a listing page that fails.
        stopped_by: the rule that ends the run; None if no rule does.
        attempts: number of requests in this run.
        concurrency: current maximum number of requests in flight.
        tries_concurrency: whether `concurrency="auto"` is still searching for the best maximum.
        limited_by: the bottleneck of the job; None in the first second.
        latency: response times of the last ten seconds; None if there were no replies, or the engine does not measure
            them.
        origins: throughput and latency by origin, for a job with many origins. Contains at most 64 origins, starting
            with the one that has the most replies.
        total: number of objects announced by the listing; None if the listing announces no number.
        pages: number of listing pages read in this run.
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
        """Expected total number of targets, as listed or as announced by the listing; None if unknown."""
        if self.listing_done:
            return self.listed
        return self.total if self.total is not None and self.total >= self.listed else None

    @property
    def asked_for(self) -> int:
        """Number of targets with an outcome, except skipped targets."""
        return self.fetched + self.absent + self.failed

    @classmethod
    def from_native(cls, values: Mapping[str, Any]) -> Self:
        """Create an instance from the native module's result."""
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
        source: the source of the targets.
        dest: the destination.
        format: storage format of the objects.
        listed: number of targets that the source has listed.
        fetched: number of targets whose complete 2xx reply is stored.
        absent: number of targets with status 404 or 410.
        failed: number of targets that failed permanently. `fetchmill.failures(dest)` iterates over failed and absent
            targets.
        skipped: number of targets that were left out on purpose.
        pending: number of targets without an outcome; 0 once the job is finished.
        bytes: size of all fetched bodies in bytes.
        failures: number of failed targets by failure kind.
        failed_statuses: number of targets that failed because of their HTTP status, by status, such as
            `401 Unauthorized`. Failures recorded by older releases are not included, because those releases did not
            count statuses.
        credentials: whether this run may have sent credentials; None if unknown.
        seconds: duration of this run in seconds.
        attempts: number of requests for targets in this run, retries included.
        listed_at: time when the listing was complete, UTC; None if it is not complete.
        already_finished: whether an earlier run had already finished the job. This run then fetched nothing.
        interrupted: whether the run was stopped before the job ended. Repeat the call to resume the job.
        stopped_by: the rule that stopped the run: `max_failed`, `max_duration`, `max_bytes` or `first`; None if no
            rule did.
        tolerated: whether the job is finished and the number of failed and absent targets is within `max_failed`.
        resumed: whether an earlier run began the job.
        doubtful: names of stored objects that may contain another object's bytes, because an unsolicited response was
            detected too late (docs/reference/http-support.md). Contains at most the first 10,000 names.
        doubtful_count: number of doubtful objects.
        limited_by: main bottleneck of the run; None if the run ended before the first measurement.
        notices: human-readable messages, one line each.
        skipped_by: number of skipped targets by reason: `filter`, `other-origin`, `other-path`, `robots`,
            `folder-marker`, `no-object`, `unchanged` (304), `dropped` (by a transform), `opted-out`, `duplicate`.
            Empty for a job from release 0.1.0.
        opted_out_by: number of `opted-out` targets by rule: `X-Robots-Tag noai`, `TDM-Reservation`, `meta noindex`,
            `robots.txt`. If a value has several directives, the first one that reserves the object counts. Targets
            skipped by older releases are not counted, because those releases did not record the rules.
        forbidding_hosts: the hosts (scheme, name and port) whose robots.txt forbids the most targets, with the number
            of targets. Contains at most 10 hosts, starting with the one that forbids the most. Only the first 4,096
            forbidding hosts are counted.
        forbidding_host_count: number of hosts that forbid targets; 4,097 means 4,097 or more.
        found_nothing: whether the job finished without storing any object, and no option explains this: all listed
            targets were skipped, or the list is empty. The command line then exits with code 3.
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
        """Return a dict for JSON, with times in ISO 8601 UTC."""
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
        """Create an instance from the native module's result."""
        own = _fields_of(cls, values)
        own["dest"] = os.fspath(own["dest"])
        own["listed_at"] = datetime.fromisoformat(own["listed_at"]) if own["listed_at"] else None
        own["doubtful"] = tuple(own["doubtful"])
        own["limited_by"] = LimitedBy.from_native(own["limited_by"])
        own["notices"] = tuple(own["notices"])
        return cls(**own)


@dataclass(frozen=True, kw_only=True)
class JobProgress:
    """The speed of a running job, which the job writes to its journal about once per second.

    Args:
        time: time of the measurement, UTC.
        objects_per_second: targets finished per second, over the last ten seconds.
        bytes_per_second: bytes of fetched bodies per second, over the last ten seconds.
        in_flight: number of requests without a reply.
        concurrency: current maximum number of requests in flight.
        latency: response times of the last ten seconds; None if there were no replies, or the engine does not measure
            them.
        limited_by: the bottleneck of the job; None if not yet known.
    """

    time: datetime
    objects_per_second: float
    bytes_per_second: float
    in_flight: int
    concurrency: int
    latency: Latency | None
    limited_by: LimitedBy | None

    def to_dict(self) -> dict[str, Any]:
        """Return a dict for JSON, with times in ISO 8601 UTC."""
        return asdict(self) | {"time": self.time.isoformat()}

    @classmethod
    def from_native(cls, values: Mapping[str, Any] | None) -> Self | None:
        """Create an instance from the native module's result, or return None if the result is None."""
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
    """A job's ledger, as read from its journal. The job may be running.

    Args:
        running: whether a process is running the job.
        waits: the problems that a running job is waiting out, such as a server that is down or a failing listing page.
        started_at: start time of the first run, UTC.
        age: seconds from `started_at` to the end of the job, or to now if it has not ended; None if unknown.
        progress: the job's speed; None if the job is not running.
    """

    running: bool
    waits: tuple[Wait, ...] = ()
    started_at: datetime | None = None
    age: float | None = None
    progress: JobProgress | None = None

    @property
    def remaining_seconds(self) -> float | None:
        """Remaining seconds at the current rate; None if the total is unknown or the rate is 0."""
        rate = self.progress.objects_per_second if self.progress else 0.0
        return self.pending / rate if self.listed_at and rate > 0 else None

    def to_dict(self) -> dict[str, Any]:
        """Return a dict for JSON, with times in ISO 8601 UTC."""
        return super().to_dict() | {
            "waits": [wait.to_dict() for wait in self.waits],
            "started_at": self.started_at.isoformat() if self.started_at else None,
            "remaining_seconds": self.remaining_seconds,
            "progress": self.progress.to_dict() if self.progress else None,
        }

    @classmethod
    def from_native(cls, values: Mapping[str, Any]) -> Self:
        """Create an instance from the native module's result."""
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
    """Targets skipped by a job for one reason.

    Args:
        reason: the reason, as in `Report.skipped_by`.
        count: number of skipped targets.
        names: the first 100 names. Bytes that are not UTF-8 are escaped with a backslash. Empty for jobs of `check`.
        rules: for `opted-out`, the number of targets by rule, as in `Report.opted_out_by`.
        hosts: for `opted-out`, the hosts whose robots.txt forbids the most targets, as in `Report.forbidding_hosts`.
    """

    reason: str
    count: int
    names: tuple[str, ...]
    rules: Mapping[str, int] = field(default_factory=dict)
    hosts: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Failure:
    """An absent or failed target.

    Args:
        name: the complete name of the target, including control characters. Bytes that are not UTF-8 are escaped. For a
            folder with a failed listing, the name ends with a slash.
        sequence: sequence number of the target in the job; None for a folder.
        outcome: `absent` or `failed`.
        kind: the failure kind, or `absent`.
        status: HTTP status of the last reply; None if there was no reply.
        attempts: number of requests for the target.
        detail: a human-readable line.
        url: the requested URL; None if it equals the name.
        columns: the kept columns of the list, by name.
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
        """Create an instance from the native module's result."""
        return cls(**_fields_of(cls, values))


def _time_of(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


def _waits_of(values: Mapping[str, Any]) -> tuple[Wait, ...]:
    return tuple(Wait.from_native(wait) for wait in values["waits"])


def _fields_of(cls: Any, values: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ANN401 - a dataclass type
    """Return only the values that are fields of the class. The native module may return additional values."""
    return {each.name: values[each.name] for each in fields(cls)}
