"""Reads what a destination holds without fetchmill: with the readers of the formats that others wrote."""

import base64
import gzip
import json
import tarfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pyarrow.parquet

from independent import stored_files

EXTENSIONS = {"tar": "tar", "parquet": "parquet", "warc": "warc.gz", "jsonl": "jsonl"}
FORMATS = ("files", *EXTENSIONS)
# Of the list/get API: what stands before a name in the path of a request.
GET = "/get/"


def shards(dest: Path, format: str) -> list[Path]:
    """Sealed shards by number."""
    return sorted(dest.glob(f"shard-*.{EXTENSIONS[format]}"))


def read_objects(dest: Path, format: str) -> Iterator[tuple[str, bytes]]:
    """Name and bytes of every stored object, as often as it is stored."""
    if format == "files":
        for name, path in stored_files(dest):
            yield name, path.read_bytes()
        return
    read = {"tar": _read_tar, "parquet": _read_parquet, "warc": _read_warc, "jsonl": _read_jsonl}[format]
    for shard in shards(dest, format):
        yield from read(shard)


def find_wrong(dest: Path, format: str, expected: dict[str, bytes]) -> list[str]:
    """What is lost, doubled, foreign or has other bytes; nothing when each object is there exactly once."""
    counts: Counter[str] = Counter()
    problems = []
    for name, body in read_objects(dest, format):
        counts[name] += 1
        if expected.get(name) != body:
            problems.append(f"{name} has wrong bytes, or was never listed")
    problems += [f"{name} is there {count} times" for name, count in counts.items() if count > 1]
    return problems + [f"{name} is lost" for name in sorted(expected.keys() - counts.keys())]


def _read_tar(path: Path) -> Iterator[tuple[str, bytes]]:
    with tarfile.open(path) as archive:
        for member in archive:
            if member.isfile():
                opened = archive.extractfile(member)
                assert opened is not None
                yield member.name, opened.read()


def _read_parquet(path: Path) -> Iterator[tuple[str, bytes]]:
    table = pyarrow.parquet.read_table(path, columns=["name", "body"])
    yield from zip(table["name"].to_pylist(), table["body"].to_pylist(), strict=True)


def _read_jsonl(path: Path) -> Iterator[tuple[str, bytes]]:
    for line in path.read_bytes().splitlines():
        row = json.loads(line)
        body = base64.b64decode(row["body_base64"]) if "body_base64" in row else row["body"].encode()
        yield row["name"], body


def _read_warc(path: Path) -> Iterator[tuple[str, bytes]]:
    """Record by record, by their lengths."""
    rest = gzip.decompress(path.read_bytes())
    while rest:
        head, _, rest = rest.partition(b"\r\n\r\n")
        lines = head.decode().split("\r\n")
        fields = dict(line.split(": ", 1) for line in lines[1:])
        length = int(fields["Content-Length"])
        block, end, rest = rest[:length], rest[length : length + 4], rest[length + 4 :]
        assert (lines[0], len(block), end) == ("WARC/1.1", length, b"\r\n\r\n")
        if fields["WARC-Type"] in {"response", "resource"}:
            name = unquote(urlsplit(fields["WARC-Target-URI"]).path.removeprefix(GET))
            yield name, block if fields["WARC-Type"] == "resource" else block.partition(b"\r\n\r\n")[2]
