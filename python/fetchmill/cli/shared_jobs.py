"""Runs a worker and shows the job's status, for all commands that handle shared jobs."""

from typing import TYPE_CHECKING, Any

import click

from fetchmill._options.get import GetOptions
from fetchmill._options.sources import BUCKET_REACH
from fetchmill._options.units import format_bytes, format_count, format_count_of, format_seconds
from fetchmill._shared.worker_log import WorkerLog
from fetchmill.cli.options import TableCommand, gathered, options_of
from fetchmill.cli.streams import escape, say, write_event
from fetchmill.cli.watch import Signals

if TYPE_CHECKING:
    from collections.abc import Callable, Container

    from fetchmill._shared.status import SharedStatus
    from fetchmill._shared.store import Store
    from fetchmill._shared.worker import RangeWorker

FINISHED_WITH_FAILURES = 3
# Options that each process sets for itself.
OWN = (
    *("headers", "auth", "bearer", "bearer_command", "netrc", "proxy", "ca_file", "state", "concurrency", "threads"),
    *BUCKET_REACH,
)
# Bucket access options for commands that only read or change a job.
_REACH = (*BUCKET_REACH, "ca_file", "proxy")
# Options in `_REACH` that `-h` does not show.
MINOR = tuple(name for name in _REACH if name not in ("endpoint_url", "region", "profile"))


def run_worker(
    job: str,
    make: "Callable[[Callable[[str], None]], RangeWorker]",
    *,
    as_json: bool,
    quiet: bool,
    tells_failures: bool,
) -> int:
    """Work on a shared job and return the exit code.

    Args:
        job: the job directory.
        make: function that creates the worker. It is passed the function that shows the worker's messages.
        as_json: whether to write the final status as a JSON event.
        quiet: whether to suppress all output.
        tells_failures: whether the exit code reports failed objects. False if a scheduler would restart the worker as a
            result.
    """
    from fetchmill._shared.job_directory import JobDirectory
    from fetchmill._shared.status import shared_status

    signals = Signals()
    log = _Log(quiet=quiet or as_json)
    # While this process lists a source or divides a list, it holds a claim, which it must release after a signal.
    with signals.interrupting():
        worker = make(log.say)
    log.keep_in(worker.store)
    log.say(f"worker {worker.name} is working on {job}")
    signals.attach(worker)
    end = worker.run()
    status = shared_status(JobDirectory(worker.store))
    counts = f"{format_count(end.counts['fetched'])} fetched in {_ranges(end.ranges)}"
    log.say(f"worker {worker.name} ends ({_REASONS[end.reason]}): {counts}")
    for line in status_lines(status):
        log.say(line)
    if as_json:
        write_event("shared", status.to_dict())
    if end.reason == "asked":
        return signals.exit_code or 0
    return FINISHED_WITH_FAILURES if tells_failures and status.finished and status.has_failures else 0


_REASONS = {"finished": "the job is finished", "stopped": "the job was stopped", "asked": "a signal"}


class _Log:
    """Writes lines to standard error, and to this process's log file in the job directory."""

    def __init__(self, *, quiet: bool) -> None:
        self._log = WorkerLog()
        self._quiet = quiet

    def keep_in(self, store: "Store") -> None:
        """Also write all later lines to the job directory."""
        self._log.keep_in(store)

    def say(self, line: str) -> None:
        """Show a line."""
        if not self._quiet:
            say(line)
        self._log.write(line)


def status_lines(status: "SharedStatus", *, with_ended: bool = False) -> list[str]:
    """Return the status of a shared job as a small table.

    Args:
        status: the status.
        with_ended: whether to include workers that have ended.
    """
    share = status.bytes_done / status.bytes_of_list if status.bytes_of_list else 1.0
    rows = [
        ("source", escape(status.source)),
        *(("added", escape(source)) for source in status.added),
        ("destination", f"{escape(status.dest)} (shared job, {status.format})"),
        ("job", _condition(status)),
        ("ranges", f"{format_count(status.ranges_done)} final, {format_count(status.ranges_open)} open"),
        ("list", f"{share:.0%} of {format_bytes(status.bytes_of_list)} is final{_listing(status)}"),
        *((name, format_count(status.ledger[name])) for name in ("listed", "fetched", "absent", "failed", "skipped")),
        ("bytes", format_bytes(status.ledger["bytes"])),
        ("requests", format_count(status.ledger["attempts"])),
        ("worker time", format_seconds(status.worker_seconds)),
    ]
    if status.discarded:
        again = f"{format_count_of(status.discarded, 'target')} ({status.discarded_share:.1%}), fetched again"
        rows.append(("discarded", again))
    if not status.finished and status.in_progress["listed"]:
        done = sum(status.in_progress[name] for name in ("fetched", "absent", "failed", "skipped"))
        rows.append(("in progress", f"{format_count_of(done, 'target')} with an outcome, not final yet"))
    for label, counts in (
        ("failures", status.failures),
        ("statuses", status.failed_statuses),
        ("skips", status.skipped_by),
    ):
        if counts:
            rows.append((label, ", ".join(f"{name}: {format_count(count)}" for name, count in counts.items())))
    if status.set_aside:
        rows.append(("set aside", f"{', '.join(status.set_aside)}: workers died while processing these ranges"))
    rows += [("worker", _worker_line(worker)) for worker in status.workers if with_ended or worker.state != "ended"]
    return [f"{name:<12} {value}" for name, value in rows]


def _listing(status: "SharedStatus") -> str:
    """Return a note about an incomplete list."""
    if status.is_listed:
        return ""
    lists = any(worker.listed is not None for worker in status.living)
    return "; the source is being listed" if lists else "; the listing is not complete"


def _worker_line(worker: Any) -> str:  # noqa: ANN401 - a WorkerStatus
    rate = f", {format_count(round(worker.objects_per_second))} objects/s" if worker.state == "working" else ""
    has = f", {_ranges(len(worker.ranges))}" if worker.ranges else ""
    done = ""
    if worker.ranges_done:
        failed = f", {format_count(worker.failed)} failed" if worker.failed else ""
        ranges = _ranges(worker.ranges_done)
        done = f", {format_count(worker.fetched)} fetched{failed} in {ranges} and {format_seconds(worker.seconds)}"
    lists = "" if worker.listed is None else f", listing the source ({format_count(worker.listed)} so far)"
    beat = f"last heartbeat {format_seconds(worker.age)} ago"
    return f"{escape(worker.name)}: {worker.state}{rate}{has}{lists}{done}, {beat}"


def _condition(status: "SharedStatus") -> str:
    if status.finished:
        return "finished"
    if status.stopped:
        return f"stopped; fetchmill resume {escape(status.dest)} continues the job"
    if status.living:
        return f"running with {format_count_of(len(status.living), 'worker')}"
    return f"no worker is running; fetchmill join {escape(status.dest)} continues the job"


def _ranges(count: int) -> str:
    return format_count_of(count, "range")


# Options of a worker that `-h` shows.
_MATTERS = ("concurrency", "headers", "bearer", "bearer_command", "state", "endpoint_url", "on", "workers", "quiet")


def worker_command(
    name: str,
    callback: "Callable[..., int]",
    *,
    help: str,
    examples: str,
    epilog: str,
    short_help: str,
    more: "list[click.Parameter]",
) -> TableCommand:
    """Return a command that works on an existing job."""
    return TableCommand(
        name,
        callback=callback,
        help=help,
        examples=examples,
        matters=_MATTERS,
        epilog=epilog,
        short_help=short_help,
        params=[
            click.Argument(["job"], metavar="JOB", type=click.Path()),
            *own_options(),
            *more,
            click.Option(
                ["--json", "as_json"], is_flag=True, help="Write the final status as JSON to standard output."
            ),
            click.Option(["-q", "--quiet"], is_flag=True, help="Show only errors."),
        ],
    )


def given(own: dict[str, Any]) -> dict[str, Any]:
    """Return the options that differ from their defaults."""
    defaults = {name: field.default for name, field in GetOptions.__dataclass_fields__.items()}
    return {name: value for name, value in gathered(own).items() if value != defaults[name]}


def own_options() -> list[click.Parameter]:
    """Return the options that each process sets for itself."""
    return _options(OWN)


def reach_options() -> list[click.Parameter]:
    """Return the bucket access options for commands that only read or change a job."""
    return _options(_REACH)


def _options(names: "Container[str]") -> list[click.Parameter]:
    options = [option for option in options_of(GetOptions) if option.name in names]
    for option in options:
        if isinstance(option, click.Option) and option.name in _HELP:
            option.help = _HELP[option.name]
    return options


# Help texts that differ from the help texts of `get`.
_HELP = {
    "state": "Folder for journals on this machine. Default: a new temporary folder.",
    "concurrency": "Maximum requests in flight for this worker, or auto. Default: auto, which finds a suitable number.",
    "threads": "Number of fetching threads. Default: one per processor.",
}
