"""Displays reports in terminals and notebooks."""

from collections.abc import Iterator, Mapping
from dataclasses import fields
from datetime import datetime
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

# Maximum number of characters shown of a string or mapping. The attribute itself is not truncated.
_SHOWN_MAX = 200


class ReadableReport:
    """Shows a report's counts, and its other values if they are not empty."""

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={_cut(_text(value))}" for name, value in _shown(self))
        return f"{type(self).__name__}({values})"

    def _repr_html_(self) -> str:
        """Return a table for notebooks."""
        rows = "".join(
            f"<tr><th style='text-align:left'>{escape(name.replace('_', ' '))}</th>"
            f"<td style='text-align:left'>{escape(_cut(_words(value)))}</td></tr>"
            for name, value in _shown(self)
        )
        return f"<table><caption>{type(self).__name__}</caption>{rows}</table>"


def _shown(report: "DataclassInstance | ReadableReport") -> Iterator[tuple[str, Any]]:
    """Yield all counts, and the other values that are not empty."""
    for field in fields(report):  # type: ignore[arg-type]
        value = getattr(report, field.name)
        is_count = isinstance(value, int) and not isinstance(value, bool)
        if is_count or value not in (None, False, "", (), [], {}):
            yield field.name, value


def _text(value: object) -> str:
    """Format a value as Python does, but without insignificant digits."""
    if isinstance(value, float):
        return f"{value:.2f}"
    if isinstance(value, datetime) or hasattr(value, "text"):
        return repr(_words(value))
    # Show an immutable mapping as a plain dict.
    return repr(dict(value) if isinstance(value, Mapping) else value)


def _words(value: object) -> str:
    """Format a value for people: 5,000 instead of 5000, and `404: 3, dns: 1` instead of a mapping."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {_words(count)}" for key, count in value.items())
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S %Z}"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, float)):
        return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(getattr(value, "text", value))


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}..."
