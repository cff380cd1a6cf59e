"""What a job has stored, read in place: a mapping from names to bytes, whatever the format.

objects = fetchmill.open("out/")
objects["a/b.txt"]                # bytes; one name among millions is found with a few reads
objects.record("a/b.txt").status  # what else is known
pyarrow.table(objects)            # or DuckDB, or polars.DataFrame(objects.arrow()): a stream of Arrow batches
"""

import fnmatch
import os
import re
from collections.abc import ItemsView, Iterator, Mapping, ValuesView
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Self

from fetchmill._job.column_values import ColumnValue
from fetchmill._native import Objects as NativeObjects
from fetchmill._shared import is_shared_job

# Names that are taken from the manifests at once.
_PAGE_NAMES = 5000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_WILDCARDS = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class Object:
    """An object, with what its format has kept of it; `None` is what is not known.

    Args:
        name: its name; bytes that are not UTF-8 are surrogates, as in names of files (`os.fsencode` gives them back).
        body: its bytes.
        status: the reply's status.
        content_type: the field `Content-Type`.
        etag: the field `ETag`.
        last_modified: the field `Last-Modified`.
        fetched_at: when the reply was complete.
        sequence: which target of the job it was.
        crc32c: CRC-32C of the bytes; they were checked against it.
        url: the URL it was asked for or, after redirects, the one that answered, when that is not its name.
        columns: the columns of its list that `--keep-columns` named, each as what `--column-types` or a Parquet list
            says that it is.
        content_encoding: the field `Content-Encoding`: the bytes are in this form, although nobody asked for one. Not
            known of `files`, nor of objects that fetchmill 0.1.0 stored in Parquet, JSON lines or tar.
    """

    name: str
    body: bytes
    status: int | None
    content_type: str | None
    etag: str | None
    last_modified: datetime | None
    fetched_at: datetime | None
    sequence: int | None
    crc32c: int
    url: str | None
    columns: dict[str, ColumnValue] = field(hash=False)
    content_encoding: str | None = None


class Objects(Mapping[str, bytes]):
    """The objects of a destination, each name once: the one with the lowest sequence number where a name came twice.

    Nothing is unpacked and nothing is kept: an object is read when it is asked for. All ways through the objects have
    the order of storage; for `files`, that of the paths. What is sealed later than `fetchmill.open` is not seen.

    Example:
        >>> import fetchmill
        >>> with fetchmill.open("out/") as objects:
        ...     len(objects)
        ...     objects["file-000000000001"]
        ...     for name, body in objects.items(): ...

    Raises:
        UsageError: there is no job, its format keeps no objects, or this was closed.
        JournalError: the journal, a manifest, a shard or an object in it is damaged.
        StorageError: it cannot be read.
    """

    def __init__(self, dest: str | os.PathLike[str], *, state: str | os.PathLike[str] | None = None) -> None:
        self._native = NativeObjects(os.fspath(dest), None if state is None else os.fspath(state))
        self._dest = os.fspath(dest)

    @property
    def format(self) -> str:
        """How the objects are stored: `files`, `tar`, `parquet`, `warc` or `jsonl`."""
        return self._native.format()

    def __getitem__(self, name: str) -> bytes:
        body: bytes = self._find(name)[1]
        return body

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._native.length(_encode(name)) is not None

    def __iter__(self) -> Iterator[str]:
        return self.names()

    def __len__(self) -> int:
        return self._native.count()

    def record(self, name: str) -> Object:
        """An object with what is known of it.

        Args:
            name: its name.

        Returns:
            Its bytes, and what its format keeps besides.

        Raises:
            KeyError: there is no such name.

        Example:
            >>> objects.record("file-000000000001").fetched_at
            datetime.datetime(2026, 11, 20, 21, 8, 0, 123456, tzinfo=datetime.timezone.utc)
        """
        return _object(self._find(name))

    def length(self, name: str) -> int:
        """How many bytes an object has, from the manifests alone.

        Args:
            name: its name.

        Returns:
            Its length.

        Raises:
            KeyError: there is no such name.

        Example:
            >>> objects.length("file-000000000001")
            100
        """
        length = self._native.length(_encode(name))
        if length is None:
            raise KeyError(name)
        return length

    def names(self, pattern: str | None = None) -> Iterator[str]:
        """The names, from the manifests alone.

        Args:
            pattern: as a shell has them: `*` and `?` stand for any characters, `/` among them, `[abc]` for one of
                these. All names if not given.

        Yields:
            Those that match, each once.

        Example:
            >>> list(objects.names("2026/*.json"))
            ['2026/a.json', '2026/b/c.json']
        """
        for name, _length in self._list_names(pattern, with_lengths=False):
            yield name

    def lengths(self, pattern: str | None = None) -> Iterator[tuple[str, int]]:
        """The same, and how many bytes each object has.

        Args:
            pattern: as in `names`.

        Yields:
            Name and length.
        """
        for name, length in self._list_names(pattern, with_lengths=True):
            if length is not None:  # a file may have been removed just now
                yield name, length

    def items(self) -> ItemsView[str, bytes]:
        """Names and bytes, in the order of storage: shards are read from their start to their end."""
        return _ItemsView(self)

    def values(self) -> ValuesView[bytes]:
        """The bytes, likewise."""
        return _ValuesView(self)

    def records(self) -> Iterator[Object]:
        """All objects with what is known of them, in the order of storage."""
        return map(_object, self._rows())

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """A stream of Arrow batches, for pyarrow, DuckDB and others.

        Their columns are those of the Parquet shards (docs/reference/formats.md), whatever the format; an unknown
        sequence number is -1.
        """
        del requested_schema  # ours is the best that there is
        return self._native.arrow_stream()

    def arrow(self) -> "ArrowStream":
        """The same stream alone, for libraries that take every mapping for a table's columns, such as Polars.

        Returns:
            An object that can be read as a stream of Arrow batches, any number of times.

        Example:
            >>> polars.DataFrame(objects.arrow())
        """
        return ArrowStream(self)

    def close(self) -> None:
        """Closes the files. A second call does nothing; what is being iterated over keeps them open."""
        self._native.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<fetchmill.Objects of {self._dest!r}>"

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def _find(self, name: str) -> tuple[Any, ...]:
        found = self._native.get(_encode(name))
        if found is None:
            raise KeyError(name)
        return found

    def _rows(self) -> Iterator[tuple[Any, ...]]:
        batches = self._native.batches()
        while batch := batches.next_batch():
            yield from batch

    def _list_names(self, pattern: str | None, *, with_lengths: bool) -> Iterator[tuple[str, int | None]]:
        if pattern is not None and _WILDCARDS.isdisjoint(pattern):
            length = self._native.length(_encode(pattern))
            if length is not None:
                yield pattern, length
            return
        matches = None if pattern is None else re.compile(fnmatch.translate(pattern)).match
        position: str | None = None
        while True:
            names, position = self._native.names(position, _PAGE_NAMES, with_lengths)
            pairs = names if with_lengths else zip(names, [None] * len(names), strict=True)
            yield from (pair for pair in pairs if matches is None or matches(pair[0]))
            if position is None:
                return


class ArrowStream:
    """The objects as a stream of Arrow batches, and nothing else."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """As that of `Objects`."""
        return self._objects.__arrow_c_stream__(requested_schema)


class _ItemsView(ItemsView[str, bytes]):
    """Reads in the order of storage, where a mapping would look up one name after the other."""

    def __init__(self, objects: Objects) -> None:
        super().__init__(objects)
        self._objects = objects

    def __iter__(self) -> Iterator[tuple[str, bytes]]:
        for row in self._objects._rows():  # noqa: SLF001 - a part of it
            yield row[0], row[1]


class _ValuesView(ValuesView[bytes]):
    """The same."""

    def __init__(self, objects: Objects) -> None:
        super().__init__(objects)
        self._objects = objects

    def __iter__(self) -> Iterator[bytes]:
        for row in self._objects._rows():  # noqa: SLF001 - a part of it
            yield row[1]


def open(dest: str | os.PathLike[str], *, state: str | os.PathLike[str] | None = None) -> Objects:
    """Opens what a job has stored, to read it in place; also while the job runs: what is sealed by now.

    Args:
        dest: the destination.
        state: folder of the journal, when the job was given one.

    Returns:
        A mapping from names to bytes, which is its own context manager.

    Raises:
        UsageError: there is no job, or its format keeps no objects.
        JournalError: the journal cannot be read.

    Example:
        >>> import fetchmill
        >>> fetchmill.open("out/")["file-000000000001"]
        b'...'
    """
    if state is None and is_shared_job(os.fspath(dest)):
        from fetchmill._destination.shared_objects import SharedObjects

        return SharedObjects(dest)
    return Objects(dest, state=state)


def _encode(name: str) -> bytes:
    try:
        return name.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return name.encode("utf-8", "surrogatepass")  # no name from outside has these bytes as text


def _object(row: tuple[Any, ...]) -> Object:
    name, body, status, content_type, etag, last_modified, fetched_at, sequence, crc32c, url, columns, encoding = row
    return Object(
        name,
        body,
        status,
        content_type,
        etag,
        None if last_modified is None else _time(seconds=last_modified),
        None if fetched_at is None else _time(microseconds=fetched_at),
        sequence,
        crc32c,
        url,
        columns,
        encoding,
    )


def _time(seconds: int = 0, microseconds: int = 0) -> datetime | None:
    """A time; None for one behind the year 9999, that Python cannot say."""
    try:
        return _EPOCH + timedelta(seconds=seconds, microseconds=microseconds)
    except OverflowError:
        return None
