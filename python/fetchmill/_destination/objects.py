"""`open`: reads a job's stored objects in place, in any format, as a mapping from names to bytes.

objects = fetchmill.open("out/")
objects["a/b.txt"]                # bytes; a few reads find one name among millions
objects.record("a/b.txt").status  # metadata
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
from fetchmill._shared import is_shared_job, reach_named

# Number of names read from the manifests at a time.
_PAGE_NAMES = 5000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_WILDCARDS = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class Object:
    """An object with the metadata that its format stores. Unknown values are `None`.

    Args:
        name: name of the object. Bytes that are not UTF-8 appear as surrogates, as in file names (`os.fsencode`
            restores them).
        body: the bytes of the object.
        status: the HTTP status of the reply.
        content_type: the header field `Content-Type`.
        etag: the header field `ETag`.
        last_modified: the header field `Last-Modified`.
        fetched_at: time when the reply was complete.
        sequence: sequence number of the target in the job.
        crc32c: CRC-32C of the bytes, against which they have been verified.
        url: the requested URL, or the final URL after redirects; None if it equals the name.
        columns: the list columns kept by `--keep-columns`. `--column-types` or a Parquet list determines their types.
        content_encoding: the header field `Content-Encoding`, if the server encoded the bytes without being asked.
            Unknown for `files`, and for objects that fetchmill 0.1.0 stored in Parquet, JSON lines or tar.
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
    """The objects of a destination, as a mapping from names to bytes.

    Each name occurs once. If several objects have the same name, the mapping contains the one with the lowest sequence
    number. Nothing is unpacked or cached: each access reads the object. Iteration follows the storage order, which for
    `files` is the order of paths. Data that is sealed after `fetchmill.open` is not visible.

    Example:
        >>> import fetchmill
        >>> with fetchmill.open("out/") as objects:
        ...     len(objects)
        ...     objects["file-000000000001"]
        ...     for name, body in objects.items(): ...

    Raises:
        UsageError: there is no job, its format stores no objects, or the mapping was closed.
        JournalError: the journal, a manifest, a shard or an object is damaged.
        StorageError: the destination cannot be read.
    """

    def __init__(self, dest: str | os.PathLike[str], *, state: str | os.PathLike[str] | None = None) -> None:
        self._native = NativeObjects(os.fspath(dest), None if state is None else os.fspath(state))
        self._dest = os.fspath(dest)

    @property
    def format(self) -> str:
        """The format of the objects, which is `files`, `tar`, `parquet`, `warc` or `jsonl`."""
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
        """Return an object with its metadata.

        Args:
            name: name of the object.

        Returns:
            The bytes and the metadata that the format stores.

        Raises:
            KeyError: there is no such name.

        Example:
            >>> objects.record("file-000000000001").fetched_at
            datetime.datetime(2026, 11, 20, 21, 8, 0, 123456, tzinfo=datetime.timezone.utc)
        """
        return _object(self._find(name))

    def length(self, name: str) -> int:
        """Return the size of an object in bytes, reading only the manifests.

        Args:
            name: name of the object.

        Returns:
            The size in bytes.

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
        """Iterate over the names, reading only the manifests.

        Args:
            pattern: a shell pattern: `*` matches any characters and `?` matches one, both including `/`; `[abc]`
                matches one of these characters. If None, all names match.

        Yields:
            The matching names, each once.

        Example:
            >>> list(objects.names("2026/*.json"))
            ['2026/a.json', '2026/b/c.json']
        """
        for name, _length in self._list_names(pattern, with_lengths=False):
            yield name

    def lengths(self, pattern: str | None = None) -> Iterator[tuple[str, int]]:
        """Iterate over names and sizes, reading only the manifests.

        Args:
            pattern: as in `names`.

        Yields:
            The name and the size in bytes.
        """
        for name, length in self._list_names(pattern, with_lengths=True):
            if length is not None:  # a file may just have been removed
                yield name, length

    def items(self) -> ItemsView[str, bytes]:
        """Return names and bytes in the order in which they are stored. Shards are read sequentially."""
        return _ItemsView(self)

    def values(self) -> ValuesView[bytes]:
        """Return the bytes of all objects in the order in which they are stored."""
        return _ValuesView(self)

    def records(self) -> Iterator[Object]:
        """Iterate over all objects with their metadata, in the order in which they are stored."""
        return map(_object, self._rows())

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return a stream of Arrow batches, for pyarrow, DuckDB and others.

        For every format, the columns are those of Parquet shards (docs/reference/formats.md). An unknown sequence
        number is -1.
        """
        del requested_schema  # consumers always get our own schema
        return self._native.arrow_stream()

    def arrow(self) -> "ArrowStream":
        """Return only the Arrow stream, for libraries such as Polars, which would mistake a mapping for table columns.

        Returns:
            An object that can be read repeatedly as a stream of Arrow batches.

        Example:
            >>> polars.DataFrame(objects.arrow())
        """
        return ArrowStream(self)

    def close(self) -> None:
        """Close the files. Running iterations keep them open. A second call does nothing."""
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
    """The objects as a stream of Arrow batches, without the mapping interface."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the stream of `Objects`."""
        return self._objects.__arrow_c_stream__(requested_schema)


class _ItemsView(ItemsView[str, bytes]):
    """Items in storage order. `Mapping`'s own view would look up each name separately."""

    def __init__(self, objects: Objects) -> None:
        super().__init__(objects)
        self._objects = objects

    def __iter__(self) -> Iterator[tuple[str, bytes]]:
        for row in self._objects._rows():  # noqa: SLF001 - same module
            yield row[0], row[1]


class _ValuesView(ValuesView[bytes]):
    """Values in storage order."""

    def __init__(self, objects: Objects) -> None:
        super().__init__(objects)
        self._objects = objects

    def __iter__(self) -> Iterator[bytes]:
        for row in self._objects._rows():  # noqa: SLF001 - same module
            yield row[1]


def open(
    dest: str | os.PathLike[str],
    *,
    state: str | os.PathLike[str] | None = None,
    endpoint_url: str | None = None,
    region: str | None = None,
    profile: str | None = None,
) -> Objects:
    """Open a job's stored objects for reading in place.

    The job may be running; only sealed data is visible.

    Args:
        dest: the destination.
        state: journal folder, if the job was started with `state`.
        endpoint_url: URL of the store, if `dest` is a shared job in a bucket. None uses the environment's value.
        region: the region of the bucket.
        profile: the profile that provides the bucket's credentials.

    Returns:
        A mapping from names to bytes, which is also a context manager.

    Raises:
        UsageError: there is no job, or its format stores no objects.
        JournalError: the journal cannot be read.

    Example:
        >>> import fetchmill
        >>> fetchmill.open("out/")["file-000000000001"]
        b'...'
    """
    return open_reached(dest, state, reach_named(endpoint_url, region, profile))


def open_reached(
    dest: str | os.PathLike[str], state: str | os.PathLike[str] | None, reach: Mapping[str, Any]
) -> Objects:
    """Open a job's stored objects; see `open`.

    Args:
        dest: the destination.
        state: journal folder, if the job was started with `state`.
        reach: connection options for the bucket of a shared job.
    """
    if state is None and is_shared_job(os.fspath(dest), reach):
        from fetchmill._destination.shared_objects import SharedObjects

        return SharedObjects(dest, reach)
    return Objects(dest, state=state)


def _encode(name: str) -> bytes:
    try:
        return name.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return name.encode("utf-8", "surrogatepass")  # never needed for names that come from outside


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
    """Convert a time. Return None for times after the year 9999, which Python cannot represent."""
    try:
        return _EPOCH + timedelta(seconds=seconds, microseconds=microseconds)
    except OverflowError:
        return None
