"""Ranges of a list: the unit in which workers take work and make it final.

A range is a part of one file of the list, in bytes, from the start of a line to the start of another. The plan names
the first ranges. A worker that stops early makes the part before it final and names ranges for the rest.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Self

from fetchmill._quick_dataclass import dataclass
from fetchmill.errors import UsageError

# Bytes that are read at once.
BLOCK = 1 << 18
# A longer line is no line of a list: the reader of lists refuses it, too.
LINE_MAX = 1 << 24
# First ranges are as many as this, within the sizes below: workers divide them further by how fast they are.
_FIRST_RANGES = 16
_RANGE_MIN = 1 << 20
_RANGE_MAX = 32 << 20


@dataclass(frozen=True, kw_only=True)
class ListFile:
    """A file of the list, as it was when the job was created.

    Args:
        path: where every worker finds it.
        size: its bytes.
        modified: when it was written last, in nanoseconds since 1970.
        has_lines: whether it can be divided at line ends. Compressed files and Parquet are one range each.
        header: bytes of its first line, which every range of a CSV file with names of columns begins with.
    """

    path: str
    size: int
    modified: int
    has_lines: bool
    header: int = 0

    def open(self) -> BinaryIO:
        """The file.

        Raises:
            UsageError: it cannot be read, or is not what it was.
        """
        try:
            file = Path(self.path).open("rb")  # noqa: SIM115 - the caller closes it
        except OSError as error:
            raise UsageError(
                f"cannot open the list {self.path}: {error.strerror}; every worker needs it at this path"
            ) from error
        try:
            self.check(file)
        except BaseException:
            file.close()
            raise
        return file

    def check(self, file: BinaryIO) -> None:
        """Refuses a file that was written after the job was created.

        Raises:
            UsageError: its size or its time differ.
        """
        found = os.fstat(file.fileno())
        if (found.st_size, found.st_mtime_ns) != (self.size, self.modified):
            raise UsageError(
                f"{self.path} has changed since the job was created (it had {self.size:,} bytes and has "
                f"{found.st_size:,}); restore it, or create another job"
            )


@dataclass(frozen=True, kw_only=True)
class Range:
    """Bytes `start` to `end` of a file of the list.

    Args:
        file: the file's number, from 0.
        start: its first byte, the start of a line.
        end: the byte after its last one.
    """

    file: int
    start: int
    end: int

    @property
    def id(self) -> str:
        """Its name in the job directory. No two ranges of a job have the same start."""
        return f"{self.file:05}-{self.start:014}"

    @classmethod
    def from_json(cls, values: Any, file: int) -> Self:  # noqa: ANN401 - what a file has
        """From its two ends.

        Raises:
            ValueError: it is no range.
        """
        start, end = values
        if not (isinstance(start, int) and isinstance(end, int) and 0 <= start < end < 10**14):
            raise ValueError(f"{values!r} is no range")
        return cls(file=file, start=start, end=end)


def first_line_end(file: BinaryIO) -> int:
    """Bytes of the first line of a file, its end included.

    Raises:
        UsageError: the line is too long.
    """
    return _whole_line(len(file.readline(LINE_MAX)))


def _whole_line(length: int) -> int:
    if length >= LINE_MAX:
        raise UsageError(f"the list has a line of more than {LINE_MAX >> 20} MiB: no URL is so long")
    return length


def first_ranges(files: list[ListFile]) -> Iterator[Range]:
    """The ranges that a job begins with, in the order of the list."""
    for number, file in enumerate(files):
        if not file.has_lines:
            if file.size:
                yield Range(file=number, start=0, end=file.size)
            continue
        wanted = min(max(file.size // _FIRST_RANGES, _RANGE_MIN), _RANGE_MAX)
        with file.open() as opened:
            whole = Range(file=number, start=file.header, end=file.size)
            yield from divide(opened, whole, wanted)


def divide(file: BinaryIO, whole: Range, size: int) -> Iterator[Range]:
    """A range as ranges of about so many bytes, each of whole lines."""
    start, wanted = whole.start, whole.start + size
    while wanted < whole.end:
        file.seek(wanted - 1)
        _whole_line(len(file.readline(LINE_MAX)))
        boundary = min(file.tell(), whole.end)
        yield Range(file=whole.file, start=start, end=boundary)
        start, wanted = boundary, boundary + size
    if start < whole.end:
        yield Range(file=whole.file, start=start, end=whole.end)
