"""Divides the rows of a Parquet list by host, in Parquet files on this machine.

The group of each row's host is kept on disk, as one byte per row.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from fetchmill._native import split_parquet
from fetchmill._shared.list_rows import NotByHostError, hosts_of
from fetchmill._shared.part_files import HostGroups
from fetchmill._shared.ranges import HostPart, ListFile
from fetchmill.errors import ListingError, UsageError

# Number of rows whose groups are written at a time.
_BATCH_ROWS = 1 << 16


class RowParts:
    """See the module docstring.

    Args:
        folder: a local folder that belongs to this process.
        options: the options of the job.
    """

    def __init__(self, folder: Path, options: Mapping[str, Any]) -> None:
        self.rows = 0
        self.bytes = 0
        self._folder = folder
        self._options = options
        self._groups = HostGroups()
        # The files of the list, each with the groups of its rows.
        self._files: list[tuple[str, str]] = []

    @property
    def hosts(self) -> int:
        """Number of different hosts, up to `HOSTS_MAX`."""
        return len(self._groups)

    def add(self, files: Sequence[ListFile]) -> None:
        """Add all rows of a list.

        Raises:
            NotByHostError: the list cannot be divided.
            UsageError: the list has changed or cannot be read.
        """
        for number, file in enumerate(files):
            if file.rows is None:
                raise NotByHostError(f"{file.path} is compressed as a whole")
            path = self._folder / f"groups-{number}"
            with file.open() as opened, path.open("wb") as out:
                found = map(self._groups.__getitem__, hosts_of(file, "parquet", self._options))
                rows = 0
                while batch := bytes(islice(found, _BATCH_ROWS)):
                    rows += out.write(batch)
                file.check(opened)
            if rows != file.rows:
                raise NotByHostError(f"{file.path} has rows that would be left out")
            self.rows += rows
            self.bytes += file.size
            self._files.append((file.path, str(path)))

    def parts(self, count: int, token: str) -> Iterator[ListFile]:
        """Yield the non-empty parts. The caller removes each file.

        Args:
            count: number of parts, a power of two.
            token: start of the files' names.

        Raises:
            NotByHostError: the rows cannot be copied.
            StorageError: the parts cannot be written.
        """
        paths = [self._folder / f"{token}{number:05}.parquet" for number in range(count)]
        try:
            rows_of_parts = split_parquet(self._files, [str(path) for path in paths])
        except (ListingError, UsageError) as error:
            raise NotByHostError(str(error)) from error
        for number, (path, rows) in enumerate(zip(paths, rows_of_parts, strict=True)):
            found = path.stat()
            if not rows:
                path.unlink()
                continue
            yield ListFile(
                path=str(path),
                size=found.st_size,
                modified=found.st_mtime_ns,
                has_lines=False,
                rows=rows,
                part=HostPart(number=number, count=count),
            )
