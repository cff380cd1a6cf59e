"""Compares the results of two checks."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from os import PathLike
from typing import Any, Self

from fetchmill._job.readable_report import ReadableReport
from fetchmill._native import diff as native_diff
from fetchmill._options.values import check_path
from fetchmill.errors import UsageError

# Default number of changes to keep.
CHANGES_KEPT = 1000

ChangeRow = tuple[str, str | None, str | None]


@dataclass(frozen=True, slots=True)
class Change:
    """A site that was added or removed, or whose answer has changed.

    Args:
        site: the key of the site, or its URL if it has no key.
        before: the old answer: a status, a failure kind, or both; None if the site is new.
        after: the new answer; None if the site was removed.
    """

    site: str
    before: str | None
    after: str | None


@dataclass(frozen=True, kw_only=True, repr=False)
class DiffReport(ReadableReport):
    """The differences between two results files.

    Args:
        old_rows: number of rows in the old file.
        new_rows: number of rows in the new file.
        added: number of rows that are only in the new file.
        removed: number of rows that are only in the old file.
        changed: number of rows with a different status or failure kind.
        unchanged: number of rows with the same status and failure kind.
        transitions: number of rows for each pair of old and new answers.
        changes: the first changes. Changed and added sites come first, in the order of the new file. Removed sites
            follow, in the order of the old file.
    """

    old_rows: int
    new_rows: int
    added: int
    removed: int
    changed: int
    unchanged: int
    transitions: Mapping[tuple[str, str], int] = field(hash=False)
    changes: tuple[Change, ...] = ()

    @property
    def same(self) -> bool:
        """Whether the two files have no differences."""
        return not (self.added or self.removed or self.changed)

    def to_dict(self) -> dict[str, Any]:
        """Return a dict for JSON, without the changes."""
        counts = ("old_rows", "new_rows", "added", "removed", "changed", "unchanged")
        ordered = sorted(self.transitions.items(), key=lambda pair: (-pair[1], pair[0]))
        return {name: getattr(self, name) for name in counts} | {
            "transitions": [{"before": before, "after": after, "count": count} for (before, after), count in ordered]
        }

    @classmethod
    def from_native(cls, values: Mapping[str, Any], changes: tuple[Change, ...]) -> Self:
        """Create an instance from the native module's result."""
        return cls(**values, changes=changes)


def diff(old: str | PathLike[str], new: str | PathLike[str], *, limit: int = CHANGES_KEPT) -> DiffReport:
    """Compare the results of two checks. Find sites that were added or removed, or that now answer differently.

    Rows are matched by key, or by URL if they have no key. If a key or URL occurs several times, its n-th row in `old`
    is compared with its n-th row in `new`. Memory use depends only on the number of changes that are kept.

    Args:
        old: a results file of `fetchmill.check`, in any format.
        new: a later results file.
        limit: maximum number of changes to keep; 0 keeps all.

    Returns:
        The counts and the changes.

    Raises:
        UsageError: a file cannot be read, or is not the result of a check.

    Example:
        >>> fetchmill.diff("last-week.parquet", "results.parquet").transitions  # doctest: +SKIP
        {("200", "dns-not-found"): 12, ("connect-timeout", "200"): 7}
    """
    if limit < 0:
        raise UsageError(f"limit must be a whole number of at least 0, not {limit!r}")
    kept: list[Change] = []

    def keep(changes: list[ChangeRow]) -> None:
        wanted = changes if limit == 0 else changes[: limit - len(kept)]
        kept.extend(Change(*change) for change in wanted)

    return DiffReport.from_native(compare(old, new, keep), tuple(kept))


def compare(
    old: str | PathLike[str], new: str | PathLike[str], each: Callable[[list[ChangeRow]], None]
) -> dict[str, Any]:
    """Return the counts, and pass the changes to `each` in batches."""
    return native_diff(check_path("old", old), check_path("new", new), each)
