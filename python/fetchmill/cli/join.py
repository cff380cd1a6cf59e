"""`fetchmill join`: works on a shared job that another process created."""

from typing import Any

from fetchmill.cli.ray_jobs import ray_options, run_shared
from fetchmill.cli.shared_jobs import given, worker_command

_EXAMPLES = """
fetchmill get SOURCE JOB --shared                  create or join JOB
fetchmill join /nfs/run
fetchmill join s3://bucket/run --endpoint-url http://10.0.0.7:9000
for h in a b c; do ssh $h fetchmill join /nfs/run & done
FETCHMILL_BEARER=$TOKEN fetchmill join /nfs/run
fetchmill join /nfs/run --on ray --workers 64      on a Ray cluster
"""

_HELP = """Work on the shared job in the directory JOB until the job is finished or stopped. `fetchmill get SOURCE
JOB --shared` creates the job. Other machines can run the same `get` command or this one.

Processes can join and leave the job at any time, on any machine that can access the folder or bucket. Each worker takes
list ranges that no other worker has taken. On SIGTERM, a worker finishes its current requests (within 25 s), commits
its results, and leaves the remaining work to the other workers.

The job's options are read from JOB. Secrets are never stored there, so pass them to each worker.
"""
_EPILOG = """Exit codes: 0 if the job is finished or was stopped, even if objects failed (with --on ray, 3
if objects failed); 130 and 143 if stopped by SIGINT and SIGTERM. For other codes, see fetchmill --help.
"""


def _run(job: str, as_json: bool, quiet: bool, on: str | None, workers: int | None, **own: Any) -> int:  # noqa: ANN401
    from fetchmill._shared.creation import join_job

    mine = given(own)
    return run_shared(
        job,
        lambda say: join_job(job, mine, say),
        mine,
        on=on,
        workers=workers,
        as_json=as_json,
        quiet=quiet,
        tells_failures=False,
    )


command = worker_command(
    "join", _run, help=_HELP, examples=_EXAMPLES, epilog=_EPILOG, short_help="Work on a shared job.", more=ray_options()
)
