"""Reads the rows of a list, each with the host of its URL.

The native module reads the list and returns the URLs. Python reads the lines of the same file. As a result, each row
keeps all its columns unchanged, and its host is the one to which the per-host limits apply.
"""

import io
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, BinaryIO

from fetchmill._native import ListBytes, ListTargets
from fetchmill._options.get import GetOptions
from fetchmill._shared.ranges import BLOCK, LINE_MAX, ListFile, read_header, whole_line

MARK = b"\xef\xbb\xbf"
# The list reader treats every line longer than this as a row, even a comment.
_ROW_MAX = 1 << 20
# White space, as defined by the list reader.
_SPACE = b" \t\n\f\r"
# Position in a URL from which to search for the slash that ends the host, which is after `http://` and one character.
_IN_HOST = len("http://") + 1
# Replacements for options that omit or name rows. Each row gets its own name, so that every row is returned.
_ALL_ROWS: Mapping[str, Any] = {
    "include": (),
    "exclude": (),
    "key_column": None,
    "strip_prefix": None,
    "names": "{index}",
}


class NotByHostError(Exception):
    """The list cannot be divided by host. The message states the reason."""


def rows_of(file: ListFile, list_format: str, options: Mapping[str, Any]) -> Iterator[tuple[bytes, str]]:
    """Yield each row of a line-based file, and the start of its URL up to the port.

    The start is empty for a row without a URL.

    Args:
        file: the file. It may be compressed.
        list_format: format of the file.
        options: the options of the job.

    Raises:
        NotByHostError: the hosts are unknown, or the rows cannot be matched with their lines.
        UsageError: the file has changed, or a line is too long.
        ListingError: the file cannot be decompressed.
    """
    with opened_lines(file) as opened:
        rows = _rows(opened, file, list_format, options)
        for host in hosts_of(file, list_format, options):
            row = next(rows, None)
            if row is None:
                raise NotByHostError(f"{file.path} has lines that cannot be matched with its rows")
            yield row, host
        if next(rows, None) is not None:
            raise NotByHostError(f"{file.path} has lines that cannot be matched with its rows")


def header_of(file: ListFile, list_format: str, options: Mapping[str, Any]) -> bytes:
    """Return the header of a line-based file; empty if there is none.

    Raises:
        NotByHostError: the lines and rows of the file may differ.
        UsageError: the file has changed, or a line is too long.
        ListingError: the file cannot be decompressed.
    """
    if file.rows is not None or list_format not in FORMATS:
        raise NotByHostError(f"{file.path} cannot be split at line breaks")
    with opened_lines(file) as opened:
        return _read_header(opened, file, list_format, options)


def hosts_of(file: ListFile, list_format: str, options: Mapping[str, Any]) -> Iterator[str]:
    """Yield the scheme, host and port of each row's URL as one text, which is empty for a row without a URL.

    Raises:
        NotByHostError: the hosts are unknown.
    """
    return map(_host, _urls(file, list_format, options))


@contextmanager
def opened_lines(file: ListFile) -> Iterator[BinaryIO]:
    """Open a file to read its lines, decompressed.

    Raises:
        UsageError: the file has changed.
    """
    with file.open() as opened:
        yield opened if file.has_lines else io.BufferedReader(_DecodedFile(file.path), BLOCK)
        file.check(opened)


class _DecodedFile(io.RawIOBase):
    """The decompressed content of a file."""

    def __init__(self, path: str) -> None:
        self._content = ListBytes(path)
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 - a writable buffer
        block = self._rest or self._content.read()
        count = min(len(buffer), len(block))
        buffer[:count] = block[:count]
        self._rest = block[count:]
        return count


def _urls(file: ListFile, list_format: str, options: Mapping[str, Any]) -> Iterator[str | None]:
    """Yield the URL of each row; None for a row without a URL."""
    own = {"source": file.path, "dest": ".", "list_format": list_format}
    values = json.loads(GetOptions(**{**options, **_ALL_ROWS, **own}).to_json("list"))
    # The list as a whole has already been checked for missing columns, but a single file may lack one.
    targets = ListTargets(json.dumps(values | {"is_range": True}))
    while (page := targets.next_page()) is not None:
        rows, skipped = page
        if skipped:
            raise NotByHostError(f"{file.path} has rows that would be left out")
        for url, _ in rows:
            yield url


def _host(url: str | None) -> str:
    """Return the scheme, host and port of a normalised URL, as one text."""
    if url is None:
        return ""
    if url.startswith("s3:"):
        raise NotByHostError("it contains s3:// URLs, which all have the host of their store")
    return url[: url.find("/", _IN_HOST)]


def _read_header(opened: BinaryIO, file: ListFile, list_format: str, options: Mapping[str, Any]) -> bytes:
    if file.has_lines:
        return opened.read(file.header)
    if list_format not in _WITH_FIELDS:
        return b""
    has_header = options.get("csv_header", "auto")
    if has_header == "auto" or (list_format == "csv" and options.get("delimiter") is None):
        raise NotByHostError(f"the parts of {file.path} need --csv-header yes or no, and --delimiter")
    return read_header(opened) if has_header == "yes" else b""


def _rows(opened: BinaryIO, file: ListFile, list_format: str, options: Mapping[str, Any]) -> Iterator[bytes]:
    """Yield the lines that are rows, each including its line ending."""
    header = _read_header(opened, file, list_format, options)
    is_row = _IS_ROW[list_format]
    check = _no_check if file.has_lines else _check_of(file, list_format, options)
    check(header)
    mark = b"" if header else MARK
    while line := opened.readline(LINE_MAX):
        whole_line(len(line))
        line, mark = line.removeprefix(mark), b""
        if is_row(line) or len(line) > _ROW_MAX:
            check(line)
            yield line if line.endswith(b"\n") else line + b"\n"


def _no_check(line: bytes) -> None:
    """Accept a line of a file that was checked when the job was planned."""


def _check_of(file: ListFile, list_format: str, options: Mapping[str, Any]) -> Callable[[bytes], None]:
    """Return a function that refuses a line if the lines and rows of its file may differ."""
    quote = b"" if options.get("quote") == "none" else str(options.get("quote") or '"').encode()
    is_first = True

    def check_fields(line: bytes) -> None:
        if quote and quote in line:
            raise NotByHostError(f"{file.path} has quoted fields, which may contain line breaks")

    def check_json(line: bytes) -> None:
        nonlocal is_first
        if is_first and line.lstrip(_SPACE).startswith(b"["):
            raise NotByHostError(f"{file.path} is a JSON array")
        is_first = is_first and not line

    if list_format in _WITH_FIELDS:
        return check_fields
    return check_json if list_format == "jsonl" else _no_check


def _is_row_of_text(line: bytes) -> bool:
    text = line.strip(_SPACE)
    return bool(text) and not text.startswith(b"#")


def _is_row_of_json(line: bytes) -> bool:
    return bool(line.strip(_SPACE))


def _is_row_of_fields(line: bytes) -> bool:
    return line not in (b"\n", b"\r\n")


_IS_ROW = {"txt": _is_row_of_text, "jsonl": _is_row_of_json, "csv": _is_row_of_fields, "tsv": _is_row_of_fields}
FORMATS = tuple(_IS_ROW)
_WITH_FIELDS = ("csv", "tsv")
