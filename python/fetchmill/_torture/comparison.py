"""Compares the contents of a destination with the objects that its job must store."""

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from fetchmill._torture import readers

# Number of times that each object must be stored, by name and digest.
Expected = Counter[tuple[str, bytes]]

_EXAMPLES = 5


@dataclass(frozen=True)
class Found:
    """The faults found by a comparison.

    Args:
        lost: objects that are not stored.
        doubled: objects stored more often than they should be.
        wrong: objects with wrong bytes, and unexpected objects.
        problems: other faults, one line each: for example a run that hung or crashed, or a shard that cannot be read.
        examples: some of the faulty objects, each with its fault.
    """

    lost: int = 0
    doubled: int = 0
    wrong: int = 0
    problems: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()

    @property
    def is_clean(self) -> bool:
        """Whether no fault was found."""
        return not (self.lost or self.doubled or self.wrong or self.problems)


def digest(body: bytes) -> bytes:
    """Return the SHA-256 of a body."""
    return hashlib.sha256(body).digest()


def contents(dest: Path, format: str) -> Expected:
    """Read the whole destination. The name and digest of each object are kept in memory."""
    return Counter((name, digest(body)) for name, body in readers.read(dest, format))


def compare(dest: Path, format: str, expected: Expected) -> Found:
    """Read the whole destination and compare each object."""
    try:
        stored = contents(dest, format)
    except Exception as error:  # noqa: BLE001 - readers may raise anything for a damaged file
        return Found(problems=(f"{format} cannot be read: {type(error).__name__}: {error}",))
    must, has = _by_name(expected), _by_name(stored)
    lost = must - has
    doubled = Counter({name: count for name, count in (has - must).items() if name in must})
    wrong = _by_name(Counter({key: count for key, count in stored.items() if key not in expected}))
    return Found(
        lost.total(),
        doubled.total(),
        wrong.total(),
        examples=tuple(_examples(lost=lost, doubled=doubled, wrong=wrong)),
    )


def _by_name(objects: Expected) -> "Counter[str]":
    names: Counter[str] = Counter()
    for (name, _), count in objects.items():
        names[name] += count
    return names


def _examples(**found: "Counter[str]") -> Iterator[str]:
    for what, names in found.items():
        yield from (f"{what}: {name}" for name in islice(names, _EXAMPLES))
