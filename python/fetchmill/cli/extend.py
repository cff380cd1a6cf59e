"""`fetchmill extend`: adds a list to a shared job."""

from typing import Any

import click

from fetchmill._options.units import format_bytes
from fetchmill.cli.options import TableCommand
from fetchmill.cli.shared_jobs import MINOR, given, reach_options
from fetchmill.cli.streams import escape, say

_EXAMPLES = """
fetchmill extend /nfs/run more-urls.txt
fetchmill extend s3://bucket/run tuesday.parquet
fetchmill extend /nfs/run more-urls.txt && fetchmill join /nfs/run
"""
_HELP = """Add LIST to the shared job in JOB. This also works while workers are running and after the job has finished.

LIST must have the same format as the job's list, and the same path on every machine. The job's options apply to LIST.
Running workers pick it up within seconds. Each file can be added only once.
"""


def _run(job: str, source: str, **reach: Any) -> int:  # noqa: ANN401
    from fetchmill._shared.extension import extend_job
    from fetchmill._shared.job_directory import JobDirectory
    from fetchmill._shared.status import shared_status

    own = given(reach)
    record = extend_job(job, source, own)
    size = format_bytes(sum(file.size for file in record.files))
    is_running = shared_status(JobDirectory.at(job, own)).runs
    then = "workers pick it up within seconds" if is_running else f"run fetchmill join {escape(job)} to fetch it"
    say(f"added {escape(source)} ({size}) to {escape(job)}; {then}")
    return 0


command = TableCommand(
    "extend",
    callback=_run,
    help=_HELP,
    examples=_EXAMPLES,
    minor=MINOR,
    short_help="Add a list to a shared job.",
    params=[
        click.Argument(["job"], metavar="JOB", type=click.Path()),
        click.Argument(["source"], metavar="LIST", type=click.Path()),
        *reach_options(),
    ],
)
