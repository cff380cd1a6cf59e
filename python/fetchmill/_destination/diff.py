"""What differs between the results of two checks."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from os import PathLike
from typing import Any, Self

from fetchmill._job.readable_report import ReadableReport
from fetchmill._native import diff as native_diff
from fetchmill._options.values import check_path
from fetchmill.errors import UsageError

# Changes that are kept unless somebody wants more, or all.
CHANGES_KEPT = 1000

ChangeRow = tuple[str, str | None, str | None]


@dataclass(frozen=True, slots=True)
class Change:
    """A site that answers otherwise, is new, or is gone.

    Args:
        site: its key, or else its URL.
        before: what it answered: a status, a failure kind, or both; None when it is new.
        after: what it answers now; None when it is gone.
    """

    site: str
    before: str | None
    after: str | None


@dataclass(frozen=True, kw_only=True, repr=False)
class DiffReport(ReadableReport):
    """How two files of results differ.

    Args:
        old_rows: rows of the first.
        new_rows: rows of the second.
        added: rows that only the second has.
        removed: rows that only the first has.
        changed: rows with another status or failure kind.
        unchanged: rows with the same.
        transitions: how many rows had which answer and have which now.
        changes: the first of them: in the order of the second file, then those that are gone in that of the first.
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
        """Whether nothing differs."""
        return not (self.added or self.removed or self.changed)

    def to_dict(self) -> dict[str, Any]:
        """For JSON, without the changes."""
        counts = ("old_rows", "new_rows", "added", "removed", "changed", "unchanged")
        ordered = sorted(self.transitions.items(), key=lambda pair: (-pair[1], pair[0]))
        return {name: getattr(self, name) for name in counts} | {
            "transitions": [{"before": before, "after": after, "count": count} for (before, after), count in ordered]
        }

    @classmethod
    def from_native(cls, values: Mapping[str, Any], changes: tuple[Change, ...]) -> Self:
        """From what the native module returns."""
        return cls(**values, changes=changes)


def diff(old: str | PathLike[str], new: str | PathLike[str], *, limit: int = CHANGES_KEPT) -> DiffReport:
    """Compares the results of two checks: which sites are new, gone, or answer otherwise.

    Rows are compared by key or else URL; of one that comes several times the n-th with the n-th. Memory does not depend
    on the number of rows, but for the changes that are kept.

    Args:
        old: a file of `fetchmill.check`, in any of its formats.
        new: another one.
        limit: changes to keep at most; 0: all.

    Returns:
        The counts, and the changes.

    Raises:
        UsageError: a file cannot be read, or is no result of a check.

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
    """The counts; `each` is called with the changes, some at a time."""
    return native_diff(check_path("old", old), check_path("new", new), each)
