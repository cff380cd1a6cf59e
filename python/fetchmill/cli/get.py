"""`fetchmill get`: runs a job, shows it, and turns its end into an exit code."""

import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from fetchmill._job.report import Report
from fetchmill._job.with_dashboard import JobDashboard
from fetchmill._options.get import GetOptions
from fetchmill.cli.log_file import BothDisplays, LogFile, log_options
from fetchmill.cli.options import TableCommand, gathered, options_of
from fetchmill.cli.parameter_types import SECONDS
from fetchmill.cli.progress import Display, JsonDisplay, LiveDisplay
from fetchmill.cli.ray_jobs import ray_options
from fetchmill.cli.streams import escape, say, write_event, write_line
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

_HELP = """Fetch every object that SOURCE lists into the folder or bucket DEST.

SOURCE is http://host:port[/path] or https://... for a server that lists its objects, s3://bucket[/prefix] for a bucket,
a file with a list of URLs (txt, csv, tsv, jsonl, parquet; also .gz and .zst), or - for a list on standard input. DEST
must be missing, empty, or the same job's: the same command again resumes what was interrupted, by whatever. Killed at
any moment, at most the last commit window is fetched again. s3://BUCKET/PREFIX/
takes the shards of parquet, tar, warc and jsonl; what the job knows is then in ./NAME.fetchmill, after the last part of
PREFIX, or in --state DIR.

\b
Examples:
  fetchmill get http://127.0.0.1:8080 out/
  fetchmill get http://127.0.0.1:8080 out/                    again: resumes
  fetchmill get http://127.0.0.1:8080 out/ --retry-failed     what failed or was absent
  fetchmill get http://127.0.0.1/folder/ mirror/              index pages of Apache, nginx, lighttpd, http.server
  fetchmill get http://127.0.0.1:8080 null/ --format null     only measure
  fetchmill get urls.txt out/ --format parquet                a list of URLs
  fetchmill get top.csv out/ --column 2 --template 'https://www.{}' --format parquet --keep-columns 1
  fetchmill get images.csv out/ --format tar --names '{id}.{ext}' --keep-columns caption --sidecar txt=caption
  fetchmill get ids.csv out/ --format jsonl --template https://HOST/items --data-json '{"id": "{id}"}'
  fetchmill get s3://bucket/prefix out/ --format parquet      every object whose key begins so
  fetchmill get s3://bucket out/ --no-sign-request            a public bucket, without credentials
  fetchmill get s3://bucket out/ --endpoint-url http://127.0.0.1:7070   a store of your own
  fetchmill get s3://bucket out/ --include '*.json' --size-to 1MiB --modified-from 2026-11-01
  fetchmill get http://127.0.0.1:8080 out/ --engine threads -j 50
  fetchmill get http://127.0.0.1:8080 s3://bucket/run/ --format parquet
  fetchmill get urls.parquet /nfs/run --format tar --shared   with as many workers as run this
  fetchmill get urls.parquet /nfs/run --format tar --on ray --workers 64   workers in a Ray cluster
  fetchmill get urls.txt s3://bucket/run --format tar --shared   the same without a shared folder
  fetchmill get urls.txt out/ --dry-run                       what would be fetched, without a request
  fetchmill get https://api.example.com out/ --bearer-command 'gcloud auth print-access-token'
  zcat urls.gz | fetchmill get - out/ --rate 50 --bearer "$TOKEN" --credentials-for https://api.example.com
"""

_EPILOG = """\b
Exit codes: 0 all fetched, 3 finished with failed or absent targets, 8 stopped by --max-failed,
--max-duration or --max-bytes, 130 and 143 stopped by SIGINT and SIGTERM, all after a checkpoint;
the others are errors (fetchmill --help).
Bytes may be written as 64KiB or 10MB, times as 1.5s, 50ms or 2m, numbers as 1e6.
"""


_SHARED_HELP = """Make DEST, a folder or a bucket, a job directory that any number of processes work at, also on other
machines: the first one creates it, the others join (docs/guide/shared-jobs.md)."""

_LEASE_HELP = (
    """Time after which ranges of a worker without a heartbeat are free for others, with --shared; 10 s if not given."""
)


class _Destination(click.Path):
    """DEST; when it is missing, it is shown where it stands."""

    def get_missing_message(self, param: click.Parameter, ctx: click.Context | None) -> str | None:
        """The command that was probably meant."""
        import shlex

        del param
        source = ctx.params.get("source") if ctx else None
        return f"Give a folder, as in: fetchmill get {escape(shlex.quote(source))} out/" if source else None


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
    """The body of the command; gives the exit code."""
    if options["transform"]:
        from pathlib import Path

        # As `python -m` has it: modules of the working folder are found.
        sys.path.insert(0, str(Path.cwd()))
    sharing = _Sharing(*(options.pop(name) for name in _Sharing._fields))
    checked = GetOptions(source=source, dest=dest, **gathered(options))
    if dry_run:
        return _show_targets(checked)
    if sharing.is_shared:
        return _work(checked, sharing, log_file, as_json=as_json, quiet=quiet)
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
    if report.stopped_by:
        return STOPPED_BY_A_RULE
    if report.found_nothing:
        return FINISHED_WITH_FAILURES
    has_failures = report.failed or (report.absent and not checked.allow_absent)
    return FINISHED_WITH_FAILURES if report.doubtful_count or (has_failures and not report.tolerated) else 0


command = TableCommand(
    "get",
    callback=_run,
    help=_HELP,
    epilog=_EPILOG,
    short_help="Fetch every object that a source lists.",
    params=[
        click.Argument(["source"], metavar="SOURCE"),
        click.Argument(["dest"], metavar="DEST", type=_Destination()),
        *options_of(GetOptions),
        click.Option(["--dry-run"], is_flag=True, help="Print the targets of a list, one a line, and make no request."),
        click.Option(["--shared"], is_flag=True, help=_SHARED_HELP),
        click.Option(["--lease"], type=SECONDS, help=_LEASE_HELP),
        *ray_options(),
        *log_options(),
        click.Option(["--json", "as_json"], is_flag=True, help="Write events as JSON lines to standard output."),
        click.Option(["--quiet"], is_flag=True, help="Show nothing but errors."),
    ],
)


class _Sharing(NamedTuple):
    """Which processes fetch."""

    shared: bool
    lease: float | None
    on: str | None
    workers: int | None

    @property
    def is_shared(self) -> bool:
        """Whether there may be several."""
        is_shared = self.shared or self.on is not None
        if self.lease is not None and not is_shared:
            raise click.UsageError("--lease is for --shared")
        if self.workers is not None and self.on is None:
            raise click.UsageError("--workers is for --on ray")
        return is_shared


def _work(options: GetOptions, sharing: _Sharing, log_file: str | None, *, as_json: bool, quiet: bool) -> int:
    """Creates a shared job or joins it; gives the exit code."""
    if log_file:
        raise click.UsageError("--log-file is for one machine: workers write logs into the job directory")
    from fetchmill._shared.creation import LEASE_SECONDS, create_or_join, own_values
    from fetchmill.cli.ray_jobs import run_shared

    return run_shared(
        str(options.dest),
        lambda say: create_or_join(options, sharing.lease or LEASE_SECONDS, say),
        own_values(options),
        on=sharing.on,
        workers=sharing.workers,
        as_json=as_json,
        quiet=quiet,
        tells_failures=False,
    )


def _start(options: GetOptions, signals: Signals) -> "tuple[Job | EngineJob, tuple[str, ...]]":
    """The job, reachable for signals, and what its engine has to say; a signal that came before is passed on."""
    from fetchmill._native import Job

    notices: tuple[str, ...] = ()
    if options.engine == "native":
        job: Job | EngineJob = Job(options.to_json())
    else:
        from fetchmill.engines.garbage import collect_rarely
        from fetchmill.engines.selection import select_engine

        collect_rarely()
        engine = select_engine(options, options.to_json(), None)
        job = engine.start(Job(engine.options))
        notices = engine.notices
    signals.attach(job)
    return job, notices


def _show_targets(options: GetOptions) -> int:
    """What a list would fetch: the URL and, when it is another, the name. The counts go to standard error."""
    from fetchmill._native import ListTargets

    shown = skipped = bad = 0
    targets = ListTargets(options.to_json())
    while (page := targets.next_page()) is not None:
        rows, left_out = page
        skipped += left_out
        shown += len(rows)
        bad += sum(url is None for url, _ in rows)
        if rows and not write_line(sys.stdout, "\n".join(_target_line(url, name) for url, name in rows)):
            break
    say(f"{shown - bad:,} targets would be fetched, {bad:,} lines are no URLs, {skipped:,} are left out")
    return 0


def _target_line(url: str | None, name: str) -> str:
    """A target as a dry run shows it."""
    if url is None:
        return f"{escape(name)} is no URL"
    return url if url == name else f"{url}\t{escape(name)}"


def _conclude(report: Report, settled_before: int, options: GetOptions, display: Display, log: LogFile) -> None:
    """The summary, which stays; a machine has it in the event `report`."""
    summary = _summary(report, settled_before, None if options.state is None else str(options.state))
    log.conclude([*report.notices, *summary], report.to_dict())
    for line in [*report.notices, *([] if isinstance(display, JsonDisplay) else summary)]:
        if isinstance(display, LiveDisplay):
            say(line)  # the block is gone
        else:
            display.notice(line)


def _summary(report: Report, settled_before: int, state: str | None) -> list[str]:
    """What happened, the ledger, and how to go on."""
    done = finished_lines(report) if report.already_finished else [run_line(report, settled_before)]
    lines = [
        *done,
        *limit_lines(report),
        ledger_line(report),
        *skipped_lines(report, state),
        *failure_lines(report, state),
        *doubtful_lines(report, state),
    ]
    return [*lines, *stop_lines(report.stopped_by, report.interrupted)]
