"""HTML and SVG as text in which nothing but this module makes markup: whatever else is put in is escaped.

A report shows names, reasons and addresses that others wrote, so that escaping must not depend on who remembers it.
"""

import re
from collections.abc import Iterable
from html import escape

# Without an end tag, in HTML.
_VOID = frozenset({"meta"})
# HTML has no way to write these, escaped or not.
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


class Markup(str):
    """Text that is markup already; only this module makes it, out of what it has escaped."""

    __slots__ = ()


Child = Markup | str | float | None
Value = str | float | None


def tag(element: str, /, *children: Child, **attributes: Value) -> Markup:
    """An element.

    Args:
        element: its name.
        children: what is in it, in this order; None is left out.
        attributes: its attributes; None is left out. `_` stands for `-`, one at the end is dropped (`class_`).

    Returns:
        The element, all texts and values escaped.
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_escape(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    if element in _VOID:
        return Markup(f"<{element}{written}>")
    return Markup(f"<{element}{written}>{join(children)}</{element}>")


def join(children: Iterable[Child], between: str = "") -> Markup:
    """Several one behind the other, texts escaped."""
    return Markup(between.join(_escape(child) for child in children if child is not None))


def style(text: str) -> Markup:
    """A style sheet of the package itself; its text has no escapes in HTML, so none that others wrote belongs here."""
    return Markup(f"<style>\n{text}</style>")


def _escape(value: Child) -> str:
    if isinstance(value, Markup):
        return value
    return escape(_CONTROL.sub("\N{REPLACEMENT CHARACTER}", str(value)))
