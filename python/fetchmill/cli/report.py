"""`fetchmill report`: shows what a job did over time, as text, as JSON or as a self-contained page."""

import json
import sys
from typing import TYPE_CHECKING, Any

import click

from fetchmill._options.units import format_bytes, format_count, format_seconds
from fetchmill._shared import is_shared_job
from fetchmill.cli.reach_command import ReachCommand, given_reach
from fetchmill.cli.streams import say, without_secrets, write_line
from fetchmill.cli.summary import status_lines

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fetchmill._dashboard.history import History

_EXAMPLES = """
fetchmill report out/
fetchmill report out/ --html report.html    a single file with charts
fetchmill report out/ --json | jq '.samples[-1]'
"""


@click.command(
    "report",
    cls=ReachCommand,
    examples=_EXAMPLES,
    short_help="Show the speed, failures and limits of a job over time.",
)
@click.argument("dest", metavar="DEST", type=click.Path())
@click.option("--html", "file", metavar="FILE", type=click.Path(), help="Write an HTML page with charts to this file.")
@click.option("--state", type=click.Path(), help="Journal folder, if the job was started with --state.")
@click.option("--json", "as_json", is_flag=True, help="Write JSON with the ledger and one sample per second.")
def command(dest: str, file: str | None, state: str | None, as_json: bool, **reach: Any) -> int:  # noqa: ANN401
    """Show the speed, failures and limits of the job in DEST over time, across all its runs. For its current progress,
    use `fetchmill status`. Only the user who owns the job can see its report.

    With --html, write a self-contained page that works offline and is easy to share. It shows rates, latencies,
    requests in flight, failures by kind, and what limited the job, all over time. Charts show at most 720 points; for
    longer jobs, neighbouring samples are merged.

    For a shared job, DEST is the job directory. The report covers all final ranges and shows what each worker did.
    """  # noqa: D205 - the first paragraph is what -h shows
    from fetchmill._dashboard.history import write_page

    own = given_reach(reach)
    found, lines = _shared(dest, own) if state is None and is_shared_job(dest, own) else _single(dest, state)
    if file is not None:
        write_page(found, file)
        say(f"written: {file}")
    if as_json:
        write_line(sys.stdout, json.dumps(found.to_dict()))
    elif file is None:
        write_line(sys.stdout, without_secrets("\n".join([*lines, *_history_lines(found)])))
    return 0


def _single(dest: str, state: str | None) -> "tuple[History, list[str]]":
    """Return the history of a job on one machine, and lines that show its status."""
    from fetchmill._destination.history import history

    found = history(dest, state=state)
    return found, status_lines(found.status, state)


def _shared(dest: str, reach: "Mapping[str, Any]") -> "tuple[History, list[str]]":
    """Like `_single`, for a shared job."""
    from fetchmill._shared.history import shared_history
    from fetchmill._shared.job_directory import JobDirectory
    from fetchmill.cli.shared_jobs import status_lines

    found = shared_history(JobDirectory.at(dest, reach))
    return found, status_lines(found.status, with_ended=True)


def _history_lines(found: "History") -> list[str]:
    """Return lines that show the duration and speed of a job, and what limited it."""
    from fetchmill._dashboard.history import describe_limits

    if not found.samples:
        return ["over time    no data, because the job ran for less than a second or with an older release"]
    settled = sum(sample["settled"] for sample in found.samples)
    received = sum(sample["bytes"] for sample in found.samples)
    best = max(sample["settled"] / sample["interval"] for sample in found.samples)
    seconds = found.seconds
    runs = "1 run" if found.runs == 1 else f"{found.runs} runs"
    rows = [
        ("time", f"{format_seconds(seconds)} in {runs}"),
        ("rate", f"{format_count(settled / seconds)} objects/s, {format_bytes(received / seconds)}/s"),
        ("peak rate", f"{format_count(best)} objects/s"),
        ("requests", format_count(found.attempts)),
    ]
    if found.limits:
        rows.append(("limited by", f"{describe_limits(found.limits)} of the time"))
    return [f"{name:<12} {value}" for name, value in rows]
