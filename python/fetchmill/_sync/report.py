"""The plan and the report of a sync pass."""

from collections.abc import Mapping
from dataclasses import asdict, field
from datetime import datetime
from typing import Any

from fetchmill._job.readable_report import ReadableReport
from fetchmill._quick_dataclass import dataclass


@dataclass(frozen=True, kw_only=True)
class SyncPlan:
    """The plan of a pass.

    Args:
        unchanged: number of unchanged objects. No request is made for them.
        fetch: number of objects that are new or have changed.
        ask: number of objects to check with conditional requests, because the listing does not show whether they
            changed.
        remove: number of objects to remove.
        kept: number of objects that are no longer listed but stay.
        objects: number of objects in the destination before the pass.
        local: number of objects that the pass leaves alone, because something else has changed or written their files.
            Only a dry run counts them here. Without `check_local`, a real pass finds such files only when it applies
            the plan.
    """

    unchanged: int
    fetch: int
    ask: int
    remove: int
    kept: int
    objects: int
    local: int = 0


@dataclass(frozen=True, kw_only=True)
class SyncReport(ReadableReport):
    """The ledger of a pass. listed = unchanged + fetched + absent + failed + skipped.

    Args:
        source: the source of the targets.
        dest: the destination.
        number: number of the pass, from 1.
        started_at: time when the pass began, UTC. A resumed pass began in an earlier call.
        resumed: whether an earlier call began the pass.
        interrupted: whether the run was stopped before the pass ended. Repeat the call to continue the pass.
        dry_run: whether this was a dry run, which changes nothing. The result is then in `plan`.
        plan: the plan of the pass; None if the run was stopped before the plan was made.
        listed: number of objects that the source listed.
        unchanged: number of unchanged objects.
        fetched: number of objects that were fetched and put in place.
        absent: number of listed objects with status 404 or 410.
        failed: number of objects that could not be fetched or put in place. The next pass tries them again.
        skipped: number of rows with the same name as an earlier row.
        removed: number of objects that were removed.
        not_removed: number of objects that were not removed because their files were changed locally.
        kept: number of objects that are no longer listed but stay.
        bytes: size of the fetched objects in bytes.
        failures: number of failed objects by failure kind.
        failed_statuses: number of objects that failed because of their HTTP status, by status: `401 Unauthorized`.
        credentials: whether requests of this run may have carried credentials; None if unknown.
        failed_folders: number of folders whose listing failed. Objects below them were not changed.
        left_out: number of targets that the listing left out on purpose, for example because of `exclude`.
        attempts: number of requests for objects in this run, retries included.
        seconds: duration of this run in seconds.
        notices: human-readable messages, one line each.
    """

    source: str
    dest: str
    number: int
    started_at: datetime
    resumed: bool = False
    interrupted: bool = False
    dry_run: bool = False
    plan: SyncPlan | None = None
    listed: int = 0
    unchanged: int = 0
    fetched: int = 0
    absent: int = 0
    failed: int = 0
    skipped: int = 0
    removed: int = 0
    not_removed: int = 0
    kept: int = 0
    bytes: int = 0
    failures: Mapping[str, int] = field(default_factory=dict)
    failed_statuses: Mapping[str, int] = field(default_factory=dict)
    credentials: bool | None = None
    failed_folders: int = 0
    left_out: int = 0
    attempts: int = 0
    seconds: float = 0.0
    notices: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether the destination contains every object of a complete listing, or would without the dry run."""
        left = self.plan.local if self.dry_run and self.plan is not None else 0
        missing = self.absent + self.failed + self.not_removed + self.failed_folders + left
        return not self.interrupted and not missing

    @property
    def balanced(self) -> bool:
        """Whether each listed object is counted exactly once."""
        return self.listed == self.unchanged + self.fetched + self.absent + self.failed + self.skipped

    def to_dict(self) -> dict[str, Any]:
        """Return a dict for JSON, with times in ISO 8601 UTC."""
        return asdict(self) | {
            "failures": dict(self.failures),
            "failed_statuses": dict(self.failed_statuses),
            "notices": list(self.notices),
            "started_at": self.started_at.isoformat(),
        }
