"""The rows of a list, each with the host of its URL.

The native module reads the list and returns the URLs. Python reads the lines of the same file. Each row thus stays
unchanged, with all its columns, and its host is the one to which the per-host limits apply.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

from fetchmill._native import ListTargets
from fetchmill._options.get import GetOptions
from fetchmill._shared.ranges import LINE_MAX, ListFile, whole_line

MARK = b"\xef\xbb\xbf"
# The list reader treats every line longer than this as a row, even a comment.
_ROW_MAX = 1 << 20
# White space, as defined by the list reader.
_SPACE = b" \t\n\f\r"
# Position in a URL from which to search for the slash that ends the host: after `http://` and one character.
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
    """The list cannot be divided by host. The message is the reason."""


def rows_of(file: ListFile, list_format: str, options: Mapping[str, Any]) -> Iterator[tuple[bytes, str]]:
    """Yield each row of a line-based file, and the start of its URL: scheme, host and port.

    The start is empty for a row without a URL.

    Args:
        file: the file.
        list_format: format of the file.
        options: the options of the job.

    Raises:
        NotByHostError: the hosts are unknown, or the rows cannot be matched with their lines.
        UsageError: the file has changed, or a line is too long.
    """
    with file.open() as opened:
        rows = _rows(opened, file.header, list_format)
        for url in _urls(file, list_format, options):
            row = next(rows, None)
            if row is None:
                raise NotByHostError(f"{file.path} has lines that cannot be matched with its rows")
            yield row, _host(url)
        if next(rows, None) is not None:
            raise NotByHostError(f"{file.path} has lines that cannot be matched with its rows")
        file.check(opened)


def _urls(file: ListFile, list_format: str, options: Mapping[str, Any]) -> Iterator[str | None]:
    """Yield the URL of each row; None for a row without one."""
    own = {"source": file.path, "dest": ".", "list_format": list_format}
    values = json.loads(GetOptions(**{**options, **_ALL_ROWS, **own}).to_json("list"))
    # The list as a whole has already been checked for missing columns, but a single file may lack one.
    targets = ListTargets(json.dumps(values | {"is_range": True}))
    while (page := targets.next_page()) is not None:
        rows, skipped = page
        if skipped:
            raise NotByHostError(f"{file.path} has rows that are left out")
        for url, _ in rows:
            yield url


def _host(url: str | None) -> str:
    """Return the start of a normalised URL: scheme, host and port."""
    if url is None:
        return ""
    if url.startswith("s3:"):
        raise NotByHostError("it has s3:// URLs, whose host is that of their store")
    return url[: url.find("/", _IN_HOST)]


def _rows(opened: BinaryIO, header: int, list_format: str) -> Iterator[bytes]:
    """Yield the lines that are rows, each with a line end."""
    is_row = _IS_ROW[list_format]
    opened.seek(header)
    if header == 0 and opened.read(len(MARK)) != MARK:
        opened.seek(0)
    while line := opened.readline(LINE_MAX):
        whole_line(len(line))
        if is_row(line) or len(line) > _ROW_MAX:
            yield line if line.endswith(b"\n") else line + b"\n"


def _is_row_of_text(line: bytes) -> bool:
    text = line.strip(_SPACE)
    return bool(text) and not text.startswith(b"#")


def _is_row_of_json(line: bytes) -> bool:
    return bool(line.strip(_SPACE))


def _is_row_of_fields(line: bytes) -> bool:
    return line not in (b"\n", b"\r\n")


_IS_ROW = {"txt": _is_row_of_text, "jsonl": _is_row_of_json, "csv": _is_row_of_fields, "tsv": _is_row_of_fields}
FORMATS = tuple(_IS_ROW)
