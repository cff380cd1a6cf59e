"""`fetchmill export`: writes the objects of a job in another format."""

from typing import TYPE_CHECKING

import click

from fetchmill._destination.export import EXPORT_FORMATS, to_json
from fetchmill._job.progress_texts import describe_failures
from fetchmill._job.report import Report
from fetchmill.cli.help_texts import CliCommand
from fetchmill.cli.parameter_types import BYTES, Choice
from fetchmill.cli.progress import JsonDisplay, LiveDisplay
from fetchmill.cli.streams import say, write_event
from fetchmill.cli.summary import destination_arguments, doubtful_lines, ledger_line, run_line
from fetchmill.cli.watch import Signals, choose_display, watch

if TYPE_CHECKING:
    from fetchmill._native import Export
    from fetchmill.cli.progress import Display

FINISHED_WITH_FAILURES = 3

_EXAMPLES = """
fetchmill export out/ shards/ --format parquet
fetchmill export out/ shards/ --format parquet     again: resumes
fetchmill export shards/ files/ --format files     an object a file
fetchmill export /nfs/run/ all/ --format tar       of a shared job
"""
_EPILOG = """Exit codes: 0 all written, 3 finished, but some names cannot be files or meet on disk
(fetchmill status OTHER --failures), or some objects of DEST were doubtful, 10 an object is
damaged (fetchmill verify DEST), 130 and 143 stopped by SIGINT and SIGTERM after a checkpoint;
the others are errors (fetchmill --help)."""


@click.command(
    "export",
    cls=CliCommand,
    examples=_EXAMPLES,
    epilog=_EPILOG,
    short_help="Write a destination again in another format.",
)
@click.argument("dest", metavar="DEST", type=click.Path())
@click.argument("other", metavar="OTHER", type=click.Path())
@click.option("--format", "format_", type=Choice(EXPORT_FORMATS), required=True, help="How objects are stored.")
@click.option("--shard-size", type=BYTES, help="Size of a shard of tar, warc and jsonl (1 GiB) or parquet (128 MiB).")
@click.option("--state", type=click.Path(), help="Journal folder of DEST, if its job was started with --state.")
@click.option("--other-state", type=click.Path(), help="Journal folder of OTHER. Default: OTHER/.fetchmill.")
@click.option(
    "--durability",
    type=Choice(("power", "process")),
    default="power",
    show_default=True,
    help="What a commit survives: a power cut, or the death of the process only.",
)
@click.option("--json", "as_json", is_flag=True, help="Write events as JSON lines to standard output.")
@click.option("-q", "--quiet", is_flag=True, help="Show nothing but errors.")
def command(  # noqa: PLR0913, PLR0917 - an argument an option
    dest: str,
    other: str,
    format_: str,
    shard_size: int | None,
    state: str | None,
    other_state: str | None,
    durability: str,
    as_json: bool,
    quiet: bool,
) -> int:
    """Write every object that the job of DEST has fetched into OTHER in another format.

    DEST may be the folder of a finished shared job: OTHER then has the objects of all its ranges.

    OTHER must be missing, empty, or the same export's: the same command again resumes what was interrupted. It is a
    destination like any other: status, verify and export work on it. Names that a format of shards keeps twice are
    failed(name-taken) as files, where the first stays; from a format without heads, warc has records `resource`.
    """
    options = to_json(dest, other, format_, shard_size, state, other_state, durability)
    signals = Signals()
    job = _start(options, signals)
    display = choose_display(as_json, quiet)
    try:
        first = watch(job, signals, display)
    finally:
        display.close()
    report = Report.from_native(job.report())
    if as_json:
        write_event("report", report.to_dict())
    _conclude(report, first.start_settled, other_state, display)
    if report.interrupted and signals.number is not None:
        return 128 + signals.number
    return FINISHED_WITH_FAILURES if report.failed or report.doubtful_count else 0


def _start(options: str, signals: Signals) -> "Export":
    """Start the export and let signals stop it."""
    from fetchmill._native import Export

    job = Export(options)
    signals.attach(job)
    return job


def _conclude(report: Report, settled_before: int, state: str | None, display: "Display") -> None:
    """Show the final summary. With --json, write the event `report` instead."""
    if isinstance(display, JsonDisplay):
        return
    lines = ["all done already"] if report.already_finished else [run_line(report, settled_before)]
    lines.append(ledger_line(report))
    if report.failed:
        lines.append(f"failed: {describe_failures(report.failures, None)}")
        lines.append(f"list them: fetchmill status {destination_arguments(report.dest, state)} --failures")
    lines += doubtful_lines(report, state)
    if report.interrupted:
        lines.append("stopped after a checkpoint; run the same command again to resume")
    for line in lines:
        if isinstance(display, LiveDisplay):
            say(line)  # the block was removed
        else:
            display.notice(line)
