"""`fetchmill set`: changes a running shared job."""

from typing import Any

import click

from fetchmill.cli.options import TableCommand
from fetchmill.cli.parameter_types import NUMBER
from fetchmill.cli.shared_jobs import MINOR, given, reach_options
from fetchmill.cli.streams import escape, say

_EXAMPLES = """
fetchmill set /nfs/run --rate 200
"""
_HELP = "Change the shared job in the directory JOB. Running workers apply the change within seconds."


def _run(job: str, rate: float, **reach: Any) -> int:  # noqa: ANN401
    from fetchmill._shared.job_directory import JobDirectory

    directory = JobDirectory.at(job, given(reach))
    directory.job()
    directory.set_rate(rate)
    say(f"{escape(job)}: at most {rate:g} requests per second across all workers; takes effect within seconds")
    return 0


command = TableCommand(
    "set",
    callback=_run,
    help=_HELP,
    examples=_EXAMPLES,
    minor=MINOR,
    short_help="Change a running shared job.",
    params=[
        click.Argument(["job"], metavar="JOB", type=click.Path()),
        click.Option(["--rate"], type=NUMBER, required=True, help="Maximum requests per second across all workers."),
        *reach_options(),
    ],
)
