"""What a pass of a sync has done, as values."""

from collections.abc import Mapping
from dataclasses import asdict, field
from datetime import datetime
from typing import Any

from fetchmill._job.readable_report import ReadableReport
from fetchmill._quick_dataclass import dataclass


@dataclass(frozen=True, kw_only=True)
class SyncPlan:
    """What a pass is going to do.

    Args:
        unchanged: objects that are as they were: no request is made for them.
        fetch: objects that are new or differ.
        ask: objects of which only the server can tell: requests on a condition.
        remove: objects to remove.
        kept: objects that are not listed any more and stay.
        objects: what the destination had before.
    """

    unchanged: int
    fetch: int
    ask: int
    remove: int
    kept: int
    objects: int


@dataclass(frozen=True, kw_only=True)
class SyncReport(ReadableReport):
    """The ledger of a pass. listed = unchanged + fetched + absent + failed + skipped.

    Args:
        source: where the targets came from.
        dest: the destination.
        number: of the pass, from 1.
        started_at: when the pass began, UTC; of one that an earlier call has begun, that was then.
        resumed: whether an earlier call began the pass.
        interrupted: whether the run was stopped before the end; the same call goes on.
        dry_run: whether nothing was to be changed; then the plan is what counts.
        plan: what it is going to do, or was; None when it was stopped before that was known.
        listed: objects that the source listed.
        unchanged: objects that are as they were.
        fetched: objects that were fetched and are in their places.
        absent: 404 and 410, though they were listed.
        failed: objects that could not be had, or not be put into their places; the next pass tries them again.
        skipped: rows with the name of one before them.
        removed: objects that were removed.
        not_removed: objects that were to be removed and stay: their files were changed.
        kept: objects that are not listed any more and stay.
        bytes: bytes of fetched objects.
        failures: failed objects by failure kind.
        failed_statuses: those that failed because of their status, by that: `401 Unauthorized`.
        credentials: whether requests of this run may have had credentials; None when that is not known.
        failed_folders: folders that gave no listing: what is below them was left as it is.
        left_out: what the listing left out on purpose, such as by `exclude`.
        attempts: requests for objects, all attempts of this run counted.
        seconds: time of this run.
        notices: what a person should know, a line each.
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
        """Whether all that was listed is in the destination, and the listing was whole."""
        missing = self.absent + self.failed + self.not_removed + self.failed_folders
        return not self.interrupted and not missing

    @property
    def balanced(self) -> bool:
        """Whether each listed object is counted exactly once."""
        return self.listed == self.unchanged + self.fetched + self.absent + self.failed + self.skipped

    def to_dict(self) -> dict[str, Any]:
        """For JSON: times are ISO 8601, UTC."""
        return asdict(self) | {
            "failures": dict(self.failures),
            "failed_statuses": dict(self.failed_statuses),
            "notices": list(self.notices),
            "started_at": self.started_at.isoformat(),
        }
