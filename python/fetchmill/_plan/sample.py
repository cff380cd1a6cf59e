"""Measures the bytes, folders and processor time per object in each format, using a sample of the source.

The sample is written in each format, because the size of a shard depends on names, heads and the compressibility of
bodies (docs/internals/decisions/0033-a-plan-stores-a-sample.md).
"""

import gzip
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from fetchmill._destination.export import EXPORT_FORMATS, prepare
from fetchmill._job.report import Report
from fetchmill._plan.running import running
from fetchmill.errors import FetchmillError

_STATE = ".fetchmill"
_STEP_SECONDS = 0.01
_END_OF_HEAD = b"\r\n\r\n"
# Bytes of a line in a WARC index, without the URL and the key, which is about as long as the URL.
_INDEX_LINE_BYTES = 195


@dataclass(frozen=True)
class StoredSample:
    """A sample stored in one format.

    Args:
        objects: number of stored objects.
        refused: number of objects that cannot be stored because of their names.
        body_bytes: total size of the bodies.
        disk_bytes: size of the files and their manifests; for `files`, rounded up to whole blocks.
        folders: number of folders created for names.
        cpu_seconds: processor time to read and write the sample.
        seconds: elapsed time, without syncs.
    """

    objects: int
    refused: int
    body_bytes: int
    disk_bytes: int
    folders: int
    cpu_seconds: float
    seconds: float


@dataclass(frozen=True)
class StoringTimes:
    """The CPU time and the elapsed time to store one object, in seconds."""

    cpu: float
    clock: float


@dataclass(frozen=True)
class SampleReplies:
    """Mean bytes per object for the heads of its requests and replies, and for its line in a WARC index."""

    request: float
    reply: float
    index_line: float


def store_in_each_format(sample: Path, folder: Path, block: int) -> dict[str, StoredSample]:
    """Write a sample in each format and measure it. Omit formats that cannot be measured.

    Args:
        sample: the destination of a job.
        folder: the folder to write to.
        block: block size in bytes of the file system in the plan.
    """
    found = {}
    for name in EXPORT_FORMATS:
        try:
            found[name] = _store(sample, folder / name, name, block)
        except FetchmillError:
            continue
    return found


def times_of_storing(stored: Mapping[str, StoredSample]) -> dict[str, StoringTimes]:
    """Return the time to store one object, by format.

    Reading the sample and starting up take the same time in each format. The cheapest format takes almost no additional
    time, so its time is subtracted from the times of all formats.
    """
    samples = {name: sample for name, sample in stored.items() if sample.objects}
    cpu = min((sample.cpu_seconds / sample.objects for sample in samples.values()), default=0.0)
    clock = min((sample.seconds / sample.objects for sample in samples.values()), default=0.0)
    return {
        name: StoringTimes(sample.cpu_seconds / sample.objects - cpu, sample.seconds / sample.objects - clock)
        for name, sample in samples.items()
    }


def measure_replies(sample: Path) -> SampleReplies | None:
    """Return the mean sizes of heads and index lines in a WARC sample; None if the sample contains no replies.

    Secret request fields are not stored, so they are not included. An index exists only once a job is finished, so
    the sample may have none. The size of an index line is therefore computed.
    """
    requests = replies = lines = count = 0
    for shard in sorted(sample.glob("shard-*.warc.gz")):
        with gzip.open(shard) as records:
            for kind, url_bytes, block in _records(records):
                if kind == b"request":
                    requests += len(block)
                elif kind == b"response":
                    replies, count = replies + block.index(_END_OF_HEAD) + len(_END_OF_HEAD), count + 1
                    lines += _INDEX_LINE_BYTES + 2 * url_bytes
    return SampleReplies(requests / count, replies / count, lines / count) if count else None


def _store(sample: Path, dest: Path, name: str, block: int) -> StoredSample:
    before, started = time.process_time(), time.monotonic()
    prepared = prepare(sample, dest, name, None, None, None, "process", {})
    with prepared, running(prepared.start()) as export:
        while not export.wait(_STEP_SECONDS):
            pass
        report = Report.from_native(export.report())
    cpu_seconds, seconds = time.process_time() - before, time.monotonic() - started
    disk_bytes, folders = _measure(dest, block if name == "files" else 1)
    return StoredSample(report.fetched, report.failed, report.bytes, disk_bytes, folders, cpu_seconds, seconds)


def _measure(dest: Path, block: int) -> tuple[int, int]:
    """Return the size of the output with its manifests, and the number of folders for names."""
    size = folders = 0
    for where, inner, files in os.walk(dest):
        is_state = Path(where).is_relative_to(dest / _STATE)
        if not is_state:
            folders += len(inner) - (_STATE in inner)
        for file in files:
            if not is_state:
                size += -(-(Path(where) / file).stat().st_size // block) * block
            elif file.endswith(".manifest"):
                size += (Path(where) / file).stat().st_size
    return size, folders


def _records(stream: "gzip.GzipFile | BinaryIO") -> Iterator[tuple[bytes, int, bytes]]:
    """Yield the type, the length of the URL and the block of each record in a WARC file."""
    while stream.readline():
        fields = {}
        while (line := stream.readline().strip()) != b"":
            field, _, value = line.partition(b":")
            fields[field.lower()] = value.strip()
        url_bytes = len(fields.get(b"warc-target-uri", b""))
        yield fields[b"warc-type"], url_bytes, stream.read(int(fields[b"content-length"]))
        stream.read(4)
