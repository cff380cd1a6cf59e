"""How the end of a body is known: the table of docs/http-support.md, for heads that a library has parsed.

The libraries forgive what is ambiguous, each in its own way; here both have the native engine's rules.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

from fetchmill.engines.http.kinds import Failure

_LENGTH = re.compile("[0-9]{1,19}")
_NAME = re.compile("[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_FORBIDDEN = re.compile("[\0\r\n]")
_NO_BODY = (204, 304)
_SWITCHING_PROTOCOLS = 101
_PARTIAL_CONTENT = 206


class End(NamedTuple):
    """How the end of a body is told.

    Args:
        length: bytes of the body; None when something else tells its end.
        is_told: whether anything but the end of the connection does.
    """

    length: int | None
    is_told: bool


# The body ends with the connection.
UNTOLD = End(None, is_told=False)


def end_of(status: int, version: tuple[int, int], fields: Iterable[tuple[str, str]]) -> End:
    """What a head says of its body.

    Args:
        status: the status.
        version: of HTTP.
        fields: names and values as they came, each as often as it came.

    Raises:
        Failure: `framing`: it is ambiguous, or answers what was not asked.
    """
    known: dict[str, list[str]] = {"content-length": [], "transfer-encoding": []}
    for name, value in fields:
        if not _NAME.fullmatch(name) or _FORBIDDEN.search(value):
            raise Failure("framing", "a field of the head is malformed")
        known.get(name.lower(), []).append(value.strip(" \t"))
    if status in (_SWITCHING_PROTOCOLS, _PARTIAL_CONTENT):
        raise Failure("framing", f"status {status} was not asked for")
    return _end_of(known["content-length"], known["transfer-encoding"], version, has_body=status not in _NO_BODY)


def _end_of(lengths: list[str], encodings: list[str], version: tuple[int, int], *, has_body: bool) -> End:
    if encodings:
        if [encoding.lower() for encoding in encodings] != ["chunked"] or lengths or version < (1, 1):
            raise Failure("framing", "the head has a Transfer-Encoding that leaves the body's end open")
    elif any(not _LENGTH.fullmatch(length) for length in lengths) or len(set(lengths)) > 1:
        raise Failure("framing", "the head has no usable Content-Length")
    if not has_body:
        return End(0, is_told=True)
    return End(int(lengths[0]) if lengths else None, is_told=bool(lengths or encodings))
