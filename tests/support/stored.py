"""The contents of a destination, read by the first independent reader of its format; for tests that need no more."""

import gzip
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import foreign
from faults import note_problems
from foreign import READERS, SUFFIXES
from foreign import find_shards as shards

__all__ = ["FORMATS", "SUFFIXES", "everything", "find_wrong", "read_objects", "shards"]

FORMATS = ("files", *SUFFIXES)


def read_objects(dest: Path, format: str) -> Iterator[tuple[str, bytes]]:
    """Returns name and bytes of every stored object, with repetitions."""
    reader = next(iter(READERS[format]))
    for stored in foreign.read_objects(dest, format, reader):
        yield stored.name.decode(errors="surrogateescape"), stored.body


def everything(dest: Path) -> list[bytes]:
    """Returns the bytes of every file of a destination, including the job's own; gzip is also decompressed."""
    found = [path.read_bytes() for path in dest.rglob("*") if path.is_file()]
    return found + [gzip.decompress(path.read_bytes()) for path in dest.rglob("*.gz")]


def find_wrong(dest: Path, format: str, expected: dict[str, bytes]) -> list[str]:
    """Returns lost, doubled, unexpected and wrong objects; nothing if each object is stored exactly once."""
    counts: Counter[str] = Counter()
    problems = []
    for name, body in read_objects(dest, format):
        counts[name] += 1
        if expected.get(name) != body:
            problems.append(f"{name} has wrong bytes, or was never listed")
    problems += [f"{name} is there {count} times" for name, count in counts.items() if count > 1]
    return note_problems(problems + [f"{name} is lost" for name in sorted(expected.keys() - counts.keys())])
