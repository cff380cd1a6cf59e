"""`fetchmill diff`: compares the results of two checks."""

import json
import sys
from typing import TYPE_CHECKING

import click

from fetchmill._options.units import format_count
from fetchmill.cli.help_texts import CliCommand
from fetchmill.cli.parameter_types import COUNT
from fetchmill.cli.streams import escape, write_line

if TYPE_CHECKING:
    from fetchmill._destination.diff import ChangeRow, DiffReport

DIFFERENT = 3
# Maximum number of changed rows in text output.
ROWS_SHOWN = 20

_EXAMPLES = """
fetchmill diff last-week.parquet results.parquet
fetchmill diff old.csv new.jsonl.zst --json --limit 0 > changes.json
"""
_EPILOG = """Exit codes: 0 if there are no differences; 3 if there are differences; 2 if a file does not contain the
results of a check."""


@click.command(
    "diff", cls=CliCommand, examples=_EXAMPLES, epilog=_EPILOG, short_help="Compare the results of two checks."
)
@click.argument("old", metavar="OLD", type=click.Path())
@click.argument("new", metavar="NEW", type=click.Path())
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object with changes, transitions and counts.")
@click.option(
    "--limit",
    type=COUNT,
    default=1000,
    help="Maximum number of changes with --json; 0 means no limit.  [default: 1000]",
)
def command(old: str, new: str, as_json: bool, limit: int) -> int:
    """Compare the results of two checks, and show which sites are new, gone, or answer differently.

    OLD and NEW are results files of `fetchmill check`, in any of its formats. Rows are matched by key if they have
    one, otherwise by URL. If a key or URL occurs several times, its n-th row in OLD is compared with its n-th row in
    NEW.
    """
    from fetchmill._destination.diff import DiffReport, compare

    if as_json:
        writer = _JsonWriter(limit)
        report = DiffReport.from_native(compare(old, new, writer.write), ())
        writer.close(report)
    else:
        shown: list[ChangeRow] = []
        report = DiffReport.from_native(
            compare(old, new, lambda changes: shown.extend(changes[: ROWS_SHOWN - len(shown)])), ()
        )
        write_line(sys.stdout, "\n".join([*_report_lines(report), *_row_lines(shown)]))
    return 0 if report.same else DIFFERENT


class _JsonWriter:
    """Writes one JSON object incrementally, because the changes may not fit into memory."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._written = 0
        self._is_read = True

    def write(self, changes: "list[ChangeRow]") -> None:
        """Write more changes."""
        if self._limit:
            changes = changes[: self._limit - self._written]
        for site, before, after in changes:
            start = "," if self._written else '{"changes": ['
            self._written += 1
            self._line(start + json.dumps({"site": site, "before": before, "after": after}))

    def close(self, report: "DiffReport") -> None:
        """Write the end of the object."""
        start = "]" if self._written else '{"changes": []'
        self._line(f"{start}, {json.dumps(report.to_dict())[1:]}")

    def _line(self, text: str) -> None:
        self._is_read = self._is_read and write_line(sys.stdout, text)


def _report_lines(report: "DiffReport") -> list[str]:
    """Return lines with the counts, followed by the number of rows for each pair of old and new answers."""
    counts = ("unchanged", "changed", "added", "removed")
    lines = [", ".join(f"{format_count(getattr(report, name))} {name}" for name in counts)]
    ordered = sorted(report.transitions.items(), key=lambda pair: (-pair[1], pair[0]))
    width = max((len(format_count(count)) for _, count in ordered), default=0)
    return lines + [
        f"  {format_count(count):>{width}}  {escape(before)} -> {escape(after)}" for (before, after), count in ordered
    ]


def _row_lines(changes: "list[ChangeRow]") -> list[str]:
    """Return lines about the first rows that differ."""
    if not changes:
        return []
    rows = [
        f"  {escape(site)}  {escape(before or 'new')} -> {escape(after or 'gone')}" for site, before, after in changes
    ]
    return [f"the first {len(rows)}:", *rows]
