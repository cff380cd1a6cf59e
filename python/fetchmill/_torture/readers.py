"""Reads a job's stored objects with the standard library, pyarrow and warcio, without fetchmill's own code."""

import base64
import json
import os
import tarfile
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote_to_bytes

# An object's name as text, and its body.
Stored = tuple[str, bytes]

_STATE = ".fetchmill"


def _files(dest: Path) -> Iterator[Stored]:
    for folder, folders, files in os.walk(dest):
        if Path(folder) == dest and _STATE in folders:
            folders.remove(_STATE)
        for file in files:
            path = Path(folder, file)
            yield _name(path.relative_to(dest).as_posix()), path.read_bytes()


def _tar(dest: Path) -> Iterator[Stored]:
    for shard in _shards(dest, ".tar"):
        with tarfile.open(shard, "r:", encoding="utf-8", errors="surrogateescape") as archive:
            for member in archive:
                file = archive.extractfile(member)
                if file is None:
                    raise ValueError(f"{member.name} in {shard.name} is not a file")
                yield _name(member.name), file.read()


def _jsonl(dest: Path) -> Iterator[Stored]:
    for shard in _shards(dest, ".jsonl"):
        with shard.open("rb") as lines:
            for line in lines:
                row = json.loads(line)
                body = row.get("body")
                yield row["name"], base64.b64decode(row["body_base64"]) if body is None else body.encode()


def _parquet(dest: Path) -> Iterator[Stored]:
    from pyarrow import parquet

    for shard in _shards(dest, ".parquet"):
        with parquet.ParquetFile(shard) as file:
            for batch in file.iter_batches(columns=["name", "body"]):
                yield from zip(batch.column("name").to_pylist(), batch.column("body").to_pylist(), strict=True)


def _warc(dest: Path) -> Iterator[Stored]:
    from warcio.archiveiterator import ArchiveIterator

    for shard in _shards(dest, ".warc.gz"):
        with shard.open("rb") as file:
            for record in ArchiveIterator(file, check_digests="raise"):
                if record.rec_type == "response":
                    yield record.rec_headers.get_header("WARC-Target-URI"), record.content_stream().read()


# The formats that torture tests, each with the package that reads it; None for the standard library.
_NEEDED: dict[str, str | None] = {"files": None, "tar": None, "jsonl": None, "parquet": "pyarrow", "warc": "warcio"}
_READERS: dict[str, Callable[[Path], Iterator[Stored]]] = {
    "files": _files,
    "tar": _tar,
    "jsonl": _jsonl,
    "parquet": _parquet,
    "warc": _warc,
}
FORMATS = tuple(_READERS)


def missing_package(format: str) -> str | None:
    """Return the package that is required to read a format but is not installed; None if no package is missing."""
    package = _NEEDED[format]
    return package if package and find_spec(package) is None else None


def read(dest: Path, format: str) -> Iterator[Stored]:
    """Yield all objects of a destination with their names, or with their URLs for WARC."""
    return _READERS[format](dest)


def _shards(dest: Path, suffix: str) -> list[Path]:
    return sorted(dest.glob(f"shard-*{suffix}"))


def _name(path: str) -> str:
    """Return an object's name from its path on disk or in a tar."""
    return unquote_to_bytes(path.encode(errors="surrogateescape")).decode(errors="surrogateescape")
