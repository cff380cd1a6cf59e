"""Lists for checks, and the rows of checks, read by independent code."""

import csv
import gzip
import io
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

Row = dict[str, Any]


def write_urls(folder: Path, urls: list[str]) -> str:
    """Writes a list by its name."""
    (folder / "urls.txt").write_text("".join(f"{url}\n" for url in urls))
    return "urls.txt"


def read_rows(path: Path) -> list[Row]:
    """Returns the rows of a file of results; in CSV, all values are strings, and None is the empty one."""
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    if ".parquet" in path.suffixes:
        table: list[Row] = pq.read_table(path).to_pylist()
        return table
    if ".csv" in path.suffixes:
        return list(csv.DictReader(io.StringIO(data.decode(), newline="")))
    return [json.loads(line) for line in data.decode().splitlines()]


def count_urls(rows: list[Row]) -> Counter[str]:
    """Counts the rows of each URL."""
    return Counter(row["url"] for row in rows)
