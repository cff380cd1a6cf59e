"""`fetchmill resume`: continues a job or a stopped shared job."""

from typing import TYPE_CHECKING, Any

import click

from fetchmill.cli.options import TableCommand
from fetchmill.cli.ray_jobs import check_workers, ray_options, run_shared
from fetchmill.cli.resuming import is_shared, output_options, resume_job, run_options
from fetchmill.cli.shared_jobs import OWN, given

if TYPE_CHECKING:
    from collections.abc import Callable

    from fetchmill._shared.worker import RangeWorker

_EXAMPLES = """
fetchmill resume out/
fetchmill resume out/ --bearer "$TOKEN"            pass the secret again
fetchmill resume out/ --rate 50                    slower than before
fetchmill resume /nfs/run                          a shared job
fetchmill resume /nfs/run --on ray                 on a Ray cluster
"""

_HELP = """Continue the job in DEST with its original options. Pass secrets such as --bearer again.

The default of each option below is the job's own value. The journal stores the source and the options of `fetchmill
get`, but not secrets or code, so pass options such as --bearer and --transform again. All other options that you pass
replace the stored ones, for this run and later runs. Options that define the job, such as the source and the format,
cannot change. To continue a job that reads standard input, repeat its original command.

If DEST is the directory of a shared job, undo `fetchmill stop` and work on the job, as `fetchmill join` does.
"""
_EPILOG = """Exit codes: the same as for `fetchmill get`. For a shared job, 3 can also mean that ranges were set aside.
"""
_MATTERS = ("bearer", "headers", "concurrency", "rate", "state", "on", "workers", "quiet")


def _run(dest: str, as_json: bool, quiet: bool, on: str | None, workers: int | None, **own: Any) -> int:  # noqa: ANN401
    mine = given(own)
    if is_shared(dest, mine):
        return _resume_shared(dest, mine, on, workers, as_json=as_json, quiet=quiet)
    if on is not None:
        raise click.UsageError("--on ray needs a shared job; leave out --on ray")
    check_workers(on, workers)
    return resume_job(dest, mine, as_json=as_json, quiet=quiet)


def _resume_shared(
    job: str, mine: dict[str, Any], on: str | None, workers: int | None, *, as_json: bool, quiet: bool
) -> int:
    from fetchmill._shared.creation import join_job
    from fetchmill._shared.job_directory import JobDirectory
    from fetchmill._shared.stored_options import reach_of

    misplaced = [name for name in mine if name not in OWN]
    if misplaced:
        raise click.UsageError(f"--{misplaced[0].replace('_', '-')} cannot be used with a shared job ({job})")

    def make(say: "Callable[[str], None]") -> "RangeWorker":
        directory = JobDirectory.at(job, reach_of(mine))
        directory.job()
        directory.go_on()
        return join_job(job, mine, say)

    return run_shared(job, make, mine, on=on, workers=workers, as_json=as_json, quiet=quiet, tells_failures=True)


command = TableCommand(
    "resume",
    callback=_run,
    help=_HELP,
    examples=_EXAMPLES,
    matters=_MATTERS,
    epilog=_EPILOG,
    short_help="Continue a job with its original options.",
    params=[
        click.Argument(["dest"], metavar="DEST", type=click.Path()),
        *run_options("restart"),
        *ray_options(),
        *output_options(),
    ],
)
