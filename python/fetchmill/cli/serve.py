"""`fetchmill serve`: runs a file server for tests and measurements until a signal stops it."""

import errno
import json
import os
import shlex
import signal
import sys
import threading
from typing import Any, get_args

import click

from fetchmill._server import Action, Fault, ServeOptions, Server
from fetchmill.cli.help_texts import CliCommand
from fetchmill.cli.parameter_types import BYTES, COUNT, RANGE, SECONDS, SHARE
from fetchmill.cli.streams import say, write_line
from fetchmill.errors import UsageError

# Duration of a stall in seconds, longer than any client waits.
_STALL_SECONDS = 3600.0
_RATES: tuple[Action, ...] = ("reset", "truncate", "wrong-length", "stall", "stray")

_EXAMPLES = """
fetchmill serve ./some/folder --port 8080
fetchmill serve out/ --port 8080                  serve a job's objects
fetchmill serve --synthetic 1e9 --size 100 --port 8080
fetchmill serve --synthetic 1e5 --delay 0-3 --error-rate 0.01 \\
    --error-status 503 --retry-after 1-30
"""

# The options that `-h` shows.
_MATTERS = (
    *("port", "host", "allow_hosts", "hidden", "threads", "state"),
    *("synthetic", "size", "delay", "error_rate", "error_status", "stats"),
)

_HELP = """Serve the files of FOLDER, or synthetic objects, over the list/get API.

If FOLDER is a destination of `fetchmill get`, its objects are served under their names, whatever their storage
format. Others can use this to mirror your mirror.

Names that start with a dot are served only with --hidden. On a loopback address, only requests for localhost are
answered, so that web pages in a browser cannot read the served objects.

Synthetic objects are computed from their names instead of being stored, so their number is unlimited. Faults affect a
share of the names. Whether a name is affected depends only on --seed.
"""


@click.command(
    "serve",
    cls=CliCommand,
    examples=_EXAMPLES,
    matters=_MATTERS,
    help=_HELP,
    short_help="Serve a folder, a job's objects, or synthetic objects.",
)
@click.argument("folder", metavar="[FOLDER]", required=False, type=click.Path())
@click.option("--synthetic", type=COUNT, metavar="N", help="Serve N computed objects instead of a folder.")
@click.option("--state", type=click.Path(), help="Journal folder, if FOLDER's job was started with --state.")
@click.option("--size", type=BYTES, default=100, show_default=True, help="Size of a synthetic object in bytes.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8080,
    show_default=True,
    help="Port to listen on; 0 picks a free port.",
)
@click.option("--hidden", is_flag=True, help="Also serve files and folders whose names start with a dot.")
@click.option(
    "--allow-host",
    "allow_hosts",
    multiple=True,
    metavar="NAME",
    help="Also answer requests for this host when listening on a loopback address; * for all hosts; repeatable.",
)
@click.option(
    "--client-timeout",
    type=SECONDS,
    default="60s",
    show_default=True,
    help="Close a connection if its client neither sends nor reads anything for this long.",
)
@click.option("--threads", type=COUNT, default=1, show_default=True, help="Number of serving threads.")
@click.option("--page-size", type=COUNT, default=1000, show_default=True, help="Number of names per listing page.")
@click.option("--delay", type=RANGE, help="Delay each /get by a random time in this range, such as 0-3 or 50ms-2s.")
@click.option("--delay-steps", is_flag=True, help="Use only whole seconds for --delay.")
@click.option("--slow-rate", type=SHARE, default=0.0, help="Share of /get requests to delay by --slow-delay instead.")
@click.option(
    "--slow-delay", type=RANGE, default="2s", show_default=True, help="Delay for requests selected by --slow-rate."
)
@click.option("--list-delay", type=RANGE, help="Delay each /list by a random time in this range.")
@click.option("--seed", type=COUNT, default=0, show_default=True, help="Seed for all random choices.")
@click.option("--error-rate", type=SHARE, help="Share of names to answer with --error-status.")
@click.option(
    "--error-status",
    type=click.IntRange(200, 599),
    default=503,
    show_default=True,
    help="Status of the error replies.",
)
@click.option(
    "--retry-after", type=RANGE, help="Retry-After header of error replies, in whole seconds, such as 5 or 1-30."
)
@click.option("--reset-rate", type=SHARE, help="Share of names for which the connection is reset.")
@click.option("--truncate-rate", type=SHARE, help="Share of names whose body is cut off.")
@click.option("--wrong-length-rate", type=SHARE, help="Share of names with a wrong Content-Length.")
@click.option("--stall-rate", type=SHARE, help="Share of names whose reply is never sent.")
@click.option(
    "--stray-rate",
    type=SHARE,
    help="Share of connections that receive an unsolicited reply, up to 50 ms after one of the first 100 replies.",
)
@click.option(
    "--fault-times",
    type=COUNT,
    help="Inject faults only into the first N requests for a name; with --stray-rate, into N connections.  "
    "[default: all]",
)
@click.option("--repeat-marker", is_flag=True, help="Repeat markers so that the listing never ends.")
@click.option("--stats", is_flag=True, help="Write the counters as JSON to standard output at the end.")
def command(stats: bool, **flags: Any) -> int:  # noqa: ANN401
    """Run the command, whose help text is _HELP."""
    server = _start(_options(flags))
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    say(f"serving {_describe(flags)} on {server.url}, until Ctrl-C")
    say(f"for example: fetchmill get {server.url} out/")
    stopped.wait()
    if stats:
        write_line(sys.stdout, json.dumps(server.stats()))
    server.stop()
    return 0


def _start(options: ServeOptions) -> Server:
    try:
        return Server(options)
    except UsageError as error:
        if os.strerror(errno.EADDRINUSE) in str(error):
            error.hint = "choose another port with --port N, or any free port with --port 0"
        raise


def _options(flags: dict[str, Any]) -> ServeOptions:
    """Convert the flags to options and faults."""
    if (flags["folder"] is None) == (flags["synthetic"] is None):
        raise click.UsageError("Give either FOLDER or --synthetic N.")
    faults = _faults(flags)
    names = set(ServeOptions.__dataclass_fields__) - {"faults", "tls"}
    return ServeOptions(**{name: flags[name] for name in names}, faults=faults)


def _faults(flags: dict[str, Any]) -> list[Fault]:
    faults: list[Fault] = []
    times = flags["fault_times"]
    if flags["error_rate"]:
        status, after = flags["error_status"], _retry_after(flags["retry_after"])
        faults.append(Fault("status", rate=flags["error_rate"], times=times, status=status, retry_after=after))
    elif flags["retry_after"]:
        raise click.UsageError("--retry-after needs --error-rate.")
    for action in _RATES:
        rate = flags[action.replace("-", "_") + "_rate"]
        if rate:
            seconds = _STALL_SECONDS if action == "stall" else None
            faults.append(Fault(action, rate=rate, times=times, seconds=seconds))
    if flags["repeat_marker"]:
        faults.append(Fault("repeat-marker"))
    return faults


def _retry_after(range_seconds: tuple[float, float] | None) -> tuple[int, int] | None:
    if range_seconds is None:
        return None
    low, high = range_seconds
    if low != int(low) or high != int(high):
        raise click.UsageError("--retry-after must be whole seconds.")
    return int(low), int(high)


def _describe(flags: dict[str, Any]) -> str:
    if flags["folder"] is not None:
        return shlex.quote(flags["folder"])
    return f"{flags['synthetic']:,} synthetic objects of {flags['size']:,} B"


assert set(_RATES) <= set(get_args(Action))  # noqa: S101 - a misspelt fault would never be injected
