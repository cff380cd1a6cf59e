"""Formats figures as text, with three digits and a suitable unit, or as `-` if a figure is missing."""

NONE = "-"
_KIB = 1024


def three_digits(value: float) -> str:
    """Formats a number with three digits: `0.123`, `1.23`, `12.3`, `123`, `12,345`."""
    for bound, decimals in ((0.995, 3), (9.995, 2), (99.95, 1)):
        if abs(value) < bound:
            return f"{value:.{decimals}f}"
    return f"{value:,.0f}"


def duration(seconds: float | None) -> str:
    """Formats a duration: `10.8 us`, `1.54 ms`, `2.05 s`, `1,504 s`."""
    if seconds is None:
        return NONE
    value, unit = _scale(seconds)
    return f"{three_digits(value)} {unit}"


def tick_duration(seconds: float) -> str:
    """Formats a duration for a tick on an axis: `20 us`."""
    value, unit = _scale(seconds)
    return f"{value:,g} {unit}"


def mebibytes(mib: float | None) -> str:
    """Formats an amount of memory: `57.5 MiB`, `3.62 GiB`."""
    if mib is None:
        return NONE
    return f"{three_digits(mib)} MiB" if mib < _KIB else f"{three_digits(mib / _KIB)} GiB"


def figure(value: float | None) -> str:
    """Formats a figure with three digits, or as `-` if it is missing."""
    return NONE if value is None else three_digits(value)


def count(value: float | None) -> str:
    """Formats a count: `1,234,567`."""
    return NONE if value is None else f"{value:,.0f}"


def tick_count(value: float) -> str:
    """Formats a count for a tick on an axis: `50`, `10k`, `1M`."""
    for unit, size in (("M", 1e6), ("k", 1e4)):
        if value >= size:
            return f"{value / (1e6 if unit == 'M' else 1e3):g}{unit}"
    return f"{value:,g}"


def _scale(seconds: float) -> tuple[float, str]:
    for unit, size in (("us", 1e-6), ("ms", 1e-3)):
        # If rounding would give 1,000, use the next unit.
        if seconds < 999.5 * size:
            return round(seconds / size, 9), unit
    return seconds, "s"
