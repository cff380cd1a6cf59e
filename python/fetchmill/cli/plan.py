"""`fetchmill plan`: estimates the time, space and cost of a job from a probe of a few seconds."""

import shlex
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

import click

from fetchmill._options.plan import PlanOptions
from fetchmill._options.units import format_bytes, format_count, format_objects, format_seconds
from fetchmill.cli.options import TableCommand, gathered, options_of
from fetchmill.cli.streams import escape, say, write_event, write_line
from fetchmill.errors import StorageError

if TYPE_CHECKING:
    from fetchmill._job.report import Snapshot
    from fetchmill._plan.result import FormatPlan, Plan
    from fetchmill._plan.windows import Estimate

_EXAMPLES = """
fetchmill plan https://example.org/data/ out/
fetchmill plan https://example.org/data/           without checking the disk
fetchmill plan urls.txt out/ --format parquet --probe-seconds 30
fetchmill plan http://127.0.0.1:8080 out/ --objects 1e9
fetchmill plan s3://bucket/prefix out/ \\
    --price-list 0.005 --price-get 0.0004 --price-gb 0.09
fetchmill plan http://127.0.0.1:8080 out/ --json
"""

_HELP = """Estimate the time, requests, traffic and disk space that `fetchmill get SOURCE DEST` needs. `plan` lists
SOURCE and fetches a sample for about 10 s. It stores nothing in DEST.

The probe uses the options of `get`. --probe-seconds sets its duration. With --concurrency auto, the probe can take up
to three times as long, until it finds a suitable number.

The plan gives a range for each estimate, and lists disk space and inodes by format. It also shows what limits the
rate, and whether DEST has enough space. It covers all of SOURCE, or 1,000,000 objects if SOURCE does not report a
count (see --objects).
"""

_EPILOG = """Exit codes: 0 if planned; 7 if planned, but DEST does not have enough space; 4 if the source cannot be
listed or is empty; 5 if nothing could be fetched; 130 and 143 if stopped by SIGINT and SIGTERM. For other codes,
see `fetchmill help exit-codes`.

For the method behind each figure, see `fetchmill help plan`.
"""
_FROM = {
    "given": "given by --objects",
    "listed": "all of the source",
    "estimated": "estimated from part of the list",
    "told": "the listing's total",
    "assumed": "assumed, because the source does not report a count; give --objects N",
}
_FITS = {"yes": "fits", "perhaps": "may not fit", "no": "does not fit"}
# Number of significant digits of an uncertain figure.
_DIGITS = 3


def _run(source: str, dest: str | None, as_json: bool, quiet: bool, **options: Any) -> int:  # noqa: ANN401
    """Run the command and return the exit code."""
    checked = PlanOptions(source=source, dest=dest, **gathered(options))
    # Imported here because help does not need it.
    from fetchmill._plan.plan import make_plan

    _end_at_signals()
    progress = _ProbeProgress(checked, is_shown=not (as_json or quiet))
    try:
        plan = make_plan(checked, progress.update)
    finally:
        progress.close()
    if as_json:
        write_event("plan", plan.to_dict())
    else:
        for line in _lines(plan):
            if not write_line(sys.stdout, line):
                break
    return _conclude(plan)


command = TableCommand(
    "plan",
    callback=_run,
    help=_HELP,
    examples=_EXAMPLES,
    matters=(
        "probe_seconds",
        "objects",
        "price_list",
        "price_get",
        "price_gb",
        "format",
        "column",
        "include",
        "headers",
        "bearer",
        "concurrency",
        "as_json",
    ),
    epilog=_EPILOG,
    short_help="Estimate the time, space and cost of a job.",
    params=[
        click.Argument(["source"], metavar="SOURCE"),
        click.Argument(["dest"], metavar="[DEST]", required=False, type=click.Path()),
        *options_of(PlanOptions),
        click.Option(["--json", "as_json"], is_flag=True, help="Write the plan as JSON to standard output."),
        click.Option(["-q", "--quiet"], is_flag=True, help="Do not show progress."),
    ],
)


def _end_at_signals() -> None:
    """Let the first signal end the probe. Ignore later signals while the temporary folder is removed."""

    def end(number: int, _frame: FrameType | None) -> NoReturn:
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, signal.SIG_IGN)
        sys.exit(128 + number)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)


class _ProbeProgress:
    """The probe's progress: a continuously updated line on a terminal, or a single line at the start of a log."""

    def __init__(self, options: PlanOptions, *, is_shown: bool) -> None:
        self._seconds = options.probe_seconds
        self._is_live = is_shown and sys.stderr.isatty()
        if is_shown and not self._is_live:
            say(f"probing {options.source} for {format_seconds(self._seconds)}; nothing is stored")

    def update(self, phase: str, seconds: float, snapshot: "Snapshot | None") -> None:
        """Show the progress."""
        if not self._is_live:
            return
        line = f"probing: {phase}, {min(seconds, self._seconds):.0f} of {self._seconds:.0f} s"
        if snapshot is not None and snapshot.seconds:
            line += f", {format_objects(snapshot.settled)}, {format_count(snapshot.settled / snapshot.seconds)}/s"
        self._write(f"\r\x1b[K{line}")

    def close(self) -> None:
        """Remove the line."""
        if self._is_live:
            self._write("\r\x1b[K")

    def _write(self, text: str) -> None:
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except OSError:
            self._is_live = False


def _conclude(plan: "Plan") -> int:
    """Return the exit code. Warn if space may be insufficient, and raise StorageError if it is insufficient."""
    if plan.room is None or plan.dest is None:
        return 0
    asked = plan.of_format(plan.format)
    if asked.fits == "yes":
        return 0
    needed, free = _lack(plan, asked)
    fitting = [each.format for each in plan.formats if each.fits == "yes" and each.format != "null"]
    advice = f"--format {fitting[0]} would fit" if fitting else "use another file system"
    what = f"{format_objects(plan.objects)} as {plan.format}"
    if asked.fits == "perhaps":
        say(f"warning: {what} may not fit into {plan.dest}: {needed} needed, {free} free; {advice}")
        return 0
    raise StorageError(f"{what} do not fit into {plan.dest}: {needed} needed, {free} free; {advice}")


def _lack(plan: "Plan", asked: "FormatPlan") -> tuple[str, str]:
    """Return the required and free amounts of inodes or bytes, whichever is insufficient."""
    assert plan.room is not None  # noqa: S101 - checked by the caller
    free = plan.room.free_inodes
    is_for_certain = asked.fits == "no"
    inodes = asked.inodes.low if is_for_certain else asked.inodes.high
    if free is not None and inodes > free:
        return f"{_rounded(asked.inodes.value)} inodes", format_count(free)
    return f"about {format_bytes(asked.disk_bytes.value)}", format_bytes(plan.room.free_bytes)


def _lines(plan: "Plan") -> list[str]:
    """Return the plan as human-readable lines."""
    rate = _range(plan.objects_per_second, _rounded)
    rows = [
        ("objects", f"{format_count(plan.objects)} ({_FROM[plan.objects_from]})"),
        ("time", f"{_range(plan.seconds, format_seconds)}, as {plan.format}"),
        ("rate", f"{rate} objects/s"),
        *([("listing", f"{_range(plan.names_per_second, _rounded)} names/s")] if plan.names_per_second else []),
        *([("limited by", plan.limited_by.text)] if plan.limited_by else []),
        ("requests", _requests_text(plan)),
        ("network", f"{_range(plan.network_bytes, format_bytes)}, bodies {_range(plan.body_bytes, format_bytes)}"),
        *([("cost", _range(plan.cost, _price_text))] if plan.cost else []),
    ]
    return [
        f"probed {escape(plan.source)}: {format_objects(plan.probed)} in {format_seconds(plan.probe_seconds)}",
        *(f"{name:<11} {value}" for name, value in rows),
        "",
        *_format_lines(plan),
        *_room_lines(plan),
        *(escape(notice) for notice in plan.notices),
    ]


def _requests_text(plan: "Plan") -> str:
    """Return the number of requests for objects and for the listing."""
    text = f"{_range(plan.object_requests, _rounded)} for objects"
    if plan.listing_requests.value:
        text += f", {_range(plan.listing_requests, _rounded)} for the listing"
    return text


def _format_lines(plan: "Plan") -> list[str]:
    """Return a table with one row per format."""
    rows = [("format", "disk", "inodes", "time", "")]
    rows += [
        (
            each.format,
            _range(each.disk_bytes, format_bytes),
            _range(each.inodes, _rounded),
            _range(each.seconds, format_seconds),
            _FITS[each.fits] if each.fits else "",
        )
        for each in plan.formats
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _room_lines(plan: "Plan") -> list[str]:
    """Return lines with the free space and inodes."""
    if plan.room is None:
        return []
    free = plan.room.free_inodes
    inodes = "" if free is None else f" and {format_count(free)} inodes"
    where = escape(shlex.quote(plan.room.path))
    return ["", f"free at {where}: {format_bytes(plan.room.free_bytes)}{inodes}"]


def _range(estimate: "Estimate", shown: Callable[[float], str]) -> str:
    """Format an estimate as `1 min 42 s (1 min 30 s to 1 min 55 s)`. Omit the range if both ends look the same."""
    value, low, high = (shown(each) for each in (estimate.value, estimate.low, estimate.high))
    return value if low == high else f"{value} ({low} to {high})"


def _price_text(price: float) -> str:
    """Format a price with two decimals, or with two significant digits if it is below 1."""
    return f"{price:,.2f}" if price >= 1 else f"{price:.2g}"


def _rounded(value: float) -> str:
    """Format a figure as a whole number, rounded to its significant digits."""
    digits = len(str(int(value))) - _DIGITS
    return format_count(round(value, -digits) if digits > 0 else value)
