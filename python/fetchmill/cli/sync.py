"""`fetchmill sync`: runs a pass, shows its jobs, and converts the result to an exit code."""

import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypeVar

import click

from fetchmill._options.sync import SyncOptions, lasting_source
from fetchmill._options.units import format_bytes, format_count, format_count_of, format_seconds
from fetchmill.cli.log_file import BothDisplays, LogFile, log_options
from fetchmill.cli.one_file import suggest_folder
from fetchmill.cli.options import TableCommand, gathered, options_of
from fetchmill.cli.streams import escape, flush_or_silence, say, write_bytes, write_event
from fetchmill.cli.summary import destination_arguments, failed_lines, private_address_lines
from fetchmill.cli.watch import DRAIN_SECONDS_MAX, Signals, choose_display, watch
from fetchmill.errors import UsageError

if TYPE_CHECKING:
    from fetchmill._job.run import RunningJob
    from fetchmill._native import SyncStore
    from fetchmill._sync.report import SyncPlan, SyncReport
    from fetchmill._sync.sync_pass import Phase

T = TypeVar("T")
INCOMPLETE = 3
# Number of names per write call.
_NAMES = 1000

_EXAMPLES = """
fetchmill sync https://example.org/data/ mirror/             add and update
fetchmill sync https://example.org/data/ mirror/ --delete    also remove
fetchmill sync https://example.org/data/ mirror/ --delete --dry-run
fetchmill sync s3://bucket/prefix mirror/ --exclude '*.tmp'
fetchmill sync urls.txt mirror/ --concurrency 16 --rate 50
fetchmill sync https://example.org/data/ mirror/ --format parquet
fetchmill sync https://example.org/data/ mirror/ --check-local
"""

_HELP = """Mirror SOURCE into the folder DEST: fetch new and changed objects, and remove objects that SOURCE no longer
lists (only with --delete). DEST can be a folder created by `fetchmill get`.

\b
SOURCE is one of:
  http://HOST[:PORT][/PATH]  a server that lists its objects; also https://
  s3://BUCKET[/PREFIX]       a bucket
  FILE                       a list of URLs

Each pass lists SOURCE again, and compares objects with the last pass by size and time, by ETag, or with a conditional
request.

DEST must be new, empty, or the destination of an earlier sync of the same SOURCE, or of a finished `fetchmill get` with
the same format. With --overwrite-local, a first sync also accepts a folder that contains other files. It replaces
files that share an object's name, and never removes the others. Objects have the same names as with `get`: files are
named after their path below SOURCE, or after their key or URL.

Each object is replaced atomically, so that even after a kill it is either the old or the new version. To resume, run
the same command again. Files changed in DEST are kept. `fetchmill status DEST --watch` shows the progress of a sync,
which does not have a dashboard.
"""

_EPILOG = """Exit codes: 0 if every listed object is current, apart from local changes; 3 if objects failed or
a folder could not be listed (the next pass retries them), or if --dry-run shows objects to leave; 11 if the pass would
remove more than --max-delete, and nothing was changed; 130 and 143 if stopped by SIGINT and SIGTERM after a checkpoint.
For other codes, see `fetchmill help exit-codes`.

To learn how objects are compared, see `fetchmill help sync`.
"""


def _run(
    source: str,
    dest: str,
    as_json: bool,
    quiet: bool,
    dry_run: bool,
    log_file: str | None,
    log_format: str | None,
    **options: Any,  # noqa: ANN401
) -> int:
    """Run the command and return the exit code."""
    checked = SyncOptions(source=lasting_source(source), dest=dest, **gathered(options))
    # Imported here because help does not need it.
    from fetchmill._sync.sync import run_pass

    signals = Signals()
    with LogFile(log_file, log_format) as log:
        runner = _ShownRunner(signals, log, lambda: LogFile(log_file, log_format), as_json=as_json, quiet=quiet)
        try:
            report = run_pass(checked, runner, dry_run=dry_run, show=lambda store: _write_names(store, as_json=as_json))
        except UsageError as error:
            suggest_folder(error, "sync", source, dest, checked.format)
            raise
        lines = [*report.notices, *_summary(report)]
        log.conclude(lines, report.to_dict())
    if as_json:
        for notice in report.notices:
            write_event("notice", {"message": notice})
        write_event("report", report.to_dict())
    elif not quiet:
        for line in lines:
            say(line)
    if report.interrupted and signals.exit_code is not None:
        return signals.exit_code
    return 0 if report.complete else INCOMPLETE


command = TableCommand(
    "sync",
    callback=_run,
    help=_HELP,
    examples=_EXAMPLES,
    matters=(
        "format",
        "delete",
        "max_delete",
        "dry_run",
        "check_local",
        "overwrite_local",
        "include",
        "exclude",
        "headers",
        "bearer",
        "concurrency",
        "rate",
    ),
    epilog=_EPILOG,
    short_help="Mirror a source into a folder, or bring the folder up to date.",
    params=[
        click.Argument(["source"], metavar="SOURCE"),
        click.Argument(["dest"], metavar="DEST", type=click.Path()),
        *options_of(SyncOptions),
        click.Option(
            ["--dry-run"],
            is_flag=True,
            help="List and compare only; print the planned action for each name, one per line: fetch, ask "
            "(conditional request), remove, or leave (changed in DEST).",
        ),
        *log_options(),
        click.Option(["--json", "as_json"], is_flag=True, help="Write events as JSON lines to standard output."),
        click.Option(["-q", "--quiet"], is_flag=True, help="Show only errors."),
    ],
)


class _ShownRunner:
    """Displays the jobs of a pass in sequence, and ends the pass on a signal.

    Args:
        signals: SIGINT and SIGTERM.
        log: a log file to which the same lines are written.
        open_log: function that reopens the log file for each job, because each job's progress starts at 0.
        as_json: whether to write events.
        quiet: whether to suppress all output.
    """

    def __init__(
        self, signals: Signals, log: LogFile, open_log: Callable[[], LogFile], *, as_json: bool, quiet: bool
    ) -> None:
        self._signals = signals
        self._log = log
        self._open_log = open_log
        self._as_json = as_json
        self._quiet = quiet
        self._deadline: float | None = None
        signals.attach(self)

    @property
    def is_stopped(self) -> bool:
        """Whether a signal has arrived."""
        return self._signals.number is not None

    def stop(self) -> None:
        """Handle the first signal between two jobs: end the process if the current step does not end soon."""
        self._deadline = time.monotonic() + DRAIN_SECONDS_MAX

    def abort(self) -> None:
        """Ignore a second signal, because the process is already ending."""

    def begin(self, phase: "Phase", plan: "SyncPlan | None") -> None:
        """Show the next phase."""
        line = _phase_line(phase, plan)
        self._log.notice(line)
        if self._as_json:
            write_event("phase", {"phase": phase, "plan": plan and asdict(plan)})
        elif not self._quiet:
            say(line)

    def run(self, start: "Callable[[], RunningJob]") -> dict[str, Any]:
        """Run a job, show its progress, and return its report."""
        job = start()
        self._signals.attach(job)
        log, display = self._open_log(), choose_display(self._as_json, self._quiet)
        try:
            watch(job, self._signals, BothDisplays(display, log))
        finally:
            display.close()
            log.close()
            self._signals.attach(self)
        return job.report()

    def call(self, call: Callable[[], T]) -> T:
        """Make a call that can take a long time."""
        from fetchmill._sync.sync import call_in_steps

        return call_in_steps(call, self._end_in_time)

    def _end_in_time(self) -> None:
        """End the process after the deadline. The interrupted step is not durable, so the next run repeats it."""
        code = self._signals.exit_code
        if code is not None and self._deadline is not None and time.monotonic() > self._deadline:
            say("stopped; run the same command again to continue")
            flush_or_silence()
            os._exit(code)


def _phase_line(phase: "Phase", plan: "SyncPlan | None") -> str:
    """Describe the current phase of a pass."""
    if plan is None:
        return {"listing": "listing the source", "comparing": "comparing with the destination"}.get(phase, phase)
    if phase == "fetching":
        asked = f", checking {format_count(plan.ask)} with conditional requests" if plan.ask else ""
        return f"fetching {format_count_of(plan.fetch, 'new or changed object')}{asked}"
    if phase == "preparing":
        return "rewriting shards that contain changed or removed objects"
    return f"moving fetched objects into place, removing {format_count(plan.remove)}"


def _write_names(store: "SyncStore", *, as_json: bool) -> None:
    """Write the output of a dry run, with one action and name per line. End early if the reader closes the pipe."""
    for action in ("fetch", "ask", "remove", "leave"):
        last: bytes | None = None
        while names := store.names(action, last, _NAMES):
            last = names[-1]
            if not write_bytes(sys.stdout, "".join(_name_line(action, name, as_json) for name in names).encode()):
                return


def _name_line(action: str, name: bytes, as_json: bool) -> str:
    text = name.decode(errors="backslashreplace") if as_json else escape(name.decode(errors="surrogateescape"))
    return json.dumps({"event": action, "name": text}) + "\n" if as_json else f"{action} {text}\n"


def _summary(report: "SyncReport") -> list[str]:
    """Return lines with a pass's ledger and advice."""
    if report.interrupted:
        return ["stopped after a checkpoint; run the same command again to continue"]
    if report.dry_run and report.plan is not None:
        return [_plan_line(report.plan)]
    return [_ledger_line(report), *_removal_lines(report), *_failure_lines(report), _cost_line(report)]


def _plan_line(plan: "SyncPlan") -> str:
    asked = f", {format_count(plan.ask)} checked with conditional requests" if plan.ask else ""
    left = f", {format_count(plan.kept)} kept although no longer listed" if plan.kept else ""
    local = f", {format_count(plan.local)} left alone because of local changes" if plan.local else ""
    return (
        f"{format_count(plan.fetch)} would be fetched{asked}, {format_count(plan.remove)} removed, "
        f"{format_count(plan.unchanged)} unchanged{left}{local}; nothing was changed"
    )


def _ledger_line(report: "SyncReport") -> str:
    names = ("unchanged", "fetched", "absent", "failed", "skipped")
    parts = [f"{format_count(getattr(report, name))} {name}" for name in names]
    return f"{format_count(report.listed)} listed = {' + '.join(parts)}"


def _removal_lines(report: "SyncReport") -> list[str]:
    lines = []
    if report.removed:
        lines.append(f"removed: {format_count(report.removed)}, no longer listed by the source")
    if report.not_removed:
        lines.append(f"not removed: {format_count(report.not_removed)}, changed in the destination")
    if report.kept:
        lines.append(f"kept: {format_count(report.kept)}, no longer listed by the source")
    return lines


def _failure_lines(report: "SyncReport") -> list[str]:
    lines = []
    if report.failed_folders:
        many = format_count(report.failed_folders)
        lines.append(f"folders that could not be listed: {many}; objects below them were not changed")
    lines += failed_lines(report)
    if report.failed or report.absent or report.not_removed:
        lines.append(f"list them: fetchmill status {destination_arguments(report.dest, None)} --failures")
        lines.append("the same command retries them")
    if report.failures.get("local-change"):
        lines.append("local-change: these files were changed in the destination; --overwrite-local replaces them")
    lines += private_address_lines(report.failures)
    return lines


def _cost_line(report: "SyncReport") -> str:
    asked = f"{format_count_of(report.attempts, 'request')} for objects"
    return f"pass {report.number} in {format_seconds(report.seconds)}: {asked}, {format_bytes(report.bytes)} fetched"
