"""Divides the lines of a list by host, in files on this machine."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fetchmill._shared.list_rows import MARK, NotByHostError, header_of, rows_of
from fetchmill._shared.part_files import PartFiles
from fetchmill._shared.ranges import HostPart, ListFile


class LineParts:
    """See the module docstring.

    Args:
        folder: a local folder that belongs to this process.
        list_format: format of the list.
        options: the options of the job.
    """

    def __init__(self, folder: Path, list_format: str, options: Mapping[str, Any]) -> None:
        self._folder = folder
        self._list_format = list_format
        self._options = options
        self._lines = PartFiles(folder)
        self._header = b""

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self._lines.rows

    @property
    def bytes(self) -> int:
        """Size of the rows in bytes."""
        return self._lines.bytes

    @property
    def hosts(self) -> int:
        """Number of different hosts, up to `HOSTS_MAX`."""
        return self._lines.hosts

    def add(self, files: Sequence[ListFile]) -> None:
        """Add all rows of a list.

        Raises:
            NotByHostError: the list cannot be divided.
            UsageError: the list has changed or cannot be read.
        """
        headers = set()
        for file in files:
            header = header_of(file, self._list_format, self._options)
            headers.add(header.removeprefix(MARK).strip(b"\r\n") + b"\n" if header else b"")
        if len(headers) > 1:
            raise NotByHostError("its files have different headers")
        self._header = headers.pop() if headers else b""
        for file in files:
            self._lines.add(rows_of(file, self._list_format, self._options))

    def parts(self, count: int, token: str) -> Iterator[ListFile]:
        """Yield the non-empty parts. The caller removes each file.

        Args:
            count: number of parts, a power of two.
            token: start of the files' names.
        """
        for number in range(count):
            part = HostPart(number=number, count=count)
            path = self._folder / f"{token}{number:05}.{self._list_format}"
            with path.open("xb") as out:
                out.write(self._header)
                self._lines.move(part, out)
            found = path.stat()
            if found.st_size == len(self._header):
                path.unlink()
                continue
            yield ListFile(
                path=str(path),
                size=found.st_size,
                modified=found.st_mtime_ns,
                has_lines=True,
                header=len(self._header),
                part=part,
            )
