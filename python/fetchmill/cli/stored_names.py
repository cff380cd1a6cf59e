"""The names in a destination, for `ls`. Each name occurs once, with the stored details of its object."""

import fnmatch
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING

from fetchmill._destination.facts import FACTS
from fetchmill.cli.name_lines import Form, Named, name_line, to_line
from fetchmill.cli.streams import escape, say, write_bytes

if TYPE_CHECKING:
    from fetchmill._destination.objects import Object, Objects

MISSING = 3
# Number of lines per write.
_LINES = 5000
# Formats whose records contain more details than the manifest.
_WITH_FACTS = {"parquet", "warc", "jsonl"}


def show_names(objects: "Objects", patterns: tuple[str, ...], form: Form, *, first: int | None = None) -> int:
    """Write the names that match any of the patterns to standard output, and return the exit code.

    Args:
        objects: the objects of the destination.
        patterns: the patterns; if there are none, all names match.
        form: the form of the lines.
        first: maximum number of names; None for all.
    """
    listing = _NameListing(objects, patterns)
    if form.is_long or form.as_json:
        found = listing.facts() if form.is_long else listing.names(with_lengths=True)
        lines = (to_line(_named(each), form) for each in found)
    else:
        lines = (name_line(name, form) for name, _ in listing.names(with_lengths=False))
    left = sys.maxsize if first is None else first
    while left > 0 and (part := list(islice(lines, min(left, _LINES)))):
        if not write_bytes(sys.stdout, b"".join(part)):
            return 0
        left -= len(part)
    if left <= 0:
        # Names that were not read may match the other patterns.
        return 0
    for pattern in listing.unmatched:
        say(f"fetchmill: no name matches {escape(pattern)}")
    return MISSING if listing.unmatched else 0


class _NameListing:
    """The distinct names that match any pattern. At the end, `unmatched` contains the patterns without a match."""

    def __init__(self, objects: "Objects", patterns: tuple[str, ...]) -> None:
        self._objects = objects
        self._patterns = patterns
        self.unmatched = list(patterns)

    def names(self, *, with_lengths: bool) -> Iterator[tuple[str, int | None]]:
        """Yield the names, with their lengths if requested."""
        find = self._objects.lengths if with_lengths else _names_alone(self._objects)
        if not self._patterns:
            return iter(find(None))
        return chain.from_iterable(self._of(number, find) for number in range(len(self._patterns)))

    def _of(
        self, number: int, find: Callable[[str], Iterable[tuple[str, int | None]]]
    ) -> Iterator[tuple[str, int | None]]:
        """Yield the names that match one pattern and none of the earlier patterns."""
        pattern = self._patterns[number]
        earlier = [_matcher(other) for other in self._patterns[:number]]
        for pair in find(pattern):
            if pattern in self.unmatched:
                self.unmatched = [other for other in self.unmatched if other != pattern]
            if not any(matches(pair[0]) for matches in earlier):
                yield pair

    def facts(self) -> "Iterator[tuple[str, int | None] | Object]":
        """Yield each name with all details of its object. Read the shards if only they contain all details."""
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


def _named(found: "tuple[str, int | None] | Object") -> Named:
    if isinstance(found, tuple):
        return Named(*found)
    facts = {field: getattr(found, field) for field in FACTS}
    # Only objects from a list have these values.
    facts |= {field: value for field in ("url", "columns") if (value := getattr(found, field))}
    return Named(found.name, len(found.body), found.status, found.fetched_at, facts)
