"""Dataframes of a program as sources, and missing values."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import fetchmill
from fetchmill.testing import Server

Serve = Callable[..., Server]


def urls_of(source: Server, count: int) -> list[str]:
    """Returns the URLs of the first objects of a synthetic server."""
    return [f"{source.url}/get/file-{index:012}" for index in range(count)]


def test_dataframes_are_sources(server: Serve, tmp_path: Path) -> None:
    """Arrow, Polars and pandas tables are accepted; a missing value is one failed target."""
    urls = urls_of(server(synthetic=20), 20)
    ids = [str(number) for number in range(21)]
    columns: dict[str, list[Any]] = {"id": ids, "link": [*urls, None]}
    table = pa.table(columns)
    reader = pa.RecordBatchReader.from_batches(table.schema, table.to_batches(7))
    for number, source in enumerate((table, reader, pl.DataFrame(columns), pd.DataFrame(columns))):
        report = fetchmill.get(source, tmp_path / str(number), column="link", key_column="id", format="jsonl")
        assert (report.fetched, report.failed) == (20, 1), source
        with fetchmill.open(tmp_path / str(number)) as objects:
            assert set(objects) == set(ids[:20])
    with pytest.raises(fetchmill.UsageError, match=r"no column nosuch \(columns: id, link\)"):
        fetchmill.get(table, tmp_path / "refused", column="nosuch")
    assert fetchmill.sync(table, tmp_path / "synced", column="link", format="files").fetched == 20
    assert fetchmill.check(table, column="link").rows == 21


def test_none_in_iterable_is_one_failed_target(server: Serve, tmp_path: Path) -> None:
    """None, as an item or in a pair, is one failed target."""
    urls = urls_of(server(synthetic=3), 3)

    def items() -> Iterator[Any]:
        yield from (urls[0], None, (urls[1], "b"), (None, "c"), urls[2])

    report = fetchmill.get(items(), tmp_path / "out", format="jsonl")

    assert (report.fetched, report.failed) == (3, 2)
    failures = fetchmill.failures(tmp_path / "out")  # in the order in which workers recorded them
    assert sorted(failure.name for failure in failures) == ["item 2", "item 4"]
