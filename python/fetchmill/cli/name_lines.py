"""Output lines of `ls` for stored objects and listed targets, with names and known details."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from fetchmill.cli.streams import escape


class Form(NamedTuple):
    """The form of the lines. By default, each line contains only a name.

    Args:
        is_long: whether lines show all known details.
        null: whether names are written unescaped, and end with NUL instead of a newline.
        as_json: whether lines are JSON objects.
    """

    is_long: bool
    null: bool
    as_json: bool


class Named(NamedTuple):
    """A name and the details known about it. Unknown values are None.

    Args:
        name: the name. Bytes that are not UTF-8 are represented as surrogates.
        size: size in bytes.
        status: the HTTP status of the reply.
        time: the time that `--long` shows.
        facts: additional values, shown in JSON with `--long`.
    """

    name: str
    size: int | None = None
    status: int | None = None
    time: datetime | None = None
    facts: Mapping[str, Any] = {}


def to_line(found: Named, form: Form) -> bytes:
    """Return the line for a name in the given form."""
    if form.as_json:
        return _json_line(found, with_facts=form.is_long)
    if not form.is_long:
        return name_line(found.name, form)
    columns = (found.size, found.status, None if found.time is None else _time_text(found.time))
    known = ("-" if value is None else str(value) for value in columns)
    return ("\t".join([*known, escape(found.name)]) + "\n").encode()


def name_line(name: str, form: Form) -> bytes:
    """Return a line that contains only the name."""
    return _encode(name) + b"\0" if form.null else (escape(name) + "\n").encode()


def _json_line(found: Named, *, with_facts: bool) -> bytes:
    values: dict[str, Any] = {"name": found.name, "bytes": found.size}
    try:
        found.name.encode()
    except UnicodeEncodeError:
        values["name"] = _encode(found.name).decode("utf-8", "replace")
        values["name_hex"] = _encode(found.name).hex()
    for field, value in found.facts.items():
        if with_facts and value is not None:
            values[field] = _time_text(value) if isinstance(value, datetime) else value
    return (json.dumps(values) + "\n").encode()


def _encode(name: str) -> bytes:
    """Return the bytes of a name."""
    return name.encode("utf-8", "surrogateescape")


def _time_text(time: datetime) -> str:
    """Return a time in ISO 8601 UTC."""
    return time.isoformat(timespec="microseconds" if time.microsecond else "seconds").replace("+00:00", "Z")
