"""`fetchmill stop`: ends all workers of a shared job."""

from typing import Any

import click

from fetchmill._options.units import format_count_of
from fetchmill.cli.options import TableCommand
from fetchmill.cli.shared_jobs import MINOR, given, reach_options
from fetchmill.cli.streams import say

_EXAMPLES = """
fetchmill stop /nfs/run
fetchmill stop /nfs/run --now
"""


_HELP = """Stop the shared job in the directory JOB. Its workers end, and no new ones start.

Each worker finishes the targets that it has started, makes their results final, and exits with 0. To continue the job,
run `fetchmill resume JOB`.
"""


def _run(job: str, now: bool, **reach: Any) -> int:  # noqa: ANN401
    from fetchmill._shared.job_directory import JobDirectory
    from fetchmill._shared.status import shared_status

    directory = JobDirectory.at(job, given(reach))
    directory.job()
    directory.stop(now=now)
    many = format_count_of(len(shared_status(directory).living), "worker")
    say(f"stopped: {many} will end within seconds; fetchmill resume {job} continues the job")
    return 0


command = TableCommand(
    "stop",
    callback=_run,
    help=_HELP,
    examples=_EXAMPLES,
    minor=MINOR,
    short_help="Stop a shared job.",
    params=[
        click.Argument(["job"], metavar="JOB", type=click.Path()),
        click.Option(["--now"], is_flag=True, help="Stop immediately and discard the results of unfinished ranges."),
        *reach_options(),
    ],
)
