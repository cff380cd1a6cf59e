"""Refuses destinations that are named like a file, because fetchmill writes a folder of shards.

A folder named `out.parquet` would surprise users and most programs. Existing folders are accepted, because they may
contain jobs of earlier releases.
"""

import os
from collections.abc import Callable
from typing import NamedTuple

from fetchmill._options.sources import is_bucket
from fetchmill.errors import UsageError

# Phrase in the error for a destination that is named like a file.
NOT_ONE_FILE = "fetchmill writes a folder of shards, not one file"


class FileKind(NamedTuple):
    """The output that a file extension suggests.

    Args:
        format: the format of the shards.
        reading: how to read all shards as one table, where {} is the folder.
        joining: a command that joins the shards into one file, where {0} is the folder and {1} is the file. None if
            there is no simple command.
    """

    format: str
    reading: str
    joining: str | None = None


class FileName(NamedTuple):
    """A destination that is named like a file.

    Args:
        name: the destination without trailing slashes.
        folder: the folder to suggest instead: the name without its extension.
        suffix: the extension, in lower case.
        kind: the output that the extension suggests.
    """

    name: str
    folder: str
    suffix: str
    kind: FileKind


_READ_PARQUET = "read_parquet('{}*.parquet')"
_PARQUET = FileKind("parquet", _READ_PARQUET, "duckdb -c \"COPY (FROM '{0}*.parquet') TO '{1}' (FORMAT parquet)\"")
_DUCKDB = FileKind("parquet", _READ_PARQUET, "duckdb {1} -c \"CREATE TABLE objects AS FROM '{0}*.parquet'\"")
_TABLE = FileKind("parquet", _READ_PARQUET)
_TAR = FileKind("tar", "webdataset and tar read {}*.tar")
_JSONL = FileKind("jsonl", "cat {}*.jsonl", "cat {0}*.jsonl > {1}")
_GZIPPED_JSONL = FileKind("jsonl", "cat {}*.jsonl", "cat {0}*.jsonl | gzip > {1}")
_JSON = FileKind("jsonl", "cat {}*.jsonl")
_GZIPPED_WARC = FileKind("warc", "cat {}*.warc.gz", "cat {0}*.warc.gz > {1}")
_WARC = FileKind("warc", "cat {}*.warc.gz", "zcat {0}*.warc.gz > {1}")
# The journal is not part of the result.
_ZIP = FileKind("files", "one file per object", "zip -qr {1} {0} -x '{0}.fetchmill/*'")
# Longer extensions come first.
_KINDS = {
    **dict.fromkeys((".parquet", ".pq"), _PARQUET),
    **dict.fromkeys((".tar.gz", ".tar.zst", ".tgz", ".tar"), _TAR),
    **dict.fromkeys((".jsonl", ".ndjson"), _JSONL),
    ".jsonl.gz": _GZIPPED_JSONL,
    **dict.fromkeys((".jsonl.zst", ".json"), _JSON),
    ".warc.gz": _GZIPPED_WARC,
    ".warc": _WARC,
    **dict.fromkeys((".csv.gz", ".csv", ".tsv", ".sqlite3", ".sqlite", ".db", ".arrow", ".feather"), _TABLE),
    ".duckdb": _DUCKDB,
    ".zip": _ZIP,
}


def file_name_of(dest: str) -> FileName | None:
    """Return the parts of a destination that is named like a file, or None if it is not."""
    name = dest.rstrip("/")
    suffix = next((suffix for suffix in _KINDS if name.lower().endswith(suffix)), None)
    if suffix is None:
        return None
    return FileName(name, f"{name[: -len(suffix)].rstrip('/') or 'out'}/", suffix, _KINDS[suffix])


def refuse_file_name(
    dest: str | os.PathLike[str],
    state: str | os.PathLike[str] | None = None,
    *,
    has_job: Callable[[], bool] = lambda: False,
) -> None:
    """Refuse a new destination that is named like a file.

    Buckets do not have folders, so a prefix that ends with a slash is accepted.

    Args:
        dest: the destination.
        state: the state folder of the destination's job, if it is not the default.
        has_job: returns whether the destination contains a shared job.

    Raises:
        UsageError: the destination ends with a file extension and does not contain a job yet.
    """
    text = os.fspath(dest)
    found = file_name_of(text)
    if found is None or _exists(text, found, state) or has_job():
        return
    raise UsageError(
        f"{text}: {NOT_ONE_FILE}, so that each shard is complete even if the job is killed; all shards can be read as "
        f"one ({found.kind.reading.format(found.folder)})",
        hint=f"choose a folder, such as {found.folder}",
    )


def _exists(dest: str, found: FileName, state: str | os.PathLike[str] | None) -> bool:
    """Return whether a destination is an existing folder, or a prefix that ends with a slash or contains a job."""
    # Imported here because help does not need it.
    from pathlib import Path

    if not is_bucket(dest):
        return Path(dest).is_dir()
    folder = Path(state or f"{found.name.rpartition('/')[2]}.fetchmill")
    return dest.endswith("/") or (folder / "job.sqlite").exists()
