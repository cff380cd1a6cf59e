"""Reads a destination with independent code only: the result is what any user would get.

A format may have several readers, by id in `READERS`. A reader raises if it finds something that it cannot read.
"""

import base64
import io
import json
import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes

STATE = ".fetchmill"
# Files that may be next to shards, but are none.
FAILURES = "_failures.ndjson"
SUFFIXES = {"tar": ".tar", "parquet": ".parquet", "warc": ".warc.gz", "jsonl": ".jsonl"}
# Data that a format's readers return in addition to name and body. For tar, it is the time of the file: the last
# modification, or else the time of fetching.
TOLD = {
    "files": (),
    "tar": ("last_modified",),
    "parquet": ("sequence", "status", "content_type", "etag", "last_modified", "fetched_at", "crc32c"),
    "warc": ("sequence", "status", "content_type", "etag", "last_modified", "fetched_at"),
    "jsonl": ("sequence", "status", "content_type", "etag", "last_modified", "fetched_at", "crc32c"),
}
PARQUET_COLUMNS = ("sequence", "name", "name_raw", *TOLD["parquet"][1:], "body")
JSON_TYPES = {
    "sequence": "BIGINT",
    "name": "VARCHAR",
    "name_hex": "VARCHAR",
    "status": "USMALLINT",
    "content_type": "VARCHAR",
    "etag": "VARCHAR",
    "last_modified": "VARCHAR",
    "fetched_at": "VARCHAR",
    "crc32c": "UINTEGER",
    "body": "VARCHAR",
    "body_base64": "VARCHAR",
}
ROWS_AT_ONCE = 1000
# A body of 64 MiB in base64, and some more.
JSON_LINE_BYTES_MAX = 256 << 20
WARC_HEAD_BYTES_MAX = 4 << 20
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TAR_LINE = re.compile(rb"-\S+ +\S+ +(\d+) (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?:\.\d+)? (.+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Stored:
    """An object as a reader returns it; None is a value that is not stored or not reported."""

    name: bytes
    body: bytes
    sequence: int | None = None
    status: int | None = None
    content_type: str | None = None
    etag: str | None = None
    last_modified: datetime | None = None
    fetched_at: datetime | None = None
    crc32c: int | None = None


def read_objects(dest: Path, format: str, reader: str) -> Iterator[Stored]:
    """Returns everything that a destination holds, in the order in which it is found."""
    read = READERS[format][reader]
    if format not in SUFFIXES:
        yield from read(dest)
        return
    for shard in find_shards(dest, format):
        yield from read(shard)


def find_shards(dest: Path, format: str) -> list[Path]:
    """Returns a destination's finished shards by number. Its folder, failures and WARC indexes may be there as well."""
    suffix = re.escape(SUFFIXES[format])
    found = sorted(path for path in dest.iterdir() if path.name not in (STATE, FAILURES))
    if format == "warc":
        indexes = {shard.with_name(f"shard-{shard_number(shard):06}.cdxj") for shard in dest.glob("shard-*.warc.gz")}
        found = [path for path in found if path not in indexes]
    strange = [path.name for path in found if not re.fullmatch(rf"shard-\d{{6}}{suffix}", path.name)]
    if strange:
        raise ValueError(f"no shards of {format}: {strange}")
    return found


def shard_number(shard: Path) -> int:
    """Returns the number in its name."""
    return int(shard.name.partition(".")[0].removeprefix("shard-"))


def unescape(path: bytes) -> bytes:
    """Returns the name for a path on disk or in a tar."""
    return b"" if path == b"%empty" else unquote_to_bytes(path)


# --- files -------------------------------------------------------------------------------------------------------


def stored_files(dest: Path) -> Iterator[tuple[str, Path]]:
    """Returns names on disk and paths of everything in a destination except folders and the job's own files."""
    for folder, folders, files in os.walk(dest):
        if Path(folder) == dest and STATE in folders:
            folders.remove(STATE)
        for file in files:
            path = Path(folder, file)
            yield path.relative_to(dest).as_posix(), path


def _walk(dest: Path) -> Iterator[Stored]:
    for name, path in stored_files(dest):
        if path.is_symlink():
            raise ValueError(f"{path} is a link")
        yield Stored(unescape(os.fsencode(name)), path.read_bytes())


# --- tar ---------------------------------------------------------------------------------------------------------


def _tarfile(shard: Path) -> Iterator[Stored]:
    with tarfile.open(shard, "r:", encoding="utf-8", errors="surrogateescape") as archive:
        for member in archive:
            file = archive.extractfile(member)
            if not member.isreg() or file is None:
                raise ValueError(f"{member.name!r} in {shard} is no file")
            name = unescape(member.name.encode(errors="surrogateescape"))
            yield Stored(name, file.read(), last_modified=EPOCH + timedelta(seconds=int(member.mtime)))


def _gnu_tar(shard: Path) -> Iterator[Stored]:
    """Splits the stream of all bodies with the list of members; no name has a line end."""
    lines = _tar("--list", "--verbose", "--full-time", "--utc", "--numeric-owner", "--file", shard).splitlines()
    bodies = io.BytesIO(_tar("--extract", "--to-stdout", "--file", shard))
    for line in lines:
        found = TAR_LINE.fullmatch(line)
        if found is None:
            raise ValueError(f"{line!r} in {shard} is no file")
        time = datetime.strptime(found[2].decode(), "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
        yield Stored(unescape(found[3]), bodies.read(int(found[1])), last_modified=time)
    if bodies.read(1):
        raise ValueError(f"{shard} has more bytes than its members")


def _tar(*arguments: object) -> bytes:
    """Returns the standard output of GNU tar, which must not print a warning."""
    command = ["tar", "--quoting-style=literal", *map(str, arguments)]
    ended = subprocess.run(command, capture_output=True, check=False, env=os.environ | {"LC_ALL": "C"})
    if ended.returncode or ended.stderr:
        raise ValueError(f"{command} ended with {ended.returncode}: {ended.stderr!r}")
    return ended.stdout


def extract_tars(dest: Path, folder: Path) -> None:
    """Runs `tar -xf` of each shard into a folder, as a user would."""
    for shard in find_shards(dest, "tar"):
        _tar("--extract", "--directory", folder, "--file", shard)


def _webdataset(shard: Path) -> Iterator[Stored]:
    from webdataset.tariterators import tar_file_iterator

    with shard.open("rb") as file:
        for sample in tar_file_iterator(file, skip_meta=None):
            yield Stored(unescape(sample["fname"].encode(errors="surrogateescape")), sample["data"])


# --- parquet -----------------------------------------------------------------------------------------------------


def _row(row: dict[str, Any]) -> Stored:
    """Returns a row with its times as microseconds since 1970."""
    raw, name = row.pop("name_raw"), row.pop("name")
    # Columns for a list: the URL if it is not the name, and kept columns.
    row = {column: row[column] for column in PARQUET_COLUMNS if column in row}
    for column in ("last_modified", "fetched_at"):
        row[column] = None if row[column] is None else EPOCH + timedelta(microseconds=row[column])
    return Stored(name.encode() if raw is None else raw, **row)


def _pyarrow(shard: Path) -> Iterator[Stored]:
    import pyarrow as pa
    from pyarrow import parquet

    with parquet.ParquetFile(shard) as file:
        for batch in file.iter_batches(ROWS_AT_ONCE):
            table = pa.Table.from_batches([batch])
            for column in ("last_modified", "fetched_at"):
                at = table.schema.get_field_index(column)
                table = table.set_column(at, column, table.column(at).cast("int64"))
            yield from map(_row, table.to_pylist())


def _polars(shard: Path) -> Iterator[Stored]:
    import polars as pl

    times = [pl.col(column).dt.timestamp("us") for column in ("last_modified", "fetched_at")]
    yield from map(_row, pl.read_parquet(shard).with_columns(times).iter_rows(named=True))


def _duckdb_parquet(shard: Path) -> Iterator[Stored]:
    times = {column: f"epoch_us({column})" for column in ("last_modified", "fetched_at")}
    columns = ", ".join(times.get(column, column) for column in PARQUET_COLUMNS)
    query = f"SELECT {columns} FROM read_parquet(?)"  # noqa: S608 - of constants
    yield from map(_row, _duckdb(query, shard, PARQUET_COLUMNS))


def _duckdb(query: str, shard: Path, columns: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Returns the rows of a query over one file."""
    import duckdb

    with duckdb.connect(config={"autoinstall_known_extensions": "false"}) as db:
        found = db.execute(query, [str(shard)])
        while rows := found.fetchmany(ROWS_AT_ONCE):
            yield from (dict(zip(columns, row, strict=True)) for row in rows)


def describe_parquet(shard: Path) -> dict[str, dict[str, str]]:
    """Returns the type of each column in the readers' terms."""
    import duckdb
    import polars as pl
    from pyarrow import parquet

    with duckdb.connect() as db:
        described = db.execute("DESCRIBE SELECT * FROM read_parquet(?)", [str(shard)]).fetchall()
    return {
        "pyarrow": {field.name: str(field.type) for field in parquet.read_schema(shard)},
        "polars": {name: str(type_) for name, type_ in pl.read_parquet_schema(shard).items()},
        "duckdb": {row[0]: row[1] for row in described},
    }


# --- warc --------------------------------------------------------------------------------------------------------


def _exchange(
    fields: Callable[[str], str | None], http: Callable[[str], str | None], status: int, body: bytes
) -> Stored:
    """Returns a response record: its own fields, those of the reply, its status and its body."""
    name, sequence, date = (fields(field) for field in ("Fetchmill-Name", "Fetchmill-Sequence", "WARC-Date"))
    if name is None or sequence is None or date is None:
        raise ValueError("a response without Fetchmill-Name, Fetchmill-Sequence or WARC-Date")
    return Stored(
        unquote_to_bytes(name),
        body,
        sequence=int(sequence),
        status=status or None,
        content_type=http("Content-Type"),
        etag=http("ETag"),
        last_modified=_date(http("Last-Modified")),
        fetched_at=datetime.fromisoformat(date),
    )


def _date(text: str | None) -> datetime | None:
    """Returns a date; None also for an invalid one."""
    try:
        return None if text is None else parsedate_to_datetime(text)
    except ValueError:
        return None


def _untold(_field: str) -> None:
    """Handles a resource record, which has no head of a reply: the export was from a format without heads."""


def _warcio(shard: Path) -> Iterator[Stored]:
    from warcio.archiveiterator import ArchiveIterator

    with shard.open("rb") as file:
        for record in ArchiveIterator(file, check_digests="raise"):
            if record.rec_type == "response":
                http = record.http_headers
                body = record.content_stream().read()
                yield _exchange(record.rec_headers.get_header, http.get_header, int(http.get_statuscode()), body)
            elif record.rec_type == "resource":
                yield _exchange(record.rec_headers.get_header, _untold, 0, record.content_stream().read())


def _fastwarc(shard: Path) -> Iterator[Stored]:
    from fastwarc.warc import ArchiveIterator, WarcRecordType

    with shard.open("rb") as file:
        responses = WarcRecordType.response
        for record in ArchiveIterator(
            file, responses, auto_decode="transfer", verify_digests=True, max_header_len=WARC_HEAD_BYTES_MAX
        ):
            http = record.http_headers
            yield _exchange(record.headers.get, http.get, http.status_code or 0, record.reader.read())


def read_warc_blocks(shard: Path) -> Iterator[tuple[dict[str, str], bytes]]:
    """Returns each record's own fields and its unchanged block."""
    from warcio.archiveiterator import ArchiveIterator

    with shard.open("rb") as file:
        for record in ArchiveIterator(file, no_record_parse=True):
            yield dict(record.rec_headers.headers), record.content_stream().read()


def check_warc(shard: Path) -> str:
    """Returns the findings of `warcio check` for a file; empty if there are none."""
    command = [sys.executable, "-m", "warcio.cli", "check", str(shard)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    return "" if ended.returncode == 0 else f"{shard.name}: exit {ended.returncode}, {ended.stdout}{ended.stderr}"


# --- jsonl -------------------------------------------------------------------------------------------------------


def _line(row: dict[str, Any]) -> Stored:
    """Returns an object of JSON lines; a missing field is None."""
    name, name_hex = row.pop("name", None), row.pop("name_hex", None)
    # Fields for a list; url_hex exists if the URL is not UTF-8.
    row = {field: value for field, value in row.items() if field not in ("url", "url_hex", "columns")}
    text, encoded = row.pop("body", None), row.pop("body_base64", None)
    if name is None or (text is None) == (encoded is None):
        raise ValueError(f"no name, or body and body_base64: {row}")
    for field in ("last_modified", "fetched_at"):
        time = row.pop(field, None)
        row[field] = None if time is None else datetime.fromisoformat(time)
    return Stored(
        name.encode() if name_hex is None else bytes.fromhex(name_hex),
        base64.b64decode(encoded, validate=True) if text is None else text.encode(),
        **row,
    )


def _json(shard: Path) -> Iterator[Stored]:
    with shard.open("rb") as lines:
        for line in lines:
            if not line.endswith(b"\n"):
                raise ValueError(f"{shard} ends inside a line")
            yield _line(json.loads(line))


def _duckdb_json(shard: Path) -> Iterator[Stored]:
    types = json.dumps(JSON_TYPES).replace('"', "'")
    query = (
        f"SELECT {', '.join(JSON_TYPES)} FROM read_json("  # noqa: S608 - of constants
        f"?, format='newline_delimited', columns={types}, maximum_object_size={JSON_LINE_BYTES_MAX})"
    )
    yield from map(_line, _duckdb(query, shard, JSON_TYPES))


READERS: dict[str, dict[str, Callable[[Path], Iterator[Stored]]]] = {
    "files": {"walk": _walk},
    "null": {"walk": _walk},
    "tar": {"tarfile": _tarfile, "gnu-tar": _gnu_tar, "webdataset": _webdataset},
    "parquet": {"pyarrow": _pyarrow, "duckdb": _duckdb_parquet, "polars": _polars},
    "warc": {"warcio": _warcio, "fastwarc": _fastwarc},
    "jsonl": {"json": _json, "duckdb": _duckdb_json},
}
