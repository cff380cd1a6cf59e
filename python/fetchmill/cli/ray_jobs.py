"""`--on ray` for commands that work on a shared job: its options, display and exit code."""

import sys
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from fetchmill._options.units import format_count, format_count_of
from fetchmill.cli.parameter_types import COUNT, Choice
from fetchmill.cli.progress import PLAIN_SECONDS
from fetchmill.cli.streams import escape, say, write_event
from fetchmill.cli.watch import Signals
from fetchmill.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fetchmill._shared.status import SharedStatus
    from fetchmill._shared.worker import RangeWorker

_ON_HELP = """Start the workers on a Ray cluster. fetchmill uses the cluster at RAY_ADDRESS, otherwise one that runs on
this machine. If there is none, it starts a local one. See `fetchmill help shared-jobs`."""
_WORKERS_HELP = "Number of workers with --on ray. Default: one per node."


def ray_options() -> list[click.Parameter]:
    """Return the `--on` and `--workers` options."""
    return [
        click.Option(["--on"], type=Choice(["ray"]), help=_ON_HELP),
        click.Option(["--workers"], type=COUNT, help=_WORKERS_HELP),
    ]


def check_workers(on: str | None, workers: int | None) -> None:
    """Refuse `--workers` unless Ray starts the workers.

    Raises:
        UsageError: `--workers` is given without `--on`.
    """
    if workers is not None and on is None:
        raise UsageError("--workers works only with --on ray", hint="--concurrency N limits the requests in flight")


def run_shared(
    job: str,
    make: "Callable[[Callable[[str], None]], RangeWorker]",
    own: "Mapping[str, Any]",
    *,
    on: str | None,
    workers: int | None,
    as_json: bool,
    quiet: bool,
    tells_failures: bool,
) -> int:
    """Work on a shared job in this process or on Ray, and return the exit code.

    Args:
        job: the job directory.
        make: function that creates a worker. It is passed the function that shows the worker's messages.
        own: per-worker options, which are not stored in the job directory.
        on: `ray`, or None for this process.
        workers: number of workers on Ray; None for one per node.
        as_json: whether to write the final status (and with Ray also the progress) as JSON events.
        quiet: whether to suppress all output.
        tells_failures: whether a worker's exit code reports failed objects. With Ray, it always does.
    """
    from fetchmill.cli.shared_jobs import FINISHED_WITH_FAILURES, run_worker

    check_workers(on, workers)
    if on is None:
        return run_worker(job, make, as_json=as_json, quiet=quiet, tells_failures=tells_failures)
    from fetchmill._ray.ray_job import RayJob, check_installed
    from fetchmill._ray.settings import Ray
    from fetchmill._shared.job_directory import JobDirectory
    from fetchmill._shared.status import shared_status

    check_installed()
    signals = Signals()
    display = _RayDisplay(as_json=as_json, quiet=quiet)
    with signals.interrupting():
        worker = make(_silent)
    running = RayJob(worker, own, Ray(workers=workers), say=display.say, show=display.show)
    signals.attach(running)
    reason = running.run()
    status = shared_status(JobDirectory(worker.store))
    display.end(status)
    if reason == "asked":
        display.say(f"stopped by a signal; to continue, run fetchmill join {job} --on ray or the same command again")
        return signals.exit_code or 0
    return FINISHED_WITH_FAILURES if status.finished and status.has_failures else 0


class _RayDisplay:
    """Shows progress. On a terminal, one line is rewritten; otherwise, a new line is added every ten seconds."""

    def __init__(self, *, as_json: bool, quiet: bool) -> None:
        self._as_json = as_json
        self._quiet = quiet
        self._is_live = not (as_json or quiet) and sys.stderr.isatty()
        self._has_line = False
        self._next = time.monotonic() + PLAIN_SECONDS

    def say(self, line: str) -> None:
        """Show a permanent line."""
        self._clear()
        if self._as_json:
            write_event("notice", {"message": line})
        elif not self._quiet:
            say(escape(line))

    def show(self, status: "SharedStatus") -> None:
        """Show the job's progress."""
        if self._as_json:
            write_event("progress", status.to_dict())
        elif self._is_live:
            self._clear()
            sys.stderr.write(_progress(status))
            sys.stderr.flush()
            self._has_line = True
        elif not self._quiet and time.monotonic() >= self._next:
            self._next = time.monotonic() + PLAIN_SECONDS
            say(f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} {_progress(status)}")

    def end(self, status: "SharedStatus") -> None:
        """Show the whole status."""
        self._clear()
        if self._as_json:
            write_event("shared", status.to_dict())
        elif not self._quiet:
            from fetchmill.cli.shared_jobs import status_lines

            for line in status_lines(status):
                say(line)

    def _clear(self) -> None:
        if self._has_line:
            sys.stderr.write("\r\x1b[K")
            self._has_line = False


def _progress(status: "SharedStatus") -> str:
    """Return the progress of a shared job as one line."""
    share = status.bytes_done / status.bytes_of_list if status.bytes_of_list else 1.0
    counts = {name: status.ledger[name] + status.in_progress[name] for name in ("fetched", "absent", "failed")}
    parts = [
        f"{share:.0%} of the list is final",
        *(f"{format_count(count)} {name}" for name, count in counts.items() if count or name == "fetched"),
        format_count_of(len(status.living), "worker"),
        f"{format_count(round(sum(worker.objects_per_second for worker in status.living)))} objects/s",
    ]
    return ", ".join(parts)


def _silent(_line: str) -> None:
    pass
