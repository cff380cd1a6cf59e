"""Parses and formats numbers with units.

Sizes use binary units (`64KiB`, `1.5 GiB`). Durations are in seconds unless they have a unit (`50ms`, `2m`). Counts can
be written as `1e9` or `1_000`. The parsers raise ValueError with a message that can follow an option's name.
"""

import math
import re

# Compiled when the first quantity is parsed.
_QUANTITY = r"\s*([0-9][0-9_,]*(?:\.[0-9]+)?(?:[eE]\+?[0-9]+)?|\.[0-9]+)\s*([A-Za-z]*)\s*"

_SIZES = {"": 1, "b": 1, "k": 10**3, "kb": 10**3, "m": 10**6, "mb": 10**6, "g": 10**9, "gb": 10**9}
_SIZES |= {"t": 10**12, "tb": 10**12, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40}
_DURATIONS = {"": 1.0, "s": 1.0, "us": 1e-6, "ms": 1e-3, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


def _quantity(text: str, units: dict[str, float] | dict[str, int], example: str) -> float:
    """Return a number multiplied by its unit."""
    match = re.fullmatch(_QUANTITY, text)
    factor = units.get(match[2].lower()) if match else None
    if match is None or factor is None:
        raise ValueError(f"{text!r} is not understood; write, for example, {example}")
    value = float(match[1].replace("_", "").replace(",", "")) * factor
    if not math.isfinite(value):
        raise ValueError(f"{text!r} is too large")
    return value


def _whole(value: float, text: str) -> int:
    """Return the value as an int. Refuse fractions and values of 2^63 or more."""
    if value != int(value) or value > 2**63 - 1:
        raise ValueError(f"{text!r} is not a whole number below 2^63")
    return int(value)


def parse_bytes(text: str) -> int:
    """Parse a number of bytes, such as `100`, `64KiB`, `1.5MiB` or `10MB`."""
    return _whole(_quantity(text, _SIZES, "64KiB or 100"), text)


def parse_seconds(text: str) -> float:
    """Parse a duration in seconds, such as `1`, `0.5s`, `50ms`, `2m` or `1h`."""
    return _quantity(text, _DURATIONS, "1.5s, 50ms or 2m")


def parse_count(text: str) -> int:
    """Parse a count, such as `100`, `1_000` or `1e9`."""
    if text.strip().isdecimal():
        return _whole(int(text), text)  # exact even above 2^53
    return _whole(_quantity(text, {"": 1}, "1000 or 1e9"), text)


def parse_range(text: str) -> tuple[float, float]:
    """Parse a range of durations, such as `0-3` or `50ms-2s`. A single duration is used as both ends."""
    low, dash, high = text.partition("-")
    first = parse_seconds(low)
    last = parse_seconds(high) if dash else first
    if last < first:
        raise ValueError(f"{text!r} ends before it starts; write the smaller value first")
    return first, last


def format_count(count: float) -> str:
    """Format a count as `1,234,567`."""
    return f"{count:,.0f}"


def format_objects(count: int) -> str:
    """Format a number of objects as `1 object` or `1,234 objects`."""
    return format_count_of(count, "object")


def format_count_of(count: int, noun: str) -> str:
    """Format a count and a singular noun as `1 row` or `1,234 rows`."""
    return f"{format_count(count)} {noun}{'' if count == 1 else 's'}"


def format_bytes(count: float) -> str:
    """Format a size in bytes as `980 B` or `1.5 MiB`."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:  # noqa: PLR2004 - bytes in a KiB
            return f"{count:.0f} {unit}" if unit == "B" or count == int(count) else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def format_seconds(seconds: float) -> str:
    """Format a duration as `0.31 s`, `42 s`, `3 min 05 s` or `2 h 47 min`."""
    if seconds < 10:  # noqa: PLR2004 - fractions matter only below ten
        return f"{seconds:.2f} s"
    whole = round(seconds)
    if whole < 60:  # noqa: PLR2004 - seconds in a minute
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:  # noqa: PLR2004 - minutes in an hour
        return f"{minutes} min {rest:02} s"
    return f"{minutes // 60} h {minutes % 60:02} min"
