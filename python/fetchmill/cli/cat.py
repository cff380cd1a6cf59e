"""`fetchmill cat`: writes the bytes of objects, which may be stored in any format."""

import sys

import click

from fetchmill.cli.help_texts import CliCommand
from fetchmill.cli.streams import escape, say, write_bytes

MISSING = 3

_EXAMPLES = """
fetchmill cat out/ file-000000000001 > body
fetchmill cat out/ a.csv b.csv | wc -l
fetchmill ls out/ '*.json' -0 | xargs -0 fetchmill cat out/
"""
_EPILOG = """Exit codes: 0, or 3 when a name is missing (each is told on standard error); 10 when an
object is damaged."""


@click.command(
    "cat",
    cls=CliCommand,
    examples=_EXAMPLES,
    epilog=_EPILOG,
    short_help="Write objects of a destination to standard output.",
)
@click.argument("dest", metavar="DEST", type=click.Path())
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option("--state", type=click.Path(), help="Journal folder, if the job was started with --state.")
def command(dest: str, names: tuple[str, ...], state: str | None) -> int:
    """Write the bytes of the objects of DEST with these names, one after the other, as they were fetched.

    Any format is read in place, also while its job runs: what is sealed by now. Nothing is unpacked, and of millions
    of objects only those asked for are read. Of a name that came twice, the first one counts.
    """
    from fetchmill._destination import objects as destination

    code = 0
    with destination.open(dest, state=state) as objects:
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
