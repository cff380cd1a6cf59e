"""The error for a DEST that is named like a file, because fetchmill writes folders of shards."""

import shlex
from typing import NamedTuple

from fetchmill.cli.streams import escape
from fetchmill.errors import UsageError


class _FileKind(NamedTuple):
    """The output that a file extension suggests.

    Args:
        format: the format of the shards.
        reading: how to read all shards as one, where {} is the folder.
        joining: a command that joins the shards into one file, where the first {} is the folder and the second one is
            the file. None if there is no simple command.
    """

    format: str
    reading: str
    joining: str | None = None


_PARQUET = _FileKind(
    "parquet",
    "read_parquet('{}*.parquet')",
    "duckdb -c \"COPY (FROM '{}*.parquet') TO '{}' (FORMAT parquet)\"",
)
_TAR = _FileKind("tar", "webdataset and tar read {}*.tar")
_JSONL = _FileKind("jsonl", "cat {}*.jsonl", "cat {}*.jsonl > {}")
_WARC = _FileKind("warc", "cat {}*.warc.gz", "cat {}*.warc.gz > {}")
_ZIP = _FileKind("files", "one file per object", "zip -qr {1} {0}")
# Longer extensions come first.
_KINDS = {
    **dict.fromkeys((".parquet", ".pq"), _PARQUET),
    **dict.fromkeys((".tar.gz", ".tar.zst", ".tgz", ".tar"), _TAR),
    **dict.fromkeys((".jsonl.gz", ".jsonl", ".ndjson"), _JSONL),
    **dict.fromkeys((".warc.gz", ".warc"), _WARC),
    ".zip": _ZIP,
}


def refuse_file(source: str, dest: str) -> None:
    """Refuse a DEST that is named like a file.

    Raises:
        UsageError: DEST ends with the extension of a format. The hint contains the command that was probably meant.
    """
    name = dest.rstrip("/")
    suffix = next((suffix for suffix in _KINDS if name.lower().endswith(suffix)), None)
    if suffix is None:
        return
    kind = _KINDS[suffix]
    folder = f"{escape(name[: -len(suffix)]) or 'out'}/"
    options = "" if kind.format == "files" else f" --format {kind.format}"
    joining = f"; then, for one file: {kind.joining.format(folder, escape(name))}" if kind.joining else ""
    raise UsageError(
        f"{escape(dest)}: fetchmill writes a folder of shards, not one file, so that each shard is complete even if "
        f"the job is killed; all shards can be read as one ({kind.reading.format(folder)})",
        hint=f"fetchmill get {shlex.quote(escape(source))} {shlex.quote(folder)}{options}{joining}",
    )
