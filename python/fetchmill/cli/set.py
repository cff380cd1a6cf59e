"""`fetchmill set`: changes a shared job while it runs."""

from typing import Any

import click

from fetchmill.cli.options import TableCommand
from fetchmill.cli.parameter_types import NUMBER
from fetchmill.cli.shared_jobs import given, reach_options
from fetchmill.cli.streams import escape, say

_EXAMPLES = """
fetchmill set /nfs/run --rate 200
"""
_HELP = "Change the shared job in the directory JOB. Running workers apply the change within seconds."


def _run(job: str, rate: float, **reach: Any) -> int:  # noqa: ANN401
    from fetchmill.shared_jobs import set_rate

    set_rate(job, rate, **given(reach))
    say(f"{escape(job)}: at most {rate:g} requests per second for all workers together; takes effect within seconds")
    return 0


command = TableCommand(
    "set",
    callback=_run,
    help=_HELP,
    examples=_EXAMPLES,
    short_help="Change a shared job while it runs.",
    params=[
        click.Argument(["job"], metavar="JOB", type=click.Path()),
        click.Option(
            ["--rate"], type=NUMBER, required=True, help="Maximum requests per second for all workers together."
        ),
        *reach_options(),
    ],
)
