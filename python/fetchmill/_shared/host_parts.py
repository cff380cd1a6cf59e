"""Divides a list by host, and adds the parts to a job directory."""

import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from fetchmill._options.units import format_count_of
from fetchmill._quick_dataclass import dataclass
from fetchmill._shared.line_parts import LineParts
from fetchmill._shared.list_rows import NotByHostError
from fetchmill._shared.local_lists import FOLDER, in_job_directory
from fetchmill._shared.part_files import HOSTS_MAX
from fetchmill._shared.ranges import ListFile, Range
from fetchmill._shared.row_parts import RowParts
from fetchmill._shared.store import STORE_ERRORS, Store


@dataclass(frozen=True, kw_only=True)
class DividedList:
    """A list that is divided by host.

    Args:
        files: the non-empty parts, in the job directory.
        ranges: a range for each part.
        rows: number of rows.
        bytes: size of the rows in bytes.
        hosts: number of hosts, for messages.
    """

    files: tuple[ListFile, ...]
    ranges: tuple[Range, ...]
    rows: int
    bytes: int
    hosts: str


class HostParts:
    """See the module docstring.

    Args:
        store: the files of the job directory.
        list_format: format of the list.
        options: the options of the job.
    """

    def __init__(self, store: Store, list_format: str, options: Mapping[str, Any]) -> None:
        # Parts that this process has added to the job directory.
        self.added: list[str] = []
        self._store = store
        self._list_format = list_format
        self._options = options
        self._token = secrets.token_hex(8)

    def divide(self, files: Sequence[ListFile], folder: Path, count_of: Callable[[int, int], int]) -> DividedList:
        """Divide a list, and add its parts to the job directory.

        Args:
            files: the files of the list.
            folder: a local folder that belongs to this process.
            count_of: returns the number of parts for a given number of rows and hosts; 0 to leave the list undivided.

        Raises:
            NotByHostError: the list cannot be divided, or there are no parts.
            UsageError: the list has changed or cannot be read.
            OSError, StorageError: the parts cannot be written.
        """
        rows = self._collector(folder)
        rows.add(files)
        more = "more than " if rows.hosts >= HOSTS_MAX else ""
        hosts = f"{more}{format_count_of(rows.hosts, 'host')}"
        count = count_of(rows.rows, rows.hosts)
        if not count:
            raise NotByHostError(f"it has only {hosts} and {format_count_of(rows.rows, 'URL')}")
        added = tuple(self._add(file) for file in rows.parts(count, self._token))
        ranges = (Range(file=number, start=file.header, end=file.end) for number, file in enumerate(added))
        return DividedList(files=added, ranges=tuple(ranges), rows=rows.rows, bytes=rows.bytes, hosts=hosts)

    def remove(self) -> None:
        """Remove the parts that this process has added."""
        for name in self.added:
            with suppress(*STORE_ERRORS):
                self._store.remove(name)

    def _collector(self, folder: Path) -> LineParts | RowParts:
        if self._list_format == "parquet":
            return RowParts(folder, self._options)
        return LineParts(folder, self._list_format, self._options)

    def _add(self, file: ListFile) -> ListFile:
        """Move a part into the job directory."""
        path = Path(file.path)
        name = f"{FOLDER}/{path.name}"
        self.added.append(name)
        self._store.add_file(name, path)
        path.unlink()
        return in_job_directory(self._store, file, name)
