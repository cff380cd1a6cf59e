"""The data source for Ray Data. The nodes import this module."""

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from ray.data import Datasource, ReadTask
from ray.data.block import BlockMetadata

from fetchmill._native import ListTargets
from fetchmill._options.get import GetOptions
from fetchmill._shared.feeding import NO_ARRAY
from fetchmill._shared.ranges import BLOCK, ListFile, Range, divide
from fetchmill._stream.stream import stream_batches
from fetchmill.errors import UsageError

# Size of a range in bytes: large enough for a second of work, and small enough that repeating it is cheap.
_RANGE_MIN, _RANGE_MAX = 1 << 20, 8 << 20
_ROWS_MIN, _ROWS_MAX = 20_000, 150_000
_BAD_ROWS_MAX = 1_000

SCHEMA = pa.schema(
    [
        ("url", pa.string()),
        ("status", pa.uint16()),
        ("error", pa.string()),
        ("content_type", pa.string()),
        ("body", pa.binary()),
        ("total_time", pa.float64()),
    ]
)


class ListSource(Datasource):  # type: ignore[misc] # Ray has no types here
    """The targets of a list.

    Args:
        files: the files of the list.
        list_options: options of `get` for reading the list.
        options: stream options for fetching, with one task's share of the rate.
    """

    def __init__(self, files: list[ListFile], list_options: Mapping[str, Any], options: Mapping[str, Any]) -> None:
        super().__init__()
        self._files = files
        self._list_options = dict(list_options)
        self._options = dict(options)

    def estimate_inmemory_data_size(self) -> int | None:
        """Return None, because the sizes of objects are unknown before they are fetched."""
        return None

    def get_read_tasks(
        self,
        parallelism: int,
        per_task_row_limit: int | None = None,
        data_context: Any = None,  # noqa: ANN401 - Ray Data's context is not needed
    ) -> list[ReadTask]:
        """Return one task per range."""
        del data_context
        return [
            ReadTask(
                _reader(file, range, self._list_options, self._options),
                BlockMetadata(num_rows=None, size_bytes=None, input_files=(file.path,), exec_stats=None),
                schema=SCHEMA,
                per_task_row_limit=per_task_row_limit,
            )
            for file in self._files
            for range in _ranges(file, parallelism)
        ]


def _ranges(file: ListFile, parallelism: int) -> Iterator[Range]:
    whole = Range(file=0, start=file.header, end=file.end)
    if whole.start >= whole.end:
        return
    least, most = (_RANGE_MIN, _RANGE_MAX) if file.rows is None else (_ROWS_MIN, _ROWS_MAX)
    with file.open() as opened:
        yield from divide(opened, file, whole, min(max(file.end // max(parallelism, 1), least), most))


def _reader(
    file: ListFile, range: Range, list_options: Mapping[str, Any], options: Mapping[str, Any]
) -> Callable[[], Iterator[pa.Table]]:
    return lambda: _fetch(file, range, list_options, options)


def _fetch(
    file: ListFile, range: Range, list_options: Mapping[str, Any], options: Mapping[str, Any]
) -> Iterator[pa.Table]:
    """Fetch the targets of a range and yield blocks."""
    bad: list[str] = []
    where = f"after {'byte' if file.rows is None else 'row'} {range.start} of {file.path}"
    with (
        _targets(file, range, list_options) as targets,
        stream_batches(_urls(targets, bad), certain=True, **options) as batches,
    ):
        for batch in batches:
            table = pa.table(pa.record_batch(batch))
            yield table.select(SCHEMA.names).cast(SCHEMA)
            if len(bad) >= _BAD_ROWS_MAX:
                yield _bad_rows(bad, where)
        if bad:
            yield _bad_rows(bad, where)
    with file.open():
        pass  # `open` checks that the list has not changed


@contextmanager
def _targets(file: ListFile, range: Range, list_options: Mapping[str, Any]) -> Iterator[ListTargets]:
    """Open a list reader for a range."""
    # The columns were checked when the list was divided.
    part_of = {"is_range": True, "first_row": range.start, "row_count": range.end - range.start}
    own = ({"is_range": True} if file.rows is None else part_of) | file.core_options
    with tempfile.NamedTemporaryFile(prefix="fetchmill-range-") as part:
        source = file.path
        if file.has_lines and file.rows is None:
            source = part.name
            _copy(file, range, Path(source), is_jsonl=list_options["list_format"] == "jsonl")
        checked = GetOptions(source=source, dest="unused", format="null", **list_options)
        yield ListTargets(json.dumps(json.loads(checked.to_json("list")) | own))


def _copy(file: ListFile, range: Range, part: Path, *, is_jsonl: bool) -> None:
    """Copy the header of a list, and the lines of a range."""
    with file.open() as opened, part.open("wb") as written:
        # In JSON lines, the first line of a range may start with `[`, but must not be read as the start of an array.
        written.write(NO_ARRAY if is_jsonl and range.start else opened.read(file.header))
        opened.seek(range.start)
        left = range.end - range.start
        while left:
            block = opened.read(min(left, BLOCK))
            if not block:
                raise UsageError(f"{file.path}: shorter than when the list was divided; restore the original file")
            written.write(block)
            left -= len(block)


def _urls(targets: ListTargets, bad: list[str]) -> Iterator[str]:
    while (page := targets.next_page()) is not None:
        for url, name in page[0]:
            if url is None:
                bad.append(name)
            else:
                yield url


def _bad_rows(lines: list[str], where: str) -> pa.Table:
    """Return rows for lines without a URL, and clear `lines`. Lines are numbered from the start of their range."""
    columns: dict[str, list[Any]] = {name: [None] * len(lines) for name in SCHEMA.names}
    columns |= {"url": [f"{line} {where}" for line in lines], "error": ["url"] * len(lines)}
    lines.clear()
    return pa.table(columns, schema=SCHEMA)
