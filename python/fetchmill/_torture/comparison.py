"""Compares what a destination holds with what its job must have."""

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from fetchmill._torture import readers

_EXAMPLES = 5


@dataclass(frozen=True)
class Found:
    """What a comparison found.

    Args:
        lost: objects that are not stored.
        doubled: objects that are stored more than once.
        wrong: objects with other bytes, and objects that nobody asked for.
        problems: what else is wrong, one line each: a run that hung or crashed, a shard that cannot be read.
        examples: some of the objects, with what is wrong with them.
    """

    lost: int = 0
    doubled: int = 0
    wrong: int = 0
    problems: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()

    @property
    def is_clean(self) -> bool:
        """Whether nothing is wrong."""
        return not (self.lost or self.doubled or self.wrong or self.problems)


def digest(body: bytes) -> bytes:
    """What stands for the bytes of an object."""
    return hashlib.sha256(body).digest()


def digests(dest: Path, format: str) -> dict[str, bytes]:
    """The digest of each object that a destination holds, by name."""
    return {name: digest(body) for name, body in readers.read(dest, format)}


def compare(dest: Path, format: str, expected: Mapping[str, bytes]) -> Found:
    """Reads the whole destination.

    Memory: a digest and a name for each object.
    """
    stored: Counter[str] = Counter()
    wrong = []
    try:
        for name, body in readers.read(dest, format):
            stored[name] += 1
            if expected.get(name) != digest(body):
                wrong.append(name)
    except Exception as error:  # noqa: BLE001 - of any reader: a damaged file is a finding
        return Found(problems=(f"{format} cannot be read: {type(error).__name__}: {error}",))
    lost = [name for name in expected if name not in stored]
    doubled = [name for name, count in stored.items() if count > 1]
    examples = tuple(_examples(lost=lost, doubled=doubled, wrong=wrong))
    return Found(len(lost), len(doubled), len(wrong), examples=examples)


def _examples(**found: list[str]) -> Iterator[str]:
    for what, names in found.items():
        yield from (f"{what}: {name}" for name in islice(names, _EXAMPLES))
