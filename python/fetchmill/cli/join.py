"""`fetchmill join`: works on a shared job that another process has created."""

from typing import Any

from fetchmill.cli.ray_jobs import ray_options, run_shared
from fetchmill.cli.shared_jobs import given, worker_command

_EXAMPLES = """
fetchmill get SOURCE JOB --shared                  first: creates or joins JOB
fetchmill join /nfs/run
fetchmill join s3://bucket/run --endpoint-url http://10.0.0.7:9000
for h in a b c; do ssh $h fetchmill join /nfs/run & done
FETCHMILL_BEARER=$TOKEN fetchmill join /nfs/run
fetchmill join /nfs/run --on ray --workers 64      in a Ray cluster
"""

_HELP = """Work at the shared job of the directory JOB until it is finished or stopped. `fetchmill get SOURCE JOB
--shared` creates JOB, and all machines may run that same command.

Any number of processes, on any machines that share the folder or the bucket, may join the job and leave it at any time.
Each worker takes ranges of the list that no other worker has. At SIGTERM, a worker finishes its current requests within
25 s. It makes the results final, and leaves the rest to other workers.

Options of the job come from JOB. Secrets are never stored there: give them to each worker.
"""
_EPILOG = """Exit codes: 0 the job is finished or was stopped, also when objects failed (3 then with --on ray); 130 and
143 after SIGINT and SIGTERM; the others are errors (fetchmill --help).
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
    "join", _run, help=_HELP, examples=_EXAMPLES, epilog=_EPILOG, short_help="Work at a shared job.", more=ray_options()
)
