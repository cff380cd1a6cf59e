"""Creates HTML and SVG as text. No other module creates markup, and this one escapes all texts.

A report shows names, reasons and addresses from other people, so escaping must not depend on the callers.
"""

import re
from collections.abc import Iterable
from html import escape

# HTML elements without an end tag.
_VOID = frozenset({"meta"})
# HTML cannot express these characters, escaped or not.
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


class Markup(str):
    """Text that is already markup. Only this module creates it, from escaped text."""

    __slots__ = ()


Child = Markup | str | float | None
Value = str | float | None


def tag(element: str, /, *children: Child, **attributes: Value) -> Markup:
    """Creates an element.

    Args:
        element: the name of the element.
        children: the contents, in order. `None` values are omitted.
        attributes: the attributes. `None` values are omitted. `_` stands for `-`, and a trailing `_` is removed
            (`class_`).

    Returns:
        The element, with all texts and values escaped.
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
    """Concatenates several parts, and escapes those that are plain text."""
    return Markup(between.join(_escape(child) for child in children if child is not None))


def style(text: str) -> Markup:
    """Creates a style element from a style sheet of this package.

    The style sheet must not contain text from other people, because HTML offers no escapes in style sheets.
    """
    return Markup(f"<style>\n{text}</style>")


def _escape(value: Child) -> str:
    if isinstance(value, Markup):
        return value
    return escape(_CONTROL.sub("\N{REPLACEMENT CHARACTER}", str(value)))
