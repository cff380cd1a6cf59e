"""Lists of URLs in every form, created with independent code."""

import bz2
import csv
import gzip
import io
import json
import lzma
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

Row = Mapping[str, str]

FORMATS = ("txt", "csv", "tsv", "jsonl", "parquet")
COMPRESSIONS = ("", ".gz", ".zst", ".xz", ".bz2")


def encode(format: str, rows: Sequence[Row]) -> bytes:
    """Encodes the rows in a format; txt has only their column `url`."""
    if format == "txt":
        return "".join(f"{row['url']}\n" for row in rows).encode()
    if format == "jsonl":
        return "".join(json.dumps(row) + "\n" for row in rows).encode()
    if format == "parquet":
        out = io.BytesIO()
        pq.write_table(pa.Table.from_pylist([dict(row) for row in rows]), out, row_group_size=1000)
        return out.getvalue()
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(rows[0]), delimiter="\t" if format == "tsv" else ",")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def compress(suffix: str, data: bytes) -> bytes:
    """Compresses according to the extension of a file's name."""
    if suffix == ".gz":
        return gzip.compress(data, mtime=0)
    if suffix in (".xz", ".bz2"):
        return lzma.compress(data) if suffix == ".xz" else bz2.compress(data)
    return bytes(pa.compress(data, codec="zstd", asbytes=True)) if suffix == ".zst" else data


def write_list(folder: Path, rows: Sequence[Row], format: str = "txt", suffix: str = "") -> Path:
    """Writes a list to a file."""
    path = folder / f"list.{format}{suffix}"
    path.write_bytes(compress(suffix, encode(format, rows)))
    return path
