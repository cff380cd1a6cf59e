"""Reads a program's Arrow, Polars and pandas tables as sources. None of these libraries needs to be installed."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from itertools import islice
from typing import Any, Protocol, TypeGuard

from fetchmill.errors import UsageError

# Number of rows of an Arrow table that are converted to Python objects at a time.
_ROWS_MAX = 4096
# Maximum number of column names shown when one is missing.
_SHOWN_NAMES = 20


class ArrowTable(Protocol):
    """A table with Arrow's C stream interface, for example from pyarrow, Polars, pandas 2.2 or DuckDB."""

    def __arrow_c_stream__(self, requested_schema: object = None, /) -> object:
        """Return a capsule with a stream of record batches."""


def take_table(source: Any, options: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:  # noqa: ANN401 - any source
    """Return a table's items, and the options without `column` and `key_column`. Return other sources unchanged.

    Raises:
        UsageError: the table lacks one of these columns.
    """
    given = dict(options)
    if not _is_table(source):
        return source, given
    url, key = given.pop("column", None) or "url", given.pop("key_column", None)
    if key is None:
        return (_text(row[0]) for row in _rows(source, [url])), given
    return ((_text(row[0]), _text(row[1]) or "") for row in _rows(source, [url, key])), given


def _is_table(source: Any) -> TypeGuard[ArrowTable]:  # noqa: ANN401
    """Return whether a source is a table. A series has no columns, so it counts as an iterable of values."""
    has_columns = any(hasattr(source, name) for name in ("columns", "column_names", "schema"))
    return has_columns and (hasattr(source, "__arrow_c_stream__") or hasattr(source, "itertuples"))


def _rows(source: Any, columns: list[str]) -> Iterator[tuple[Any, ...]]:  # noqa: ANN401
    """Return the values of some columns, row by row."""
    if hasattr(source, "get_column"):
        _check(columns, source.columns)
        return zip(*(source.get_column(name) for name in columns), strict=True)
    if hasattr(source, "itertuples"):
        _check(columns, source.columns)
        return zip(*(source[name] for name in columns), strict=True)
    try:
        reader: Any = import_module("pyarrow").RecordBatchReader.from_stream(source)
    except ImportError:
        raise UsageError(
            f"{type(source).__name__}: tables that are not from Polars or pandas need pyarrow; install it, or "
            "pass an iterable of URLs"
        ) from None
    _check(columns, reader.schema.names)
    return _rows_of_batches(reader, columns)


def _rows_of_batches(reader: Any, columns: list[str]) -> Iterator[tuple[Any, ...]]:  # noqa: ANN401
    for batch in reader:
        for start in range(0, batch.num_rows, _ROWS_MAX):
            part = batch.slice(start, _ROWS_MAX)
            yield from zip(*(part.column(name).to_pylist() for name in columns), strict=True)


def _check(columns: list[str], names: Any) -> None:  # noqa: ANN401 - a list, or an index of pandas
    for column in columns:
        if column not in names:
            shown = ", ".join(str(name) for name in islice(names, _SHOWN_NAMES))
            raise UsageError(f"the table has no column {column} (columns: {shown}); set column= to the column of URLs")


def _text(value: Any) -> str | None:  # noqa: ANN401
    """Return a value as text; None for a missing value, such as pandas' NaN."""
    return str(value) if isinstance(value, (str, int)) else None
