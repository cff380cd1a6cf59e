"""`fetchmill cat`: writes the bytes of objects, whatever their storage format."""

import sys
from typing import Any

import click

from fetchmill.cli.reach_command import ReachCommand, given_reach
from fetchmill.cli.streams import escape, say, write_bytes

MISSING = 3

_EXAMPLES = """
fetchmill cat out/ file-000000000001 > body
fetchmill cat out/ a.csv b.csv | wc -l
fetchmill ls out/ '*.json' -0 | xargs -0 fetchmill cat out/
"""
_EPILOG = """Exit codes: 0 on success; 3 if a name is missing (each one is reported on standard error); 10 if an
object is damaged."""


@click.command(
    "cat",
    cls=ReachCommand,
    examples=_EXAMPLES,
    epilog=_EPILOG,
    short_help="Write objects from a destination to standard output.",
)
@click.argument("dest", metavar="DEST", type=click.Path())
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option("--state", type=click.Path(), help="Journal folder, if the job was started with --state.")
def command(dest: str, names: tuple[str, ...], state: str | None, **reach: Any) -> int:  # noqa: ANN401
    """Write the named objects from DEST to standard output, one after another, byte for byte as fetched.

    In every format, only the named objects are read, in place and without unpacking. While a job is running, the
    objects sealed so far can be read. If several objects have the same name, the first one is written.
    """
    from fetchmill._destination import objects as destination

    code = 0
    with destination.open_reached(dest, state, given_reach(reach)) as objects:
        for name in names:
            try:
                body = objects[name]
            except KeyError:
                say(f"fetchmill: no object has the name {escape(name)}")
                code = MISSING
                continue
            if not write_bytes(sys.stdout, body):
                break
    return code
