"""Determines how a body ends, from a head that a library has parsed (docs/reference/http-support.md).

Libraries accept different ambiguous heads. This module applies the native engine's rules to both libraries.
"""

import functools
import re
from collections.abc import Iterable
from typing import NamedTuple

from fetchmill.engines.http.failure_kinds import AttemptError

_LENGTH_DIGITS_MAX = 19
_NAME = re.compile("[!#$%&'*+.^_`|~0-9A-Za-z-]+")
# Maximum number of cached field names, each up to 16 KiB.
_NAMES_KEPT = 256
_NO_BODY = (204, 304)
_SWITCHING_PROTOCOLS = 101
_PARTIAL_CONTENT = 206


class BodyEnd(NamedTuple):
    """How a body ends.

    Args:
        length: size of the body in bytes; None if its end is marked in another way.
        is_delimited: whether the end of the body is marked. If not, the body ends with the connection.
    """

    length: int | None
    is_delimited: bool


# The body ends when the connection ends.
UNTIL_CLOSE = BodyEnd(None, is_delimited=False)


def body_end(status: int, version: tuple[int, int], fields: Iterable[tuple[str, str]]) -> BodyEnd:
    """Return how the body ends according to its head.

    Args:
        status: the HTTP status.
        version: the HTTP version.
        fields: unchanged names and values, including repeated fields.

    Raises:
        AttemptError: `framing`, if the head is ambiguous or does not fit the request.
    """
    lengths: list[str] = []
    encodings: list[str] = []
    values: list[str] = []
    are_names = True
    for name, value in fields:
        values.append(value)
        lower = _lower_name(name)
        if lower == "content-length":
            lengths.append(value.strip(" \t"))
        elif lower == "transfer-encoding":
            encodings.append(value.strip(" \t"))
        elif lower is None:
            are_names = False
    text = "".join(values)
    if not are_names or "\0" in text or "\r" in text or "\n" in text:
        raise AttemptError("framing", "a header field of the reply is malformed")
    if status in (_SWITCHING_PROTOCOLS, _PARTIAL_CONTENT):
        raise AttemptError("framing", f"unexpected status {status}")
    return _body_end(lengths, encodings, version, has_body=status not in _NO_BODY)


@functools.lru_cache(maxsize=_NAMES_KEPT)
def _lower_name(name: str) -> str | None:
    """Return a field name in lower case, or None if it is invalid. Cached because servers repeat their field names."""
    return name.lower() if _NAME.fullmatch(name) else None


def _body_end(lengths: list[str], encodings: list[str], version: tuple[int, int], *, has_body: bool) -> BodyEnd:
    if encodings:
        if [encoding.lower() for encoding in encodings] != ["chunked"] or lengths or version < (1, 1):
            raise AttemptError("framing", "the reply has a Transfer-Encoding that does not mark the end of the body")
    elif lengths and not (_is_length(lengths[0]) and lengths.count(lengths[0]) == len(lengths)):
        raise AttemptError("framing", "the reply has an invalid Content-Length")
    if not has_body:
        return BodyEnd(0, is_delimited=True)
    return BodyEnd(int(lengths[0]) if lengths else None, is_delimited=bool(lengths or encodings))


def _is_length(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _LENGTH_DIGITS_MAX
