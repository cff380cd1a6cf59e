"""`fetchmill list`: lists the targets of a source in a manifest or on standard output, without fetching them."""

import json
import sys
from typing import TYPE_CHECKING, Any

import click

from fetchmill._options.list import ListOptions
from fetchmill._options.units import format_count, format_count_of, format_seconds
from fetchmill.cli.log_file import BothDisplays, LogFile, log_options
from fetchmill.cli.options import TableCommand, gathered, options_of
from fetchmill.cli.progress import Display, QuietDisplay
from fetchmill.cli.streams import escape, say, write_bytes, write_event
from fetchmill.cli.watch import Signals, announce_dashboard, choose_display, watch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fetchmill._job.list import ListedTarget, ListReport

INCOMPLETE = 3

_EXAMPLES = """
fetchmill list s3://bucket/prefix manifest.parquet
fetchmill get manifest.parquet out/               now or later, anywhere
fetchmill list https://example.org/data/ names.csv
fetchmill list http://127.0.0.1:8080 --include '*.json' | head
fetchmill list http://127.0.0.1:8080 --json       all known facts
fetchmill list urls.txt.gz urls.parquet           URLs in normalized form
"""

_HELP = """List the targets of SOURCE without fetching them.

\b
SOURCE is one of:
  http://HOST[:PORT][/PATH]  a server that lists its objects; also https://
  s3://BUCKET[/PREFIX]       a bucket
  FILE                       a list of URLs
  -                          a list on standard input

MANIFEST is a .parquet, .csv or .jsonl file with one row per target. It appears when the listing is complete. Fetch its
targets with `fetchmill get MANIFEST DEST`. To resume after an interruption, run the same command again.

Without MANIFEST, names are written to standard output, one per line, and an interrupted listing starts again.
"""

_EPILOG = """Exit codes: 0 the listing is complete; 3 a folder could not be listed, and its objects are missing;
130 and 143 stopped by SIGINT and SIGTERM after a checkpoint. For all others see `fetchmill help
exit-codes`.

For the columns of a row see `fetchmill help manifests`.
"""


def _run(
    source: str,
    manifest: str | None,
    as_json: bool,
    quiet: bool,
    log_file: str | None,
    log_format: str | None,
    **options: Any,  # noqa: ANN401
) -> int:
    """Run the command. Return the exit code."""
    listed = ListOptions(source=source, manifest=manifest, **gathered(options))
    # Imported late, because help does not need it.
    from fetchmill._job.list import ListReport, RowJob, state_folder
    from fetchmill._job.with_dashboard import JobDashboard
    from fetchmill._native import Job

    signals = Signals()
    with (
        LogFile(log_file, log_format) as log,
        JobDashboard("list", listed) as dashboard,
        state_folder(listed) as temporary,
    ):
        native = dashboard.show(Job(listed.to_json(temporary)))
        job = native if manifest is not None else RowJob(native, _printer(as_json))
        signals.attach(job)
        announce_dashboard(dashboard.url, as_json, quiet, log)
        display = _display(as_json, quiet, is_given=manifest is None)
        try:
            watch(job, signals, BothDisplays(display, log), is_resumable=manifest is not None)
        except BrokenPipeError:
            job.abort()
            return 0
        finally:
            display.close()
        report = ListReport.from_native(job.report(), manifest)
        log.conclude([*report.notices, *_lines(report)], report.to_dict())
    _conclude(report, display, as_json=as_json, quiet=quiet)
    if report.interrupted and signals.number is not None:
        return 128 + signals.number
    return INCOMPLETE if report.failed_folders or report.found_nothing else 0


command = TableCommand(
    "list",
    callback=_run,
    help=_HELP,
    examples=_EXAMPLES,
    matters=(
        "format",
        "column",
        "template",
        "include",
        "exclude",
        "listing",
        "headers",
        "bearer",
        "endpoint_url",
        "no_sign_request",
        "as_json",
        "dashboard",
    ),
    epilog=_EPILOG,
    short_help="List the targets of a source without fetching them.",
    params=[
        click.Argument(["source"], metavar="SOURCE"),
        click.Argument(["manifest"], metavar="[MANIFEST]", required=False, type=click.Path()),
        *options_of(ListOptions),
        *log_options(),
        click.Option(["--json", "as_json"], is_flag=True, help="Write events as JSON lines to standard output."),
        click.Option(["-q", "--quiet"], is_flag=True, help="Show only names and errors."),
    ],
)


def _display(as_json: bool, quiet: bool, *, is_given: bool) -> Display:
    """Return the display for progress. It shows nothing if names are written to a terminal."""
    if is_given and not as_json and sys.stdout.isatty():
        return QuietDisplay()
    return choose_display(as_json, quiet)


def _printer(as_json: bool) -> "Callable[[Sequence[ListedTarget]], None]":
    """Return a function that writes a batch of targets to standard output.

    The function raises BrokenPipeError if no one reads standard output any more.
    """

    def write(targets: "Sequence[ListedTarget]") -> None:
        lines = map(_event if as_json else _name, targets)
        if not write_bytes(sys.stdout, "".join(f"{line}\n" for line in lines).encode()):
            raise BrokenPipeError

    return write


def _name(target: "ListedTarget") -> str:
    """Return the name of a target's object, or else its URL."""
    return escape(target.name or target.url or "")


def _event(target: "ListedTarget") -> str:
    """Return the event for a target, with all its facts."""
    time = target.last_modified
    known = target._asdict() | {"last_modified": time and time.isoformat().replace("+00:00", "Z")}
    return json.dumps({"event": "target", **known})


def _conclude(report: "ListReport", display: Display, *, as_json: bool, quiet: bool) -> None:
    """Write the summary to standard error, because names are the result. With --json, write the event `report`."""
    if as_json:
        for notice in report.notices:
            display.notice(notice)
        write_event("report", report.to_dict())
    if as_json or quiet:
        return
    for line in (*report.notices, *_lines(report)):
        say(line)


def _lines(report: "ListReport") -> list[str]:
    rows = format_count_of(report.rows, "target")
    if report.already_finished:
        lines = [f"all done already: {rows}; choose another MANIFEST to list again"]
    else:
        lines = [f"{rows} in {format_seconds(report.seconds)}"]
    if report.skipped:
        lines.append(f"left out: {format_count(report.skipped)}")
    if report.without_url:
        lines.append(
            f"without a URL: {format_count(report.without_url)}; `fetchmill get` would count these targets as failed"
        )
    if report.failed_folders:
        lines.append(
            f"folders that could not be listed: {format_count(report.failed_folders)}; their objects are missing"
        )
    if report.interrupted:
        again = "stopped after a checkpoint; run the same command again to resume"
        lines.append(again if report.manifest else "stopped; nothing was kept")
    elif report.manifest:
        lines.append(f"manifest: {escape(report.manifest)}")
    return lines
