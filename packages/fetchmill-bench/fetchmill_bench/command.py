"""`fetchmill bench`: compares ways to make requests on this machine."""

import json
import os
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import click

from fetchmill.cli.help_texts import CliCommand
from fetchmill.cli.parameter_types import COLUMNS, COUNT, SECONDS
from fetchmill.cli.streams import say, write_line

INTERRUPTED = 130

_EXAMPLES = """
fetchmill bench
fetchmill bench slow --only native,asyncio,semaphore_gather
fetchmill bench --contender 'python my.py {count} {url}' --only native
fetchmill bench --url http://127.0.0.1:8080 --count 50000 --repeat 5
fetchmill bench sites --html report.html
fetchmill bench s3 --only native,s5cmd,obstore --count 100000 --seconds 60
fetchmill bench s3 --full                            an hour or more
fetchmill bench --published --json > figures.json    the published counts
"""

# The options that `-h` shows.
_MATTERS = (
    *("only", "contender", "count", "limit", "seconds", "repeat"),
    *("url", "format", "published", "as_list", "html", "as_json"),
)

_HELP = """Compare ways to make large numbers of requests: fetchmill's engines, published programs, and your own.

SCENARIO is `billion` (the default: objects of 100 bytes from one server, without delay), `slow` (replies after 0 to 3
seconds, 1000 requests in flight), `sites` (many https hosts, some of them broken) or `s3` (all objects of a bucket).
Contenders run one at a time, each in its own process and against its own server. Without arguments, this takes less
than two minutes.
"""

_EPILOG = """\
The command in --contender is started in this folder, without a shell. fetchmill replaces {count} with the number of
objects to fetch, {url} with the list/get server (GET /list, GET /get/{name}), {urls} with a file of the objects' URLs,
and {limit} with the maximum number of requests in flight. In the scenario s3, {url} is the endpoint and {bucket} the
bucket; the credentials are in the environment. Exit code 0 means that the program has fetched all objects. If it does
not finish in time, it receives SIGINT, and the requests that reached the server count.
"""


@click.command(
    "bench",
    cls=CliCommand,
    examples=_EXAMPLES,
    matters=_MATTERS,
    help=_HELP,
    epilog=_EPILOG,
    short_help="Compare ways to make requests on this machine.",
)
@click.argument("scenario", metavar="[SCENARIO]", required=False)
@click.option("--contender", multiple=True, metavar="COMMAND", help="Command of your own program; repeatable.")
@click.option(
    "--only", type=COLUMNS, metavar="NAMES", help="Contenders to run, comma-separated; see --list.  [default: all]"
)
@click.option("--count", type=COUNT, help="Number of objects or sites to request.")
@click.option("--limit", type=COUNT, help="Maximum requests in flight, for contenders with such a limit.")
@click.option(
    "--seconds",
    type=SECONDS,
    help="Maximum time per contender.  [default: 5 s, slow 15 s, sites 20 s, s3 10 s, with --full 150 s]",
)
@click.option("--repeat", type=COUNT, default=1, show_default=True, help="Runs per contender; contenders take turns.")
@click.option("--url", help="Use your own list/get server instead of starting one.")
@click.option(
    "--format",
    type=click.Choice(["files", "null"]),
    default="null",
    show_default=True,
    help="Write each body to a file in a temporary folder, or discard it.",
)
@click.option("--published", is_flag=True, help="Use the counts and limits of the published comparisons.")
@click.option(
    "--full",
    is_flag=True,
    help="With --published, also run a million requests; with s3, run every count and limit.",
)
@click.option(
    "--store",
    type=click.Choice(["replay", "versitygw"]),
    default="replay",
    show_default=True,
    help="Server for s3: fetchmill's own replay of the protocol, or versitygw, which must be installed.",
)
@click.option("--warm-up/--no-warm-up", default=True, help="Before each run, warm up for half a second.")
@click.option("--list", "as_list", is_flag=True, help="List the scenarios, the contenders and their rows, and exit.")
@click.option("--html", type=click.Path(), metavar="FILE", help="Write a report with plots.")
@click.option("--json", "as_json", is_flag=True, help="Write one JSON document to standard output.")
def command(
    as_list: bool,
    html: str | None,
    as_json: bool,
    **options: Any,  # noqa: ANN401
) -> int:
    """Runs the command, whose help text is _HELP."""
    # Imported late, because `fetchmill --help` does not need it.
    from fetchmill_bench.comparison import run_bench
    from fetchmill_bench.options import BenchOptions
    from fetchmill_bench.tables import contender_lines, write_tables

    if as_list:
        write_line(sys.stdout, "\n".join(contender_lines()))
        return 0
    checked = BenchOptions(**options)
    if html is not None:
        _check_writable(html)
    # If this process is terminated, everything that it has started also ends.
    signal.signal(signal.SIGTERM, _stop)
    document = run_bench(checked, say)
    if html is not None:
        from fetchmill_bench.html import write_report

        write_report(document, html)
        say(f"report: {html}")
    if as_json:
        write_line(sys.stdout, json.dumps(document))
    else:
        write_tables(document, sys.stdout)
    return INTERRUPTED if document["interrupted"] else 0


def _check_writable(path: str) -> None:
    """Checks before the runs that the report can be written, so that no results are lost."""
    folder = Path(path).resolve().parent
    if not os.access(folder, os.W_OK) or Path(path).is_dir():
        raise click.UsageError(f"--html: {path} cannot be written")


def _stop(number: int, _frame: FrameType | None) -> NoReturn:
    sys.exit(128 + number)
