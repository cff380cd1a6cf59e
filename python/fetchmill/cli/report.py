"""`fetchmill report`: shows what a job did over time, as lines, as JSON, or as a page in one file."""

import json
import sys
from typing import TYPE_CHECKING

import click

from fetchmill._options.units import format_bytes, format_count, format_seconds
from fetchmill.cli.help_texts import CliCommand
from fetchmill.cli.streams import say, without_secrets, write_line
from fetchmill.cli.summary import status_lines

if TYPE_CHECKING:
    from fetchmill._destination.history import JobHistory

_EXAMPLES = """
fetchmill report out/
fetchmill report out/ --html report.html    one file with charts
fetchmill report out/ --json | jq '.samples[-1]'
"""


@click.command(
    "report", cls=CliCommand, examples=_EXAMPLES, short_help="Show speed, failures and limits of a job over time."
)
@click.argument("dest", metavar="DEST", type=click.Path())
@click.option("--html", "file", metavar="FILE", type=click.Path(), help="Write a page with charts into this file.")
@click.option("--state", type=click.Path(), help="Journal folder, if the job was started with --state.")
@click.option("--json", "as_json", is_flag=True, help="Write JSON: the ledger, and a sample of each second.")
def command(dest: str, file: str | None, state: str | None, as_json: bool) -> int:
    """Show speed, failures and limits of the job of DEST over time, over all its runs.

    With --html, as a page in one file: rates, latencies, requests in flight, failures by kind, and what limited the
    job, each over time. It can be sent to somebody, and opens without a network. What is older than some minutes has
    fewer points: 720 in all.
    """
    from fetchmill._destination.history import history, write_page

    found = history(dest, state=state)
    if file is not None:
        write_page(found, file)
        say(f"written: {file}")
    if as_json:
        write_line(sys.stdout, json.dumps(found.to_dict()))
    elif file is None:
        lines = [*status_lines(found.status, state), *_history_lines(found)]
        write_line(sys.stdout, without_secrets("\n".join(lines)))
    return 0


def _history_lines(found: "JobHistory") -> list[str]:
    """Returns lines with the duration and speed of a job, and what limited it."""
    from fetchmill._destination.history import describe_limits

    if not found.samples:
        return ["over time    no data: the job ran for less than a second, or with an older release"]
    settled = sum(sample["settled"] for sample in found.samples)
    received = sum(sample["bytes"] for sample in found.samples)
    best = max(sample["settled"] / sample["interval"] for sample in found.samples)
    seconds = found.seconds
    runs = "1 run" if found.runs == 1 else f"{found.runs} runs"
    rows = [
        ("time", f"{format_seconds(seconds)} in {runs}"),
        ("rate", f"{format_count(settled / seconds)} objects/s, {format_bytes(received / seconds)}/s"),
        ("at best", f"{format_count(best)} objects/s"),
        ("requests", format_count(found.attempts)),
    ]
    if found.limits:
        rows.append(("limited by", f"{describe_limits(found.limits)} of the time"))
    return [f"{name:<12} {value}" for name, value in rows]
