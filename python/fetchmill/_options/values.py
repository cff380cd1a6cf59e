"""Kinds of option values and their checks."""

import math
import os
from collections.abc import Collection, Mapping, Sequence
from datetime import date
from typing import Any, Literal

from fetchmill._options.dates import seconds_of
from fetchmill.errors import UsageError

Kind = Literal[
    "text",
    "name",
    "url",
    "texts",
    "patterns",
    "path",
    "choice",
    "count",
    "concurrency",
    "whole",
    "number",
    "rate",
    "seconds",
    "bytes",
    "size",
    "date",
    "flag",
    "answers",
    "statuses",
    "share",
    "bandwidth",
    "headers",
    "auth",
    "function",
    "dashboard",
    "address",
    "token",
]

_SPACE, _DELETE = 0x20, 0x7F
# The range of error statuses, up to the largest possible status.
_STATUS_MIN, _STATUS_MAX = 400, 999


def check_value(name: str, value: object, metadata: Mapping[str, Any]) -> None:
    """Check an option's value against its kind. None is always allowed and means the default.

    Raises:
        UsageError: the value is not of this kind.
    """
    if value is None:
        return
    kind: Kind = metadata["kind"]
    if kind == "choice":
        if value not in metadata["refused"]:
            check_choice(name, value, metadata["choices"])
    else:
        _CHECKS[kind](name, value)


def require(met: bool, name: str, expected: str, value: object) -> None:
    """If `met` is false, raise a UsageError that says which value was expected."""
    if not met:
        raise UsageError(f"{name} must be {expected}, not {value!r}", options=[name])


def check_choice(name: str, value: object, choices: Collection[str]) -> None:
    """Check that a value is one of the allowed words. The error suggests the word that the user probably meant.

    Raises:
        UsageError: the value is not an allowed word.
    """
    if isinstance(value, str) and value in choices:
        return
    from fetchmill._options.nearest import nearest_value

    meant = nearest_value(value, choices) if isinstance(value, str) else None
    suggestion = f"; did you mean {meant!r}?" if meant else ""
    raise UsageError(f"{name} must be one of {', '.join(choices)}, not {value!r}{suggestion}", options=[name])


def check_text(name: str, value: object) -> None:
    """Check a string that is sent in requests."""
    require(isinstance(value, str) and value != "", name, "a non-empty string", value)
    text = str(value)
    require(
        not any(ord(char) < _SPACE or ord(char) == _DELETE for char in text),
        name,
        "without control characters",
        value,
    )
    _require_utf8(name, text)


def check_path(name: str, value: object) -> str:
    """Check a path and return it as a string."""
    require(isinstance(value, (str, os.PathLike)) and value != "", name, "a non-empty path", value)
    path = os.fsdecode(value)  # type: ignore[arg-type]
    require("\0" not in path, name, "a path without NUL", path)
    _require_utf8(name, path)
    return path


def _require_utf8(name: str, text: str) -> None:
    """Check that JSON can represent the string."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UsageError(f"{name} must be UTF-8, not {text!r}", options=[name]) from None


def _check_url(name: str, value: object) -> None:
    check_text(name, value)
    is_url = str(value).startswith(("http://", "https://"))
    require(is_url, name, "http://HOST[:PORT] or https://HOST[:PORT]", value)


def _check_texts(name: str, value: object) -> None:
    require(
        isinstance(value, Sequence) and not isinstance(value, str),
        name,
        "a sequence of strings, not a single string",
        value,
    )
    for text in value:  # type: ignore[attr-defined]
        check_text(name, text)


def _check_flag(name: str, value: object) -> None:
    require(isinstance(value, bool), name, "True or False", value)


def _check_seconds(name: str, value: object) -> None:
    require(_is_positive(value), name, "a number of seconds above 0", value)


def _check_number(name: str, value: object) -> None:
    require(_is_positive(value), name, "a number above 0", value)


def _check_rate(name: str, value: object) -> None:
    require(_is_positive(value) or _is_whole(value, 0) or value == 0.0, name, "a number of at least 0", value)


def _is_positive(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < math.inf


def _check_count(name: str, value: object) -> None:
    require(_is_whole(value, 1), name, "a whole number of at least 1", value)


def _check_concurrency(name: str, value: object) -> None:
    require(value == "auto" or _is_whole(value, 1), name, "a whole number of at least 1, or auto", value)


def _check_whole(name: str, value: object) -> None:
    require(_is_whole(value, 0), name, "a whole number of at least 0", value)


def _is_whole(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value < 2**63


def _check_answers(name: str, value: object) -> None:
    """Check a bool (all answers or none) or a sequence of patterns, which the core parses."""
    if not isinstance(value, bool):
        is_list = isinstance(value, Sequence) and not isinstance(value, str) and len(value) > 0
        require(is_list, name, "True, False, or a sequence of answers such as ['dns*', '5xx']", value)
        _check_texts(name, value)


def _check_statuses(name: str, value: object) -> None:
    """Check a sequence of error statuses."""
    is_list = isinstance(value, Sequence) and not isinstance(value, (str, bytes))
    require(is_list, name, "a sequence of statuses such as [403, 999]", value)
    for status in value:  # type: ignore[attr-defined]
        is_status = _is_whole(status, _STATUS_MIN) and status <= _STATUS_MAX
        require(is_status, name, f"an error status, {_STATUS_MIN} to {_STATUS_MAX}", status)


def _check_share(name: str, value: object) -> None:
    """Check a number or a percentage, which the core parses."""
    is_text = isinstance(value, str) and bool(value)
    require(is_text or _is_whole(value, 0), name, "a number of targets, or a percentage such as '1%'", value)


def _check_date(name: str, value: object) -> None:
    if not isinstance(value, (str, date)):
        raise UsageError(f"{name} must be a date or a date string, not {value!r}", options=[name])
    try:
        seconds_of(value)
    except ValueError as error:
        raise UsageError(f"{name}: {error}", options=[name]) from None


def _check_headers(name: str, value: object) -> None:
    # The value may be a secret, so the message names only its type.
    if not isinstance(value, Mapping):
        kind = type(value).__name__
        raise UsageError(f"{name} must be a mapping of names to values, not a {kind}", options=[name])
    for field, text in value.items():
        check_text(name, field)
        # The text may be a secret, so messages do not show it.
        require(
            isinstance(text, str) and text.isprintable(), name, f"strings without control characters ({field})", "..."
        )


def _check_auth(name: str, value: object) -> None:
    is_pair = isinstance(value, tuple) and len(value) == 2 and all(isinstance(part, str) for part in value)  # noqa: PLR2004
    require(
        is_pair or (isinstance(value, str) and ":" in value), name, "USER:PASSWORD or a pair (user, password)", "..."
    )


def _check_function(name: str, value: object) -> None:
    if isinstance(value, str):
        check_text(name, value)
    module, colon, function = value.partition(":") if isinstance(value, str) else ("", "", "")
    is_place = bool(module and colon and function)
    require(is_place or callable(value), name, "a function, or a string MODULE:FUNCTION", value)


def _check_dashboard(name: str, value: object) -> None:
    """Check a bool (with or without a dashboard) or the dashboard's address."""
    is_address = isinstance(value, str) and value != ""
    require(is_address or isinstance(value, bool), name, "True, False, or HOST:PORT", value)


def _check_token(name: str, value: object) -> None:
    """Check a secret string, without showing it in messages."""
    require(isinstance(value, str) and value != "", name, "a non-empty string", "...")


_CHECKS = {
    "dashboard": _check_dashboard,
    "address": check_text,
    "token": _check_token,
    "text": check_text,
    "name": check_text,
    "url": _check_url,
    "texts": _check_texts,
    "patterns": _check_texts,
    "path": check_path,
    "flag": _check_flag,
    "answers": _check_answers,
    "statuses": _check_statuses,
    "share": _check_share,
    "seconds": _check_seconds,
    "number": _check_number,
    "bandwidth": _check_number,
    "rate": _check_rate,
    "count": _check_count,
    "concurrency": _check_concurrency,
    "bytes": _check_count,
    "size": _check_whole,
    "whole": _check_whole,
    "date": _check_date,
    "headers": _check_headers,
    "auth": _check_auth,
    "function": _check_function,
}
