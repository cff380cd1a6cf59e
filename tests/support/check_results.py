"""Lists for checks, and the rows that a check has written, read with other people's code."""

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
    """A list of them, by its name."""
    (folder / "urls.txt").write_text("".join(f"{url}\n" for url in urls))
    return "urls.txt"


def read_rows(path: Path) -> list[Row]:
    """The rows of a file of results; of CSV all values are text, and none is the empty one."""
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    if ".parquet" in path.suffixes:
        table: list[Row] = pq.read_table(path).to_pylist()
        return table
    if ".csv" in path.suffixes:
        return list(csv.DictReader(io.StringIO(data.decode(), newline="")))
    return [json.loads(line) for line in data.decode().splitlines()]


def count_urls(rows: list[Row]) -> Counter[str]:
    """How often each URL has a row."""
    return Counter(row["url"] for row in rows)
