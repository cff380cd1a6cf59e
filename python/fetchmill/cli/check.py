"""`fetchmill check`: reports how each URL in a list answers, in a file of rows and a summary."""

import sys
from collections.abc import Sequence
from typing import Any

import click

from fetchmill._job.report import FIRST
from fetchmill._options.check import CheckOptions
from fetchmill._options.units import format_count, format_count_of, format_seconds
from fetchmill.cli.log_file import BothDisplays, LogFile, log_options
from fetchmill.cli.options import TableCommand, gathered, options_of
from fetchmill.cli.progress import Display, JsonDisplay, QuietDisplay
from fetchmill.cli.streams import escape, write_event, write_line
from fetchmill.cli.summary import doubtful_line, opt_out_lines, private_address_lines, stop_lines
from fetchmill.cli.watch import STOPPED_BY_A_RULE, Signals, announce_dashboard, choose_display, watch

FOUND_WHAT_FAILS = 3

_EXAMPLES = """
fetchmill check urls.txt                        summary only
fetchmill check urls.txt results.parquet        one row per target
fetchmill check urls.txt --fail-on 'dns*,5xx'   for scripts: exit code 3
fetchmill check domains.txt results.csv --template 'https://{}'
fetchmill check top-1m.csv results.parquet --column 2 \\
    --template 'https://www.{}' --timeout 3 --no-redirects
fetchmill check urls.txt results.csv --second-look
fetchmill check urls.txt --fail-on any --quiet
fetchmill diff last-week.parquet results.parquet
"""

_HELP = """Send a GET request to each target in LIST, and report its status or failure, with timings. No bodies are
stored.

\b
LIST is one of:
  FILE     a list of URLs: txt, csv, tsv, jsonl or parquet; also .gz and .zst
  -        a list on standard input

RESULTS is a .parquet, .csv or .jsonl file with one row per target. It appears when the check is complete. To resume
after an interruption, run the same command again. Without RESULTS, only a summary is shown, and an interrupted check
starts over.
"""

_EPILOG = """Exit codes: 0 if every target has a row, whatever its answer; 3 if a target gave an answer listed in
--fail-on; 8 if stopped by --max-duration or --max-bytes; 130 and 143 if stopped by SIGINT and
SIGTERM. Runs that end with 8, 130 or 143 stop at a checkpoint. For other codes, see `fetchmill help
exit-codes`.

For the columns of a row and the failure kinds, see `fetchmill help check`.
"""


def _run(
    source: str,
    results: str | None,
    no_redirects: bool,
    fail_on: Sequence[str],
    as_json: bool,
    quiet: bool,
    log_file: str | None,
    log_format: str | None,
    **options: Any,  # noqa: ANN401
) -> int:
    """Run the command and return the exit code."""
    if no_redirects:
        if options["redirects"]:
            raise click.UsageError("--redirects and --no-redirects cannot be combined")
        options["redirects"] = 0
    checked = CheckOptions(source=source, results=results, **gathered(options))
    # Imported here because help does not need it.
    from fetchmill._job.check import CheckReport, check_pattern, matching_counts, state_folder
    from fetchmill._job.with_dashboard import JobDashboard
    from fetchmill._native import Job

    patterns = [pattern.strip() for text in fail_on for pattern in text.split(",")]
    for pattern in patterns:
        check_pattern(pattern)
    signals = Signals()
    with (
        LogFile(log_file, log_format) as log,
        JobDashboard("check", checked) as dashboard,
        state_folder(checked) as temporary,
    ):
        job = dashboard.show(Job(checked.to_json(temporary)))
        signals.attach(job)
        announce_dashboard(dashboard.url, as_json, quiet, log)
        display = choose_display(as_json, quiet)
        try:
            watch(job, signals, BothDisplays(display, log), is_resumable=not checked.is_temporary)
        finally:
            display.close()
        report = CheckReport.from_native(job.report(), results)
        found = matching_counts(report, patterns)
        lines = _summary(report.to_dict(), found, is_resumable=not checked.is_temporary)
        log.conclude([*report.notices, *lines], report.to_dict())
    _conclude(report.notices, lines, display)
    if as_json:
        write_event("report", report.to_dict())
    if report.interrupted and signals.number is not None:
        return 128 + signals.number
    if report.stopped_by and report.stopped_by != FIRST:
        return STOPPED_BY_A_RULE
    return FOUND_WHAT_FAILS if found or report.doubtful_count or report.found_nothing else 0


command = TableCommand(
    "check",
    callback=_run,
    help=_HELP,
    examples=_EXAMPLES,
    matters=(
        "column",
        "template",
        "include",
        "headers",
        "concurrency",
        "limit_per_host",
        "rate",
        "attempts",
        "second_look",
        "timeout",
        "no_redirects",
        "fail_on",
    ),
    epilog=_EPILOG,
    short_help="Report how each URL in a list answers.",
    params=[
        click.Argument(["source"], metavar="LIST"),
        click.Argument(["results"], metavar="[RESULTS]", required=False, type=click.Path()),
        *options_of(CheckOptions),
        click.Option(["--no-redirects"], is_flag=True, help="Do not follow redirects; report them as answers."),
        click.Option(
            ["--fail-on"],
            multiple=True,
            metavar="KINDS",
            help="Exit with 3 if any target gave one of these answers; repeatable. KINDS is a comma-separated list of "
            "failure kinds, statuses, patterns such as 5xx and dns*, or any (no complete reply, 4xx or 5xx).",
        ),
        *log_options(),
        click.Option(["--json", "as_json"], is_flag=True, help="Write events as JSON lines to standard output."),
        click.Option(["-q", "--quiet"], is_flag=True, help="Show only errors."),
    ],
)


def _conclude(notices: Sequence[str], lines: Sequence[str], display: Display) -> None:
    """Write the summary, which is the result, to standard output. With --json, the `report` event contains it."""
    if isinstance(display, QuietDisplay):
        return
    if isinstance(display, JsonDisplay):
        for notice in notices:
            display.notice(notice)
        return
    for line in (*notices, *lines):
        if not write_line(sys.stdout, line):
            return


def _summary(report: dict[str, Any], found: dict[str, int], *, is_resumable: bool) -> list[str]:
    """Return lines that show the results and explain how to continue."""
    lines = [_run_line(report), *_count_lines(report), *_failed_lines(report["failed"])]
    lines += [*private_address_lines(report["counts"]), *_doubt_lines(report), *opt_out_lines(report)]
    if found:
        lines.append("--fail-on: " + ", ".join(f"{format_count(count)} x {answer}" for answer, count in found.items()))
    if report["interrupted"]:
        return [*lines, *_stop_lines(report, is_resumable=is_resumable)]
    if report["results"]:
        lines.append(f"results: {report['results']}")
    return lines


def _stop_lines(report: dict[str, Any], *, is_resumable: bool) -> list[str]:
    """Return lines that explain how to continue a stopped check."""
    is_first = report["stopped_by"] == FIRST
    if not is_resumable:
        return ["the first targets are done; no progress was saved" if is_first else "stopped; no progress was saved"]
    lines = stop_lines(report["stopped_by"], True)
    return (
        [*lines, f"{report['results']} appears when all targets are done"] if is_first and report["results"] else lines
    )


def _doubt_lines(report: dict[str, Any]) -> list[str]:
    """Return lines about rows that may be wrong (`suspect` and `doubtful`)."""
    lines = []
    if report["suspect"]:
        lines.append(f"suspect: {format_count_of(report['suspect'], 'row')}; this machine may be the cause")
    if report["doubtful_count"]:
        what = "contain another target's answer"
        lines.append(doubtful_line(report["doubtful"], report["doubtful_count"], "row", what))
    return lines


def _run_line(report: dict[str, Any]) -> str:
    """Return a line with the number of rows and the duration."""
    rows = format_count_of(report["rows"], "row")
    if report["already_finished"]:
        return f"already complete: {rows}; use another RESULTS for a new check"
    return f"{rows} in {format_seconds(report['seconds'])}"


def _count_lines(report: dict[str, Any]) -> list[str]:
    """Return one line per answer with its number of rows, most frequent first."""
    counts = sorted(report["counts"].items(), key=lambda pair: (-pair[1], pair[0]))
    width = max((len(format_count(count)) for _, count in counts), default=0)
    total = max(report["rows"], 1)
    return [f"  {format_count(count):>{width}}  {100 * count / total:5.1f} %  {answer}" for answer, count in counts]


def _failed_lines(failed: Sequence[dict[str, Any]]) -> list[str]:
    """Return lines about the first failures."""
    if not failed:
        return []
    rows = [(str(row["kind"] or row["status"]), _site(row)) for row in failed]
    width = max(len(answer) for answer, _ in rows)
    first = "the first failure:" if len(rows) == 1 else f"the first {len(rows)} failures:"
    return [first, *(f"  {answer:<{width}}  {site}" for answer, site in rows)]


def _site(row: dict[str, Any]) -> str:
    site, detail = escape(str(row["url"] or row["key"])), row["detail"]
    # Text from the list is already escaped in `detail`.
    return f"{site} ({detail if detail.isprintable() else escape(detail)})" if detail else site
