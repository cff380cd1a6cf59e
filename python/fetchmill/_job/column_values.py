"""Values of kept columns (docs/formats.md#types-of-kept-columns)."""

from collections.abc import Callable

ColumnValue = str | int | float | bool | None

# How a text is read that the core has taken for a value of a type.
_READ: dict[str, Callable[[str], int | float | bool]] = {
    "int64": int,
    "float64": float,
    "bool": lambda text: {"true": True, "false": False}[text.strip().lower()],
}


def value_of(text: str | None, kind: str) -> ColumnValue:
    """A kept value as what it is. Text that is no such value has a target that failed for it."""
    if text is None or kind == "string":
        return text
    try:
        return _READ[kind](text)
    except (KeyError, ValueError):
        return text
