"""`fetchmill ls`: lists the names in a destination, which may have any format."""

import fnmatch
import json
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import click

from fetchmill._destination.facts import FACTS
from fetchmill.cli.help_texts import CliCommand
from fetchmill.cli.streams import escape, say, write_bytes
from fetchmill.errors import UsageError

if TYPE_CHECKING:
    from fetchmill._destination.objects import Object, Objects

MISSING = 3
# Number of lines per write.
_LINES = 5000
# Formats whose records have more facts than the manifest.
_WITH_FACTS = {"parquet", "warc", "jsonl"}

_EXAMPLES = """
fetchmill ls out/                           list all names
fetchmill ls out/ '2026/*.json' --long      show size, status, time and name
fetchmill ls out/ -0 | xargs -0 -n 100 fetchmill cat out/
fetchmill ls out/ --json | jq .bytes
"""
_EPILOG = """Exit codes: 0 success; 3 a pattern matches no name."""


@click.command("ls", cls=CliCommand, examples=_EXAMPLES, epilog=_EPILOG, short_help="List the names of a destination.")
@click.argument("dest", metavar="DEST", type=click.Path())
@click.argument("patterns", metavar="[PATTERN]...", nargs=-1)
@click.option("--long", "is_long", is_flag=True, help="Show size, status, time and name, separated by tabs.")
@click.option(
    "-0", "--null", is_flag=True, help="End each name with NUL instead of a newline, and do not escape names."
)
@click.option("--json", "as_json", is_flag=True, help="Write JSON lines; with --long, include all known facts.")
@click.option("--state", type=click.Path(), help="Journal folder, if the job was started with --state.")
def command(dest: str, patterns: tuple[str, ...], is_long: bool, null: bool, as_json: bool, state: str | None) -> int:
    """List the names of the objects in DEST, one per line, in storage order. Each name is listed once.

    In a PATTERN, `*` matches any characters, `?` any single character (both also match `/`), and `[abc]` one of the
    listed characters. Every format is read in place. While the job runs, the objects sealed so far are listed. Control
    characters and backslashes are escaped with a backslash. A `-` stands for a value that the format does not store:
    `files` and `tar` store no status and no time.
    """
    if null and (is_long or as_json):
        raise click.UsageError("--null cannot be combined with --long or --json.")
    with _opened(dest, state) as objects:
        listing = _NameListing(objects, patterns)
        if null:
            lines: Iterator[bytes] = (_encode(name) + b"\0" for name, _ in listing.names(with_lengths=False))
        elif as_json:
            lines = map(_json_line, listing.facts() if is_long else listing.names(with_lengths=True))
        elif is_long:
            lines = map(_long_line, listing.facts())
        else:
            lines = ((escape(name) + "\n").encode() for name, _ in listing.names(with_lengths=False))
        while part := b"".join(islice(lines, _LINES)):
            if not write_bytes(sys.stdout, part):
                return 0
    for pattern in listing.unmatched:
        say(f"fetchmill: no name matches {escape(pattern)}")
    return MISSING if listing.unmatched else 0


def _opened(dest: str, state: str | None) -> "Objects":
    """Open the objects of a destination.

    Raises:
        UsageError: there is no job. If DEST is a source instead, the hint says how to list a source.
    """
    from fetchmill._destination import objects as destination

    try:
        return destination.open(dest, state=state)
    except UsageError as error:
        is_source = "://" in dest or os.path.isfile(dest)  # noqa: PTH113 - pathlib is loaded late
        if is_source and "holds no fetchmill job" in str(error):
            error.hint = f"list a source: fetchmill list {shlex.quote(escape(dest))}"
        raise


class _NameListing:
    """The names that some patterns match, each once. Afterwards, `unmatched` has the patterns without a match."""

    def __init__(self, objects: "Objects", patterns: tuple[str, ...]) -> None:
        self._objects = objects
        self._patterns = patterns
        self.unmatched = list(patterns)

    def names(self, *, with_lengths: bool) -> Iterator[tuple[str, int | None]]:
        """Return names, and their lengths if requested."""
        find = self._objects.lengths if with_lengths else _names_alone(self._objects)
        if not self._patterns:
            return iter(find(None))
        return chain.from_iterable(self._of(number, find) for number in range(len(self._patterns)))

    def _of(
        self, number: int, find: Callable[[str], Iterable[tuple[str, int | None]]]
    ) -> Iterator[tuple[str, int | None]]:
        """Yield the names that one pattern matches and no earlier pattern matched."""
        pattern = self._patterns[number]
        earlier = [_matcher(other) for other in self._patterns[:number]]
        for pair in find(pattern):
            if pattern in self.unmatched:
                self.unmatched = [other for other in self.unmatched if other != pattern]
            if not any(matches(pair[0]) for matches in earlier):
                yield pair

    def facts(self) -> "Iterator[tuple[str, int | None] | Object]":
        """Yield names with all facts of each object. Read the shards if the format stores more than the manifest."""
        if self._objects.format not in _WITH_FACTS:
            yield from self.names(with_lengths=True)
            return
        if self._patterns and all("*" not in it and "?" not in it and "[" not in it for it in self._patterns):
            for name, _ in self.names(with_lengths=False):
                yield self._objects.record(name)
            return
        matchers = {pattern: _matcher(pattern) for pattern in self._patterns}
        for found in self._objects.records():
            matched = [pattern for pattern, matches in matchers.items() if matches(found.name)]
            if self.unmatched:
                self.unmatched = [pattern for pattern in self.unmatched if pattern not in matched]
            if matched or not matchers:
                yield found


def _names_alone(objects: "Objects") -> Callable[[str | None], Iterator[tuple[str, None]]]:
    return lambda pattern: ((name, None) for name in objects.names(pattern))


def _matcher(pattern: str) -> Callable[[str], object]:
    return re.compile(fnmatch.translate(pattern)).match


def _long_line(found: "tuple[str, int | None] | Object") -> bytes:
    if isinstance(found, tuple):
        columns = [str(found[1]), "-", "-", escape(found[0])]
    else:
        status, time = found.status, found.fetched_at
        columns = [
            str(len(found.body)),
            "-" if status is None else str(status),
            "-" if time is None else _time_text(time),
            escape(found.name),
        ]
    return ("\t".join(columns) + "\n").encode()


def _json_line(found: "tuple[str, int | None] | Object") -> bytes:
    name, size = found if isinstance(found, tuple) else (found.name, len(found.body))
    values: dict[str, Any] = {"name": name, "bytes": size}
    try:
        name.encode()
    except UnicodeEncodeError:
        values["name"] = _encode(name).decode("utf-8", "replace")
        values["name_hex"] = _encode(name).hex()
    if not isinstance(found, tuple):
        for field in FACTS:
            value = getattr(found, field)
            if value is not None:
                values[field] = _time_text(value) if isinstance(value, datetime) else value
        # Only objects of a list have these.
        values |= {field: value for field in ("url", "columns") if (value := getattr(found, field))}
    return (json.dumps(values) + "\n").encode()


def _encode(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


def _time_text(time: datetime) -> str:
    return time.isoformat(timespec="microseconds" if time.microsecond else "seconds").replace("+00:00", "Z")
