"""Parses dates. A date is a time with a time zone, or a day, which begins at 00:00 UTC."""

from datetime import UTC, date, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = timedelta(seconds=1)


def parse_date(text: str) -> datetime:
    """Parse a date such as `2026-11-22`, `2026-11-22T08:30:00Z` or `2026-11-22T08:30+02:00` (ISO 8601).

    Raises:
        ValueError: the text is not a date, or contains a time without a time zone.
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        example = "2026-11-22 or 2026-11-22T08:30:00Z"
        raise ValueError(f"{text!r} is not understood; write, for example, {example}") from None
    if moment.tzinfo is not None:
        return moment
    try:
        date.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} has no time zone; append Z for UTC, or an offset such as +02:00") from None
    return moment.replace(tzinfo=UTC)


def seconds_of(value: str | date | datetime) -> int:
    """Convert a date to seconds since 1970 UTC, rounded up because listings contain whole seconds.

    Raises:
        ValueError: the value is not a date with a time zone, or is before 1970.
    """
    moment = parse_date(value) if isinstance(value, str) else _moment_of(value)
    seconds = -((_EPOCH - moment) // _SECOND)
    if seconds < 0:
        raise ValueError(f"{moment.isoformat()} is before 1970")
    return seconds


def _moment_of(value: date | datetime) -> datetime:
    if not isinstance(value, datetime):
        return datetime(value.year, value.month, value.day, tzinfo=UTC)
    if value.tzinfo is None:
        raise ValueError(f"{value.isoformat()} has no time zone; set tzinfo, for example to datetime.UTC")
    return value
