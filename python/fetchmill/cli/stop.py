"""`fetchmill stop`: has all workers of a shared job end."""

from pathlib import Path

import click

from fetchmill.cli.streams import say

_EPILOG = """\b
Examples:
  fetchmill stop /nfs/run
  fetchmill stop /nfs/run --now"""


@click.command("stop", epilog=_EPILOG, short_help="Stop a shared job.")
@click.argument("job", metavar="JOB", type=click.Path())
@click.option("--now", is_flag=True, help="End at once: ranges that are not final are given back.")
def command(job: str, now: bool) -> int:
    """Stop the shared job of the directory JOB: its workers end, and no others start.

    Each worker fetches what it has fed, makes that final, and exits with 0. `fetchmill resume JOB` goes on.
    """
    from fetchmill._shared.status import shared_status
    from fetchmill.shared_jobs import stop

    stop(job, now=now)
    living = [each for each in shared_status(Path(job).absolute()).workers if each.state not in ("ended", "lost")]
    many = f"{len(living):,} worker{'' if len(living) == 1 else 's'}"
    say(f"stopped: {many} will end within seconds; fetchmill resume {job} goes on")
    return 0
