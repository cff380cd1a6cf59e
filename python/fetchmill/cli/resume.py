"""`fetchmill resume`: goes on with a shared job that was stopped."""

from pathlib import Path
from typing import Any

from fetchmill.cli.shared_jobs import given, run_worker, worker_command

_HELP = """Go on with the shared job of the directory JOB, stopped or not, as one of its workers.

Takes `fetchmill stop` back and works like `fetchmill join`, on any machine and with any number of others. The exit code
also says whether objects failed.

\b
Examples:
  fetchmill resume /nfs/run
"""
_EPILOG = """\b
Exit codes: 0 all fetched, 3 finished with failed or absent targets or ranges set aside, 130 and 143
after SIGINT and SIGTERM; the others are errors (fetchmill --help).
"""


def _run(job: str, as_json: bool, quiet: bool, **own: Any) -> int:  # noqa: ANN401
    from fetchmill._shared.creation import join_job
    from fetchmill.shared_jobs import resume

    resume(job)
    return run_worker(
        Path(job),
        lambda say: join_job(Path(job), given(own), say),
        as_json=as_json,
        quiet=quiet,
        tells_failures=True,
    )


command = worker_command(
    "resume", _run, help=_HELP, epilog=_EPILOG, short_help="Go on with a shared job that was stopped."
)
