"""`fetchmill set`: changes a shared job while it runs."""

import click

from fetchmill.cli.parameter_types import NUMBER
from fetchmill.cli.streams import escape, say

_EPILOG = """\b
Examples:
  fetchmill set /nfs/run --rate 200"""


@click.command("set", epilog=_EPILOG, short_help="Change a shared job while it runs.")
@click.argument("job", metavar="JOB", type=click.Path())
@click.option("--rate", type=NUMBER, required=True, help="Requests a second at most, of all workers together.")
def command(job: str, rate: float) -> int:
    """Change the shared job of the directory JOB, also while workers run: they take it up within seconds."""
    from fetchmill.shared_jobs import set_rate

    set_rate(job, rate)
    say(f"all workers of {escape(job)} together make at most {rate:g} requests a second, within some seconds")
    return 0
