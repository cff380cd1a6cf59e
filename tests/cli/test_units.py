"""Parsing and formatting of numbers with units."""

from collections.abc import Callable

import pytest

from fetchmill._options import units


@pytest.mark.parametrize(
    ("parse", "text", "expected"),
    [
        (units.parse_bytes, "100", 100),
        (units.parse_bytes, "64KiB", 65_536),
        (units.parse_bytes, "1.5 MiB", 1_572_864),
        (units.parse_bytes, "10MB", 10_000_000),
        (units.parse_bytes, "2g", 2_000_000_000),
        (units.parse_seconds, "1", 1.0),
        (units.parse_seconds, "50ms", 0.05),
        (units.parse_seconds, "2m", 120.0),
        (units.parse_seconds, ".5s", 0.5),
        (units.parse_count, "1e9", 10**9),
        (units.parse_count, "1_000", 1000),
        (units.parse_count, "9007199254740993", 9_007_199_254_740_993),
        (units.parse_range, "0-3", (0.0, 3.0)),
        (units.parse_range, "50ms-2s", (0.05, 2.0)),
        (units.parse_range, "5", (5.0, 5.0)),
    ],
)
def test_values_are_parsed_with_and_without_unit(parse: Callable[[str], object], text: str, expected: object) -> None:
    """This holds for each parser."""
    assert parse(text) == expected


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (units.parse_bytes, ""),
        (units.parse_bytes, "1.5"),
        (units.parse_bytes, "-1"),
        (units.parse_bytes, "64 pages"),
        (units.parse_bytes, "1e30"),
        (units.parse_seconds, "soon"),
        (units.parse_seconds, "nan"),
        (units.parse_seconds, "1e400"),
        (units.parse_count, "1KiB"),
        (units.parse_count, "0.5"),
        (units.parse_count, "9223372036854775808"),
        (units.parse_range, "3-1"),
        (units.parse_range, "1-"),
    ],
)
def test_impossible_values_with_units_are_refused(parse: Callable[[str], object], text: str) -> None:
    """The message says what is wrong."""
    with pytest.raises(ValueError, match=r"understood|whole|large|ends before"):
        parse(text)


def test_counts_bytes_and_durations_are_readable() -> None:
    """Values are rounded, and have separators or units."""
    assert units.format_count(1_234_567) == "1,234,567"
    assert [units.format_bytes(count) for count in (0, 980, 1024, 1_572_864, 5 << 40)] == [
        "0 B",
        "980 B",
        "1 KiB",
        "1.5 MiB",
        "5.0 TiB",
    ]
    assert [units.format_seconds(seconds) for seconds in (0.314, 42, 59.7, 185, 10_020)] == [
        "0.31 s",
        "42 s",
        "1 min 00 s",
        "3 min 05 s",
        "2 h 47 min",
    ]
