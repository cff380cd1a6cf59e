"""The objects of a shared job, read in place: those of its final ranges, one after the other."""

import os
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

from fetchmill._destination.objects import Object, Objects
from fetchmill._shared.folders import final_folders
from fetchmill._shared.job_directory import JobDirectory
from fetchmill.errors import UsageError

T = TypeVar("T")
# Destinations that are open at once: each has a few descriptors.
_OPEN_MAX = 64


class SharedObjects(Objects):
    """The objects of a shared job.

    Ranges that become final later are not seen. A name that two lines of the list give may come twice: the first one
    counts. To find one name, each range is asked: one in a thousand takes some milliseconds.
    """

    def __init__(self, dest: str | os.PathLike[str]) -> None:
        self._dest = os.fspath(dest)
        self._folders = final_folders(dest)
        self._opened: dict[str, Objects] = {}
        self._is_closed = False

    @property
    def format(self) -> str:
        """How the objects are stored."""
        directory = JobDirectory(Path(os.path.abspath(self._dest)))  # noqa: PTH100 - a link stays one
        return str(directory.job().options.get("format", "files"))

    def _all(self) -> Iterator[Objects]:
        """The destinations, each opened when it is needed first; at most as many stay open as descriptors allow."""
        if self._is_closed:
            raise UsageError("these objects are closed: open them again")
        for folder in self._folders:
            if folder not in self._opened:
                if len(self._opened) >= _OPEN_MAX:
                    self._opened.pop(next(iter(self._opened))).close()
                self._opened[folder] = Objects(folder)
            yield self._opened[folder]

    def __contains__(self, name: object) -> bool:
        return any(name in objects for objects in self._all())

    def __len__(self) -> int:
        return sum(map(len, self._all()))

    def length(self, name: str) -> int:
        """How many bytes an object has."""
        return self._first(lambda objects: objects.length(name), name)

    def records(self) -> Iterator[Object]:
        """All objects with what is known of them, in the order of storage."""
        return chain.from_iterable(objects.records() for objects in self._all())

    def close(self) -> None:
        """Closes the files. A second call does nothing."""
        self._is_closed = True
        for objects in self._opened.values():
            objects.close()
        self._opened.clear()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """A stream of Arrow batches; needs pyarrow.

        Raises:
            UsageError: no range is final yet.
        """
        import pyarrow as pa

        readers = (pa.RecordBatchReader.from_stream(objects) for objects in self._all())
        first = next(readers, None)
        if first is None:
            raise UsageError(f"{self._dest} has no final range yet: there is nothing to read")
        batches = chain(first, (batch for reader in readers for batch in reader))
        return pa.RecordBatchReader.from_batches(first.schema, batches).__arrow_c_stream__(requested_schema)

    def _find(self, name: str) -> tuple[Any, ...]:
        return self._first(lambda objects: objects._find(name), name)  # noqa: SLF001 - of its own class

    def _first(self, find: Callable[[Objects], T], name: str) -> T:
        for objects in self._all():
            try:
                return find(objects)
            except KeyError:
                continue
        raise KeyError(name)

    def _rows(self) -> Iterator[tuple[Any, ...]]:
        return chain.from_iterable(objects._rows() for objects in self._all())  # noqa: SLF001 - of its own class

    def _list_names(self, pattern: str | None, *, with_lengths: bool) -> Iterator[tuple[str, int | None]]:
        return chain.from_iterable(
            objects._list_names(pattern, with_lengths=with_lengths)  # noqa: SLF001 - of its own class
            for objects in self._all()
        )
