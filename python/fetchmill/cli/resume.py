"""`fetchmill resume`: goes on with a shared job that was stopped."""

from typing import TYPE_CHECKING, Any

from fetchmill.cli.ray_jobs import ray_options, run_shared
from fetchmill.cli.shared_jobs import given, worker_command

if TYPE_CHECKING:
    from collections.abc import Callable

    from fetchmill._shared.worker import RangeWorker

_EXAMPLES = """
fetchmill resume /nfs/run
fetchmill resume /nfs/run --on ray                 in a Ray cluster
"""

_HELP = """Go on with the shared job of the directory JOB, stopped or not, as one of its workers.

Takes `fetchmill stop` back and works like `fetchmill join`, on any machine and with any number of others. The exit code
also says whether objects failed.
"""
_EPILOG = """Exit codes: 0 all fetched, 3 finished with failed or absent targets or ranges set aside, 130 and 143
after SIGINT and SIGTERM; the others are errors (fetchmill --help).
"""


def _run(job: str, as_json: bool, quiet: bool, on: str | None, workers: int | None, **own: Any) -> int:  # noqa: ANN401
    from fetchmill._shared.creation import join_job, reach_of
    from fetchmill._shared.job_directory import JobDirectory

    mine = given(own)

    def make(say: "Callable[[str], None]") -> "RangeWorker":
        directory = JobDirectory.at(job, reach_of(mine))
        directory.job()
        directory.go_on()
        return join_job(job, mine, say)

    return run_shared(
        job,
        make,
        mine,
        on=on,
        workers=workers,
        as_json=as_json,
        quiet=quiet,
        tells_failures=True,
    )


command = worker_command(
    "resume",
    _run,
    help=_HELP,
    examples=_EXAMPLES,
    epilog=_EPILOG,
    short_help="Go on with a shared job that was stopped.",
    more=ray_options(),
)
