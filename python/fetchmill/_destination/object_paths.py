"""Maps object names to file system paths. Every name has exactly one path, and no two names share a path.

A path equals the name, except for segments that have a special meaning in a file system. These segments become:

    nothing, as between two slashes      %empty
    `.` and `..`                         %2E and %2E%2E
    a segment that is not UTF-8          %bytes: and the whole segment, percent-encoded
    a segment that looks like these      the same, with its % as %25

As a result, a path never begins or ends with `/`, stays inside its folder, and is valid text for other programs.
"""

import re
from urllib.parse import quote, unquote_to_bytes

_BYTES = "%bytes:"
_SEGMENTS = {"": "%empty", ".": "%2E", "..": "%2E%2E"}
_NAMES = {escaped: segment for segment, escaped in _SEGMENTS.items()}
# Printable ASCII except letters, digits, the slash and the `%` of escapes.
_PLAIN = "!\"#$&'()*+,-.:;<=>?@[\\]^_`{|}~ "
_ESCAPED = re.compile(r"%(?:25)*(?:empty|2E|2E%2E|bytes:.*)", re.DOTALL)
_SURROGATE = re.compile("[\ud800-\udfff]")
# Matches names whose segments must be checked one by one, because a segment is reserved or looks like an escape.
_RESERVED = re.compile(r"(?:\A|/)\.{0,2}(?:/|\Z)|[" + "\ud800-\udfff]")
_UNUSUAL = re.compile(r"(?:\A|/)(?:%|\.{0,2}(?:/|\Z))|[" + "\ud800-\udfff]")


def to_path(name: str) -> str:
    """Return the path of a name. Surrogates in the name represent bytes that are not UTF-8."""
    if _is_plain(name) or not _UNUSUAL.search(name):
        return name
    return "/".join("%25" + each[1:] if _ESCAPED.fullmatch(each) else _to_segment(each) for each in name.split("/"))


def to_name(path: str) -> str | None:
    """Return the name that has this path; None if no name has it."""
    if "%" not in path:
        return path or None
    name = "/".join(map(_from_segment, path.split("/")))
    return name if to_path(name) == path else None


def from_spelling(text: str) -> str:
    """Return the path for text that is either a path or an unescaped name. Keep existing escapes."""
    return "/".join(map(_to_segment, text.split("/"))) if text and _RESERVED.search(text) else text


def _is_plain(name: str) -> bool:
    """Return whether a name passes a fast check, as most names do. The full check takes ten times as long."""
    return (
        name.isascii()
        and name[:1] not in {"", "/", "."}
        and name[-1] != "/"
        and not ("%" in name or "//" in name or "/." in name)
    )


def _to_segment(segment: str) -> str:
    if _SURROGATE.search(segment):
        # In names that come from outside, every surrogate represents a byte.
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
