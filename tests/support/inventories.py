"""Bucket inventories as S3 writes them, created with independent code."""

import csv
import gzip
import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

import pyarrow as pa
import pyarrow.parquet as pq

Row = Mapping[str, Any]

FORMATS = ("CSV", "Parquet")
# Names of the columns in CSV and in Parquet, and their Parquet types.
COLUMNS: dict[str, tuple[str, str, pa.DataType]] = {
    "Bucket": ("bucket", "required binary bucket (UTF8)", pa.string()),
    "Key": ("key", "required binary key (UTF8)", pa.string()),
    "VersionId": ("version_id", "optional binary version_id (UTF8)", pa.string()),
    "IsLatest": ("is_latest", "optional boolean is_latest", pa.bool_()),
    "IsDeleteMarker": ("is_delete_marker", "optional boolean is_delete_marker", pa.bool_()),
    "Size": ("size", "optional int64 size", pa.int64()),
    "LastModifiedDate": (
        "last_modified_date",
        "optional int64 last_modified_date (TIMESTAMP_MILLIS)",
        pa.timestamp("ms", "UTC"),
    ),
    "ETag": ("e_tag", "optional binary e_tag (UTF8)", pa.string()),
    "StorageClass": ("storage_class", "optional binary storage_class (UTF8)", pa.string()),
}


def encode(format: str, columns: Sequence[str], rows: Sequence[Row]) -> bytes:
    """Encodes a data file. Rows have values by the CSV columns' names; a missing value is empty there, or null."""
    if format == "Parquet":
        schema = pa.schema([(COLUMNS[column][0], COLUMNS[column][2]) for column in columns])
        named = [{COLUMNS[column][0]: row.get(column) for column in columns} for row in rows]
        out = io.BytesIO()
        pq.write_table(pa.Table.from_pylist(named, schema), out, row_group_size=1000)
        return out.getvalue()
    text = io.StringIO(newline="")
    writer = csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerows([_in_csv(column, row.get(column)) for column in columns] for row in rows)
    return gzip.compress(text.getvalue().encode(), compresslevel=1, mtime=0)


def _in_csv(column: str, value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if isinstance(value, bool):
        return str(value).lower()
    return quote_plus(str(value), safe="/") if column == "Key" else str("" if value is None else value)


class Inventory:
    """An inventory in a folder, as in the bucket to which it was written.

    Args:
        folder: represents that bucket.
        format: format of the data files.
        files: the rows of each data file, or its bytes.
        columns: their columns, with the names of CSV.
        bucket: the listed bucket.
    """

    def __init__(
        self,
        folder: Path,
        format: str,
        files: Sequence[Sequence[Row] | bytes],
        columns: Sequence[str] = tuple(COLUMNS),
        bucket: str = "bucket",
    ) -> None:
        self.root = folder / "reports" / bucket / "daily"
        self.manifest = self.root / "2026-01-01T00-00Z" / "manifest.json"
        self.manifest.parent.mkdir(parents=True)
        (self.root / "data").mkdir()
        self.data: list[Path] = []
        suffix = "csv.gz" if format == "CSV" else "parquet"
        for number, rows in enumerate(files):
            self.data.append(self.root / "data" / f"part-{number:04}.{suffix}")
            self.data[-1].write_bytes(rows if isinstance(rows, bytes) else encode(format, columns, rows))
        fields = "; ".join(COLUMNS[column][1] for column in columns)
        self.document: dict[str, Any] = {
            "sourceBucket": bucket,
            "destinationBucket": "arn:aws:s3:::reports",
            "version": "2016-11-30",
            "creationTimestamp": "1767225600000",
            "fileFormat": format,
            "fileSchema": ", ".join(columns) if format == "CSV" else f"message s3.inventory {{ {fields}; }}",
            "files": [
                {
                    "key": path.relative_to(folder).as_posix(),
                    "size": path.stat().st_size,
                    "MD5checksum": hashlib.md5(path.read_bytes()).hexdigest(),  # noqa: S324 - that is what it has
                }
                for path in self.data
            ],
        }
        self.write()

    def write(self) -> None:
        """Writes the manifest.json."""
        self.manifest.write_text(json.dumps(self.document))
