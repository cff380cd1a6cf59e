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

# Duration of a stall, longer than any client waits.
_STALL_SECONDS = 3600.0
_RATES: tuple[Action, ...] = ("reset", "truncate", "wrong-length", "stall", "stray")

_EXAMPLES = """
fetchmill serve ./some/folder --port 8080
fetchmill serve out/ --port 8080                  the objects of a job
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

A FOLDER that `fetchmill get` has written is served as what it holds: its objects under their names, whatever their
format, so that a mirror can be mirrored.

Names that start with a dot are not served without --hidden. At loopback only requests for localhost are answered, so
that no page in a browser can read what is served.

Synthetic objects are computed from their names, nothing is stored: any number of them will do. The faults hit a
share of the names; whether a name is hit depends on --seed alone.
"""


@click.command(
    "serve",
    cls=CliCommand,
    examples=_EXAMPLES,
    matters=_MATTERS,
    help=_HELP,
    short_help="Serve a folder, a job's objects or synthetic ones.",
)
@click.argument("folder", metavar="[FOLDER]", required=False, type=click.Path())
@click.option("--synthetic", type=COUNT, metavar="N", help="Serve N computed objects instead of a folder.")
@click.option("--state", type=click.Path(), help="Journal folder, if FOLDER is of a job that was started with --state.")
@click.option("--size", type=BYTES, default=100, show_default=True, help="Size of a synthetic object in bytes.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=8080, show_default=True, help="Port; 0 is any free one.")
@click.option("--hidden", is_flag=True, help="Serve files and folders whose names start with a dot, too.")
@click.option(
    "--allow-host",
    "allow_hosts",
    multiple=True,
    metavar="NAME",
    help="Answer requests for this host besides localhost, when listening at loopback; * for all. May be given again.",
)
@click.option(
    "--client-timeout",
    type=SECONDS,
    default="60s",
    show_default=True,
    help="Close a connection whose client sends or reads nothing for this time.",
)
@click.option("--threads", type=COUNT, default=1, show_default=True, help="Number of serving threads.")
@click.option(
    "--page-size", type=COUNT, default=1000, show_default=True, help="Number of names in a page of the listing."
)
@click.option("--delay", type=RANGE, help="Delay each /get by a random time in this range, such as 0-3 or 50ms-2s.")
@click.option("--delay-steps", is_flag=True, help="Use only whole seconds for --delay.")
@click.option(
    "--slow-rate", type=SHARE, default=0.0, help="Share of /get requests that are delayed by --slow-delay instead."
)
@click.option("--slow-delay", type=RANGE, default="2s", show_default=True, help="Delay of these requests.")
@click.option("--list-delay", type=RANGE, help="Delay each /list by a random time in this range.")
@click.option("--seed", type=COUNT, default=0, show_default=True, help="Seed of all random choices.")
@click.option("--error-rate", type=SHARE, help="Share of names answered with --error-status.")
@click.option(
    "--error-status", type=click.IntRange(200, 599), default=503, show_default=True, help="Status of these replies."
)
@click.option("--retry-after", type=RANGE, help="Retry-After of these replies in whole seconds: 5 or 1-30.")
@click.option("--reset-rate", type=SHARE, help="Share of names whose connection is reset.")
@click.option("--truncate-rate", type=SHARE, help="Share of names whose body ends in the middle.")
@click.option("--wrong-length-rate", type=SHARE, help="Share of names with a wrong Content-Length.")
@click.option("--stall-rate", type=SHARE, help="Share of names whose reply never comes.")
@click.option(
    "--stray-rate",
    type=SHARE,
    help="Share of connections with one reply that nobody asked for, up to 50 ms after one of their first 100.",
)
@click.option(
    "--fault-times",
    type=COUNT,
    help="Hit only the first so many requests of a name, and with --stray-rate so many connections.  [default: all]",
)
@click.option("--repeat-marker", is_flag=True, help="Let the listing go round in a circle.")
@click.option("--stats", is_flag=True, help="Write the counters as JSON to standard output at the end.")
def command(stats: bool, **flags: Any) -> int:  # noqa: ANN401
    """The body of the command. Its help text is _HELP."""
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
    """Convert the flags to options, and the fault flags to faults."""
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


assert set(_RATES) <= set(get_args(Action))  # noqa: S101 - a misspelt fault would never happen
