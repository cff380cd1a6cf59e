"""`fetchmill export`: writes the objects of a job in another format."""

from typing import TYPE_CHECKING, Any

import click

from fetchmill._destination.export import EXPORT_FORMATS, prepare
from fetchmill._job.progress_texts import describe_failures
from fetchmill._job.report import Report
from fetchmill.cli.one_file import suggest_folder
from fetchmill.cli.parameter_types import BYTES, Choice
from fetchmill.cli.progress import JsonDisplay, LiveDisplay
from fetchmill.cli.reach_command import ReachCommand, given_reach
from fetchmill.cli.streams import say, write_event
from fetchmill.cli.summary import destination_arguments, doubtful_lines, ledger_line, run_line
from fetchmill.cli.watch import Signals, choose_display, watch
from fetchmill.errors import UsageError

if TYPE_CHECKING:
    from fetchmill.cli.progress import Display

FINISHED_WITH_FAILURES = 3

_EXAMPLES = """
fetchmill export out/ shards/ --format parquet
fetchmill export out/ shards/ --format parquet     run again to resume
fetchmill export shards/ files/ --format files     one file per object
fetchmill export /nfs/run/ all/ --format tar       export a shared job
fetchmill export s3://bucket/run all/ --format tar
"""
_EPILOG = """Exit codes: 0 if all objects were written; 3 if the export finished, but some names cannot be file names or
collide on disk (list them: fetchmill status OTHER --failures), or some objects in DEST were doubtful; 10 if an object
is damaged (fetchmill verify DEST); 130 and 143 if stopped by SIGINT and SIGTERM after a checkpoint.
For other codes, see fetchmill --help."""


@click.command(
    "export",
    cls=ReachCommand,
    examples=_EXAMPLES,
    epilog=_EPILOG,
    short_help="Convert a destination to another format.",
)
@click.argument("dest", metavar="DEST", type=click.Path())
@click.argument("other", metavar="OTHER", type=click.Path())
@click.option("--format", "format_", type=Choice(EXPORT_FORMATS), required=True, help="Format of OTHER.")
@click.option("--shard-size", type=BYTES, help="Shard size. Default: 128 MiB for parquet, 1 GiB for other formats.")
@click.option("--state", type=click.Path(), help="Journal folder of DEST, if its job was started with --state.")
@click.option("--other-state", type=click.Path(), help="Journal folder of OTHER. Default: OTHER/.fetchmill.")
@click.option(
    "--durability",
    type=Choice(("power", "process")),
    default="power",
    show_default=True,
    help="What a commit survives: power loss, or only a crash of the process (no fsync).",
)
@click.option("--json", "as_json", is_flag=True, help="Write events as JSON lines to standard output.")
@click.option("-q", "--quiet", is_flag=True, help="Show only errors.")
def command(  # noqa: PLR0913, PLR0917 - one argument per option
    dest: str,
    other: str,
    format_: str,
    shard_size: int | None,
    state: str | None,
    other_state: str | None,
    durability: str,
    as_json: bool,
    quiet: bool,
    **reach: Any,  # noqa: ANN401
) -> int:
    """Convert the objects in DEST to another format, and write them to the folder OTHER. DEST does not change.

    If DEST is the directory of a finished shared job, OTHER receives the objects from all its ranges. If the job is in
    a bucket, its ranges are first copied to a temporary folder, one after another.

    OTHER must be new, empty, or the destination of the same export. To resume after an interruption, run the same
    command again. OTHER is a normal destination: status, verify and export work on it.

    jsonl and warc shards can be joined into one file: `cat other/*.jsonl > all.jsonl`.

    Shards can contain the same name twice. With --format files, the first object with a name is written, and later
    ones fail (name-taken). If DEST's format does not store response headers, warc records have the type `resource`.
    """
    signals = Signals()
    try:
        ready = prepare(dest, other, format_, shard_size, state, other_state, durability, given_reach(reach))
    except UsageError as error:
        suggest_folder(error, "export", dest, other, format_)
        raise
    with ready as prepared:
        with signals.interrupting():
            job = prepared.start()
        signals.attach(job)
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


def _conclude(report: Report, settled_before: int, state: str | None, display: "Display") -> None:
    """Show the final summary. With --json, write the `report` event instead."""
    if isinstance(display, JsonDisplay):
        return
    lines = ["already complete"] if report.already_finished else [run_line(report, settled_before)]
    lines.append(ledger_line(report))
    if report.failed:
        lines.append(f"failed: {describe_failures(report.failures, None)}")
        lines.append(f"list them: fetchmill status {destination_arguments(report.dest, state)} --failures")
    lines += doubtful_lines(report, state)
    if report.interrupted:
        lines.append("stopped after a checkpoint; run the same command again to resume")
    for line in lines:
        if isinstance(display, LiveDisplay):
            say(line)  # the live progress display is already gone
        else:
            display.notice(line)
