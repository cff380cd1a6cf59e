"""Reads the objects of a shared job's final ranges in place, one range after another."""

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import chain
from typing import Any

from fetchmill._destination.objects import Object, Objects
from fetchmill._shared.folders import AttemptFolders, final_attempts
from fetchmill._shared.job_directory import JobDirectory
from fetchmill.errors import UsageError

# Maximum number of open destinations. Each one needs a few file descriptors.
_OPEN_MAX = 64


class SharedObjects(Objects):
    """The objects of a shared job.

    Ranges that become final later are not visible. If two lines of the list have the same name, iteration may yield the
    name twice, and a lookup returns the first object. A lookup searches every range, which takes a few milliseconds for
    a thousand ranges.

    If the job is in a bucket, its manifests are copied to this machine. The shards of a range are copied when one of
    its objects is read.

    Args:
        dest: the job directory.
        reach: connection options for its bucket; see `open_store`.
    """

    def __init__(self, dest: str | os.PathLike[str], reach: Mapping[str, Any] | None = None) -> None:
        self._dest = os.fspath(dest)
        self._directory = JobDirectory.at(dest, reach)
        self._attempts = final_attempts(self._directory)
        self._folders = AttemptFolders(self._directory)
        # Open destinations by folder.
        self._opened: dict[str, Objects] = {}
        self._is_closed = False

    @property
    def format(self) -> str:
        """The format of the objects."""
        return str(self._directory.job().options.get("format", "files"))

    def _facts(self) -> Iterator[Objects]:
        """Iterate over the destinations to read their manifests."""
        self._must_be_open()
        return (self._open(self._folders.facts(attempt)) for attempt in self._attempts)

    def _all(self) -> Iterator[Objects]:
        """Iterate over the destinations to read their objects."""
        self._must_be_open()
        return (self._open(self._folders.whole(attempt)) for attempt in self._attempts)

    def _must_be_open(self) -> None:
        if self._is_closed:
            raise UsageError("this destination is closed; open it again")

    def _open(self, folder: str) -> Objects:
        """Open a destination on first use. At most `_OPEN_MAX` stay open."""
        if folder not in self._opened:
            if len(self._opened) >= _OPEN_MAX:
                self._opened.pop(next(iter(self._opened))).close()
            self._opened[folder] = Objects(folder)
        return self._opened[folder]

    def __contains__(self, name: object) -> bool:
        return any(name in objects for objects in self._facts())

    def __len__(self) -> int:
        return sum(map(len, self._facts()))

    def length(self, name: str) -> int:
        """Return the size of an object in bytes."""
        for objects in self._facts():
            with suppress(KeyError):
                return objects.length(name)
        raise KeyError(name)

    def records(self) -> Iterator[Object]:
        """Iterate over all objects with their metadata, in the order in which they are stored."""
        return chain.from_iterable(objects.records() for objects in self._all())

    def close(self) -> None:
        """Close the files. A second call does nothing."""
        self._is_closed = True
        for objects in self._opened.values():
            objects.close()
        self._opened.clear()
        self._folders.close()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return a stream of Arrow batches. This requires pyarrow.

        Raises:
            UsageError: no range is final yet.
        """
        import pyarrow as pa

        readers = (pa.RecordBatchReader.from_stream(objects) for objects in self._all())
        first = next(readers, None)
        if first is None:
            raise UsageError(f"{self._dest} has no final range yet, so nothing can be read; try again later")
        batches = chain(first, (batch for reader in readers for batch in reader))
        return pa.RecordBatchReader.from_batches(first.schema, batches).__arrow_c_stream__(requested_schema)

    def _find(self, name: str) -> tuple[Any, ...]:
        for attempt in self._attempts:
            self._must_be_open()
            if name in self._open(self._folders.facts(attempt)):
                return self._open(self._folders.whole(attempt))._find(name)  # noqa: SLF001 - same class
        raise KeyError(name)

    def _rows(self) -> Iterator[tuple[Any, ...]]:
        return chain.from_iterable(objects._rows() for objects in self._all())  # noqa: SLF001 - same class

    def _list_names(self, pattern: str | None, *, with_lengths: bool) -> Iterator[tuple[str, int | None]]:
        return chain.from_iterable(
            objects._list_names(pattern, with_lengths=with_lengths)  # noqa: SLF001 - same class
            for objects in self._facts()
        )
