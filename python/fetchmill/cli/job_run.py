"""Runs a job for the command line, shows its progress, and converts the result to an exit code."""

from typing import TYPE_CHECKING

from fetchmill._job.report import FIRST, Report
from fetchmill._job.with_dashboard import JobDashboard
from fetchmill._options.get import GetOptions
from fetchmill.cli.json_page import json_page_lines
from fetchmill.cli.log_file import BothDisplays, LogFile
from fetchmill.cli.progress import Display, JsonDisplay, LiveDisplay
from fetchmill.cli.streams import say, write_event
from fetchmill.cli.summary import (
    doubtful_lines,
    failure_lines,
    finished_lines,
    ledger_line,
    limit_lines,
    run_line,
    skipped_lines,
    stop_lines,
)
from fetchmill.cli.watch import STOPPED_BY_A_RULE, Signals, announce_dashboard, choose_display, watch

if TYPE_CHECKING:
    from fetchmill._native import Job
    from fetchmill.engines.engine_job import EngineJob

FINISHED_WITH_FAILURES = 3


def run_job(
    checked: GetOptions, *, as_json: bool, quiet: bool, log_file: str | None = None, log_format: str | None = None
) -> int:
    """Run a job, show its progress, and return the exit code."""
    signals = Signals()
    with LogFile(log_file, log_format) as log, JobDashboard("get", checked) as dashboard:
        started, notices = _start(checked, signals)
        job = dashboard.show(started)
        announce_dashboard(dashboard.url, as_json, quiet, log)
        display = choose_display(as_json, quiet)
        both = BothDisplays(display, log)
        try:
            for notice in notices:
                both.notice(f"warning: {notice}")
            first = watch(job, signals, both)
        finally:
            display.close()
        report = Report.from_native(job.report())
        _conclude(report, first.start_settled, checked, display, log)
    if as_json:
        write_event("report", report.to_dict())
    if report.interrupted and signals.number is not None:
        return 128 + signals.number
    if report.stopped_by and report.stopped_by != FIRST:
        return STOPPED_BY_A_RULE
    if report.found_nothing:
        return FINISHED_WITH_FAILURES
    has_failures = report.failed or (report.absent and not checked.allow_absent)
    return FINISHED_WITH_FAILURES if report.doubtful_count or (has_failures and not report.tolerated) else 0


def _start(options: GetOptions, signals: Signals) -> "tuple[Job | EngineJob, tuple[str, ...]]":
    """Start the job, and let signals stop it, including signals that arrived earlier.

    Return the job and the engine's notices.
    """
    from fetchmill._job.first_target import list_first_target
    from fetchmill._job.stored_command import job_json
    from fetchmill._native import Job

    with signals.interrupting():
        list_first_target(options)
    notices: tuple[str, ...] = ()
    if options.engine == "native":
        job: Job | EngineJob = Job(job_json(options))
    else:
        from fetchmill.engines.garbage import collect_rarely
        from fetchmill.engines.selection import select_engine

        collect_rarely()
        engine = select_engine(options, job_json(options), None)
        job = engine.start(Job(engine.options))
        notices = engine.notices
    signals.attach(job)
    return job, notices


def _conclude(report: Report, settled_before: int, options: GetOptions, display: Display, log: LogFile) -> None:
    """Show the final summary. With --json, write the `report` event instead."""
    summary = _summary(report, settled_before, options)
    log.conclude([*report.notices, *summary], report.to_dict())
    for line in [*report.notices, *([] if isinstance(display, JsonDisplay) else summary)]:
        if isinstance(display, LiveDisplay):
            say(line)  # the live progress display is already gone
        else:
            display.notice(line)


def _summary(report: Report, settled_before: int, options: GetOptions) -> list[str]:
    """Return lines that show the result and the ledger, and explain how to continue."""
    state = None if options.state is None else str(options.state)
    done = finished_lines(report) if report.already_finished else [run_line(report, settled_before)]
    lines = [
        *done,
        *limit_lines(report),
        ledger_line(report),
        *skipped_lines(report, state),
        *failure_lines(report, state, is_private_allowed=options.allow_private),
        *doubtful_lines(report, state),
        *json_page_lines(report, options),
    ]
    return [*lines, *stop_lines(report.stopped_by, report.interrupted)]
