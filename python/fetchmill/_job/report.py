"""The ledger, as values: what a job counted while it runs, and at its end.

It balances: listed = fetched + absent + failed + skipped, plus what is still pending in a job that has not finished.
"""

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime
from typing import Any, Self


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

    @property
    def settled(self) -> int:
        """Targets with an outcome."""
        return self.fetched + self.absent + self.failed + self.skipped

    @classmethod
    def from_native(cls, values: Mapping[str, Any]) -> Self:
        """From what the native module returns."""
        return cls(**_fields_of(cls, values) | {"waits": _waits_of(values)})


@dataclass(frozen=True, kw_only=True)
class Report:
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
        seconds: time of this run.
        attempts: requests for targets, all attempts of this run counted.
        listed_at: when the listing was completed, UTC; None while it is not.
        already_finished: whether the job was finished before this run, which then fetched nothing.
        interrupted: whether the run was stopped before the end; the same call resumes.
        stopped_by: the rule that stopped it: `max_failed`, `max_duration` or `max_bytes`; None for none.
        tolerated: whether the job is finished and no more targets failed or were absent than `max_failed` allows.
        resumed: whether an earlier run began the job.
        doubtful: names of objects that were stored before it turned out that their bytes may be another object's: a
            reply that nobody asked for came too late (docs/http-support.md). The first 10,000 of them.
        doubtful_count: how many such objects there are.
        notices: what a person should know, a line each.
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
    notices: tuple[str, ...]

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
        own["notices"] = tuple(own["notices"])
        return cls(**own)


@dataclass(frozen=True, kw_only=True)
class Status(Report):
    """The ledger of a job as its journal has it, read while the job may be running.

    Args:
        running: whether a process runs the job now.
        waits: what it waits for, if it runs: a server that is down, a page of the listing that fails.
    """

    running: bool
    waits: tuple[Wait, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """For JSON: times are ISO 8601, UTC."""
        return super().to_dict() | {"waits": [wait.to_dict() for wait in self.waits]}

    @classmethod
    def from_native(cls, values: Mapping[str, Any]) -> Self:
        """From what the native module returns."""
        return super().from_native({**values, "waits": _waits_of(values)})


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
    columns: dict[str, str | None] = field(hash=False)

    @classmethod
    def from_native(cls, values: Mapping[str, Any]) -> Self:
        """From what the native module returns."""
        return cls(**_fields_of(cls, values))


def _waits_of(values: Mapping[str, Any]) -> tuple[Wait, ...]:
    return tuple(Wait.from_native(wait) for wait in values["waits"])


def _fields_of(cls: Any, values: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ANN401 - a dataclass type
    """The values that are fields: the native module may say more, never less."""
    return {each.name: values[each.name] for each in fields(cls)}
