"""`fetchmill resume`: continues a job, or a shared job that was stopped."""

from typing import TYPE_CHECKING, Any

import click

from fetchmill._options.get import GetOptions
from fetchmill.cli.options import TableCommand, options_of
from fetchmill.cli.ray_jobs import check_workers, ray_options, run_shared
from fetchmill.cli.shared_jobs import OWN, given

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fetchmill._shared.worker import RangeWorker

_EXAMPLES = """
fetchmill resume out/
fetchmill resume out/ --bearer "$TOKEN"            it was started with one
fetchmill resume out/ --rate 50                    slower than before
fetchmill resume /nfs/run                          a shared job
fetchmill resume /nfs/run --on ray                 in a Ray cluster
"""

_HELP = """Continue the job of DEST with the options that it was started with.

The journal has the source and the options of `fetchmill get`, but no secrets and no code. Give these again, such as
--bearer or --transform. Other options replace the stored ones for this run and the next; the source, the format and
whatever else makes it another job cannot change. A job that reads standard input is continued by the same command.

If DEST is the directory of a shared job, take `fetchmill stop` back and work like `fetchmill join`.
"""
_EPILOG = """Exit codes: those of `fetchmill get`; of a shared job 3 also after ranges that were set aside.
"""
_MATTERS = ("bearer", "headers", "concurrency", "rate", "state", "on", "workers", "quiet")


def _run(dest: str, as_json: bool, quiet: bool, on: str | None, workers: int | None, **own: Any) -> int:  # noqa: ANN401
    mine = given(own)
    if is_shared(dest, mine):
        return _resume_shared(dest, mine, on, workers, as_json=as_json, quiet=quiet)
    if on is not None:
        raise click.UsageError("--on ray is for shared jobs, and this is not one")
    check_workers(on, workers)
    return resume_job(dest, mine, as_json=as_json, quiet=quiet)


def is_shared(dest: str, own: "Mapping[str, Any]") -> bool:
    """Whether a destination is the directory of a shared job."""
    from fetchmill._shared.creation import reach_of
    from fetchmill._shared.job_directory import JobDirectory

    return JobDirectory.at(dest, reach_of(own)).exists()


def resume_job(dest: str, own: "Mapping[str, Any]", *, as_json: bool, quiet: bool) -> int:
    """Resumes the job of one process; gives the exit code.

    Args:
        dest: the destination.
        own: options of this run, in place of the stored ones.
        as_json: whether events are written as JSON.
        quiet: whether nothing but errors is shown.
    """
    from fetchmill._options.stored_command import read_command
    from fetchmill.cli.get import run_job

    options = read_command(dest, own.get("state")).options_for(dest, own)
    return run_job(options, as_json=as_json, quiet=quiet)


def _resume_shared(
    job: str, mine: dict[str, Any], on: str | None, workers: int | None, *, as_json: bool, quiet: bool
) -> int:
    from fetchmill._shared.creation import join_job, reach_of
    from fetchmill._shared.job_directory import JobDirectory

    misplaced = [name for name in mine if name not in OWN]
    if misplaced:
        raise click.UsageError(f"--{misplaced[0].replace('_', '-')} is for the job of one process, and {job} is shared")

    def make(say: "Callable[[str], None]") -> "RangeWorker":
        directory = JobDirectory.at(job, reach_of(mine))
        directory.job()
        directory.go_on()
        return join_job(job, mine, say)

    return run_shared(job, make, mine, on=on, workers=workers, as_json=as_json, quiet=quiet, tells_failures=True)


def run_options(*left_out: str) -> list[click.Parameter]:
    """The options of a run of a job that is there: those of `get`, since most may change."""
    return [option for option in options_of(GetOptions) if option.name not in left_out]


def output_options() -> list[click.Parameter]:
    """`--json` and `--quiet`."""
    return [
        click.Option(["--json", "as_json"], is_flag=True, help="Write events as JSON lines to standard output."),
        click.Option(["--quiet"], is_flag=True, help="Show nothing but errors."),
    ]


command = TableCommand(
    "resume",
    callback=_run,
    help=_HELP,
    examples=_EXAMPLES,
    matters=_MATTERS,
    epilog=_EPILOG,
    short_help="Continue a job with the options that it was started with.",
    params=[
        click.Argument(["dest"], metavar="DEST", type=click.Path()),
        *run_options(),
        *ray_options(),
        *output_options(),
    ],
)
