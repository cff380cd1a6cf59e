"""Names of objects as paths of a file system: each name has one path, and each path is that of one name at most.

A path is the name itself but for segments that a file system takes for something else. A name's segment becomes:

    nothing, as between two slashes      %empty
    `.` and `..`                         %2E and %2E%2E
    with bytes that are not UTF-8        %bytes: and all of it, percent-encoded
    what looks like one of these         its % as %25

So a path begins with no `/`, ends with none, leads nowhere else, and is text that other programs can carry.
"""

import re
from urllib.parse import quote, unquote_to_bytes

_BYTES = "%bytes:"
_SEGMENTS = {"": "%empty", ".": "%2E", "..": "%2E%2E"}
_NAMES = {escaped: segment for segment, escaped in _SEGMENTS.items()}
# Printable ASCII besides letters and digits, without the slash and the sign of the escapes.
_PLAIN = "!\"#$&'()*+,-.:;<=>?@[\\]^_`{|}~ "
_ESCAPED = re.compile(r"%(?:25)*(?:empty|2E|2E%2E|bytes:.*)", re.DOTALL)
_SURROGATE = re.compile("[\ud800-\udfff]")
# What is to be looked at segment by segment: a reserved one somewhere, and one that may look like an escape.
_RESERVED = re.compile(r"(?:\A|/)\.{0,2}(?:/|\Z)|[" + "\ud800-\udfff]")
_UNUSUAL = re.compile(r"(?:\A|/)(?:%|\.{0,2}(?:/|\Z))|[" + "\ud800-\udfff]")


def to_path(name: str) -> str:
    """The path of a name; in the name, bytes that are not UTF-8 are surrogates."""
    if _is_plain(name) or not _UNUSUAL.search(name):
        return name
    return "/".join("%25" + each[1:] if _ESCAPED.fullmatch(each) else _to_segment(each) for each in name.split("/"))


def to_name(path: str) -> str | None:
    """The name whose path this is; None when it is that of none."""
    if "%" not in path:
        return path or None
    name = "/".join(map(_from_segment, path.split("/")))
    return name if to_path(name) == path else None


def from_spelling(text: str) -> str:
    """The path that somebody means who may have written a name as it is: what is an escape already stays one."""
    return "/".join(map(_to_segment, text.split("/"))) if text and _RESERVED.search(text) else text


def _is_plain(name: str) -> bool:
    """Most names are, and this tells it of most of them in a tenth of the time."""
    return (
        name.isascii()
        and name[:1] not in {"", "/", "."}
        and name[-1] != "/"
        and not ("%" in name or "//" in name or "/." in name)
    )


def _to_segment(segment: str) -> str:
    if _SURROGATE.search(segment):
        # Surrogates that stand for no byte are in no name from outside.
        return _BYTES + quote(segment, _PLAIN, errors="surrogateescape" if _is_bytes(segment) else "surrogatepass")
    return _SEGMENTS.get(segment, segment)


def _from_segment(segment: str) -> str:
    if segment in _NAMES:
        return _NAMES[segment]
    if segment.startswith(_BYTES):
        return unquote_to_bytes(segment.removeprefix(_BYTES)).decode("utf-8", "surrogateescape")
    return "%" + segment[3:] if _ESCAPED.fullmatch(segment) else segment


def _is_bytes(segment: str) -> bool:
    return all("\udc80" <= each <= "\udcff" for each in _SURROGATE.findall(segment))
