"""Writes the targets of a source to a manifest or to standard output, for `ls` and `list`."""

import sys
from typing import TYPE_CHECKING

import click

from fetchmill._options.list import ListOptions
from fetchmill._options.units import format_count, format_count_of, format_seconds
from fetchmill.cli.log_file import BothDisplays, LogFile
from fetchmill.cli.parameter_types import COUNT
from fetchmill.cli.progress import Display, QuietDisplay
from fetchmill.cli.streams import escape, say, write_bytes, write_event
from fetchmill.cli.watch import Signals, announce_dashboard, choose_display, watch
from fetchmill.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fetchmill._job.list import ListedTarget, ListReport

INCOMPLETE = 3
_ONLY_FIRST = "a manifest must contain all targets, because get and sync would mistake a part for the whole source"


class _EnoughListed(Exception):  # noqa: N818 - not an error
    """Raised when the requested number of targets has been written."""


def list_source(
    listed: ListOptions,
    to_lines: "Callable[[Sequence[ListedTarget]], bytes]",
    *,
    first: int | None,
    with_events: bool,
    quiet: bool,
    log_file: str | None,
    log_format: str | None,
) -> int:
    """List a source and return the exit code.

    Args:
        listed: the options. If they do not name a manifest, the targets are written to standard output.
        to_lines: converts a batch of targets to the lines for standard output.
        first: number of targets after which the listing ends; None for all.
        with_events: whether to write progress and the report to standard output as JSON events.
        quiet: whether to show only targets and errors.
        log_file: the file to which progress and the summary are appended.
        log_format: format of the log file.

    Raises:
        UsageError: the manifest would contain only the first targets.
    """
    if first is not None and listed.manifest is not None:
        raise UsageError(
            f"--first cannot be combined with a manifest: {_ONLY_FIRST}",
            hint=f"fetch the first targets: fetchmill get MANIFEST DEST --first {first}",
        )
    # Imported here because help does not need it.
    from fetchmill._job.list import ListReport, RowJob, state_folder
    from fetchmill._job.with_dashboard import JobDashboard
    from fetchmill._native import Job

    signals = Signals()
    manifest = None if listed.manifest is None else str(listed.manifest)
    with (
        LogFile(log_file, log_format) as log,
        JobDashboard("list", listed) as dashboard,
        state_folder(listed) as temporary,
    ):
        native = dashboard.show(Job(listed.to_json(temporary)))
        job = native if manifest is not None else RowJob(native, _writer(to_lines, first))
        signals.attach(job)
        announce_dashboard(dashboard.url, with_events, quiet, log)
        display = _display(with_events, quiet, is_given=manifest is None)
        try:
            watch(job, signals, BothDisplays(display, log), is_resumable=manifest is not None)
        except BrokenPipeError:
            job.abort()
            return 0
        except _EnoughListed:
            job.abort()
            line = f"ended after {format_count_of(first or 0, 'target')}"
            BothDisplays(display, log).notice(line)
            return 0
        finally:
            display.close()
        report = ListReport.from_native(job.report(), manifest)
        log.conclude([*report.notices, *_lines(report)], report.to_dict())
    _conclude(report, display, with_events=with_events, quiet=quiet)
    if report.interrupted and signals.number is not None:
        return 128 + signals.number
    return INCOMPLETE if report.failed_folders or report.found_nothing else 0


def _display(with_events: bool, quiet: bool, *, is_given: bool) -> Display:
    """Return the progress display, which shows nothing if names are written to a terminal."""
    if is_given and not with_events and sys.stdout.isatty():
        return QuietDisplay()
    return choose_display(with_events, quiet)


def _writer(
    to_lines: "Callable[[Sequence[ListedTarget]], bytes]", first: int | None
) -> "Callable[[Sequence[ListedTarget]], None]":
    """Return a function that writes a batch of targets to standard output.

    The function raises BrokenPipeError if the reader closes standard output, and _EnoughListed after the last requested
    target.
    """
    left = sys.maxsize if first is None else first

    def write(targets: "Sequence[ListedTarget]") -> None:
        nonlocal left
        if not write_bytes(sys.stdout, to_lines(targets[:left])):
            raise BrokenPipeError
        left -= len(targets)
        if left <= 0:
            raise _EnoughListed

    return write


def _conclude(report: "ListReport", display: Display, *, with_events: bool, quiet: bool) -> None:
    """Write the summary to standard error, because names are the result. With events, write the `report` event."""
    if with_events:
        for notice in report.notices:
            display.notice(notice)
        write_event("report", report.to_dict())
    if with_events or quiet:
        return
    for line in (*report.notices, *_lines(report)):
        say(line)


def _lines(report: "ListReport") -> list[str]:
    rows = format_count_of(report.rows, "target")
    if report.already_finished:
        lines = [f"already complete: {rows}; choose another manifest to list again"]
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
        lines.append(again if report.manifest else "stopped; no progress was saved")
    elif report.manifest:
        lines.append(f"manifest: {escape(report.manifest)}")
    return lines


def first_option() -> click.Option:
    """Return the `--first` option."""
    return click.Option(["--first"], type=COUNT, callback=_at_least_one, help="List only the first N names, then stop.")


def _at_least_one(_ctx: click.Context, _parameter: click.Parameter, first: int | None) -> int | None:
    if first is not None and first < 1:
        raise UsageError(f"--first must be a whole number of at least 1, not {first}")
    return first
