"""Ranges of a list, which are the units that workers claim and make final.

A range is a part of one file of the list: either bytes from the start of one line to the start of another, or rows of a
Parquet file. The job starts with its first ranges. A worker that stops early makes its finished part final, and divides
the rest into new ranges.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Self

from fetchmill._quick_dataclass import dataclass
from fetchmill.errors import UsageError

# Number of bytes read at a time.
BLOCK = 1 << 18
# Maximum length of a line. The list reader also refuses longer lines.
LINE_MAX = 1 << 24
_MARK = b"\xef\xbb\xbf"
# Number of groups of hosts, a power of two. A list that is divided by host has at most this number of parts.
GROUPS = 256
# Intended number of first ranges per file, within the size limits below. Workers divide the ranges further, depending
# on their speed.
_FIRST_RANGES = 16
_RANGE_MIN = 128 << 10
_RANGE_MAX = 32 << 20
# Minimum and maximum number of rows in a first range of a Parquet file.
_ROWS_MIN = 2_500
_ROWS_MAX = 1_000_000


@dataclass(frozen=True, kw_only=True)
class HostPart:
    """A part of a list that is divided by host.

    Args:
        number: number of the part, from 0.
        count: number of parts of its list, a power of two.
    """

    number: int
    count: int

    @property
    def groups(self) -> range:
        """Groups of hosts whose rows are in this part."""
        return range(self.number, GROUPS, self.count)


@dataclass(frozen=True, kw_only=True)
class InventoryFile:
    """A data file of a bucket inventory.

    Args:
        head: the `manifest.json` of the inventory, without its data files.
        md5: MD5 of the file in hexadecimal digits, as in the `manifest.json`.
    """

    head: str
    md5: str

    def document(self, size: int) -> str:
        """Return a `manifest.json` whose only data file is this one, with `size` bytes."""
        return json.dumps(json.loads(self.head) | {"files": [{"key": "data", "size": size, "MD5checksum": self.md5}]})


@dataclass(frozen=True, kw_only=True)
class ListFile:
    """A file of the list, as it was when the job was created.

    Args:
        path: path of the file, the same on every machine.
        size: size in bytes.
        modified: modification time in nanoseconds since 1970.
        has_lines: whether the file can be divided at line endings. A compressed file is a single range.
        header: size in bytes of the first line, if it contains column names. The header is fed before every range.
        rows: number of rows of a Parquet file, whose ranges are rows; None for other files, whose ranges are bytes.
        part: the part of its list that this file contains; None if the list is not divided by host.
        inventory: the inventory that this file belongs to, if any.
    """

    path: str
    size: int
    modified: int
    has_lines: bool
    header: int = 0
    rows: int | None = None
    part: HostPart | None = None
    inventory: InventoryFile | None = None

    @property
    def core_options(self) -> dict[str, str]:
        """Core options for reading this file alone."""
        return {} if self.inventory is None else {"inventory": self.inventory.document(self.size)}

    @property
    def end(self) -> int:
        """End of the last range, in bytes or rows."""
        return self.size if self.rows is None else self.rows

    def share(self, range: "Range") -> int:
        """Return the number of bytes of the list that a range covers."""
        if self.rows is None:
            return range.end - range.start
        return self.size * range.end // self.rows - self.size * range.start // self.rows

    def open(self) -> BinaryIO:
        """Open the file.

        Raises:
            UsageError: the file cannot be opened, or has changed since the job was created.
        """
        try:
            file = Path(self.path).open("rb")  # noqa: SIM115 - the caller closes it
        except OSError as error:
            raise UsageError(
                f"cannot open the list {self.path}: {error.strerror}; every worker needs the list at this path"
            ) from error
        try:
            self.check(file)
        except BaseException:
            file.close()
            raise
        return file

    def check(self, file: BinaryIO) -> None:
        """Refuse a file that has changed since the job was created.

        Raises:
            UsageError: the size or the modification time differs.
        """
        found = os.fstat(file.fileno())
        if (found.st_size, found.st_mtime_ns) != (self.size, self.modified):
            raise UsageError(
                f"{self.path} has changed since the job was created ({self.size:,} bytes then, "
                f"{found.st_size:,} bytes now); restore it, or create another job"
            )


@dataclass(frozen=True, kw_only=True)
class Range:
    """A part of one file of the list: bytes `start` to `end`, or rows `start` to `end` of a Parquet file.

    Args:
        file: number of the file, from 0.
        start: first byte, which is the start of a line; or first row, from 0.
        end: the byte or row after the end of the range.
    """

    file: int
    start: int
    end: int

    @property
    def id(self) -> str:
        """Name of the range in the job directory. No two ranges of a job have the same start."""
        return f"{self.file:05}-{self.start:014}"

    @classmethod
    def from_json(cls, values: Any, file: int) -> Self:  # noqa: ANN401 - parsed JSON
        """Make a range from its start and end.

        Raises:
            ValueError: the values are not a range.
        """
        start, end = values
        if not (isinstance(start, int) and isinstance(end, int) and 0 <= start < end < 10**14):
            raise ValueError(f"{values!r} is not a range")
        return cls(file=file, start=start, end=end)


def read_header(file: BinaryIO) -> bytes:
    """Read the header of a file with fields, which is its first non-empty line and the lines before it.

    Raises:
        UsageError: a line is too long.
    """
    header = b""
    while line := file.readline(LINE_MAX):
        whole_line(len(line))
        header += line
        if line.removeprefix(_MARK).rstrip(b"\r\n"):
            break
    return header


def header_end(file: BinaryIO) -> int:
    """Return the length in bytes of the header of a file with fields.

    Raises:
        UsageError: a line is too long.
    """
    return len(read_header(file))


def whole_line(length: int) -> int:
    """Return the length in bytes of a line.

    Raises:
        UsageError: the line is too long.
    """
    if length >= LINE_MAX:
        raise UsageError(f"the list has a line longer than {LINE_MAX >> 20} MiB, which cannot be a URL")
    return length


def first_ranges(files: list[ListFile], of_file: int = _FIRST_RANGES) -> Iterator[Range]:
    """Yield the first ranges of a job in list order, with at most about `of_file` ranges per file."""
    for number, file in enumerate(files):
        whole = Range(file=number, start=file.header, end=file.end)
        if whole.start >= whole.end:
            continue
        least, most = (_RANGE_MIN, _RANGE_MAX) if file.rows is None else (_ROWS_MIN, _ROWS_MAX)
        with file.open() as opened:
            yield from divide(opened, file, whole, min(max(file.end // of_file, least), most))


def divide(opened: BinaryIO, file: ListFile, whole: Range, size: int) -> Iterator[Range]:
    """Divide a range into ranges of about `size`, each consisting of whole lines. Yield an indivisible range unchanged.

    Args:
        opened: the file.
        file: the record of the file.
        whole: the range to divide.
        size: the size in bytes, or in rows for Parquet.

    Raises:
        UsageError: a line is too long.
    """
    start, wanted = whole.start, whole.start + size
    while wanted < whole.end and (file.has_lines or file.rows is not None):
        if file.rows is None:
            opened.seek(wanted - 1)
            whole_line(len(opened.readline(LINE_MAX)))
            wanted = min(opened.tell(), whole.end)
        yield Range(file=whole.file, start=start, end=wanted)
        start, wanted = wanted, wanted + size
    if start < whole.end:
        yield Range(file=whole.file, start=start, end=whole.end)
