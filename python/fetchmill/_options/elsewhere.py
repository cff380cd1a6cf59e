"""Explains why a call or command lacks an option that others accept."""

from collections.abc import Mapping

from fetchmill._options import table
from fetchmill._options.rows import Option

_CLASSES: Mapping[str, Mapping[str, Option]] = {
    "get": table.GET,
    "plan": table.PLAN,
    "check": table.CHECK,
    "list": table.LIST,
    "sync": table.SYNC,
    "stream": table.STREAM,
}
_PROGRAM_DECIDES = "a stream requests the URLs that your program passes"
_STORES_NOTHING = "it stores no objects"
_ONLY_LISTS = "it requests no objects"
_WHOLE = "a sync compares DEST with the whole source, and would treat the remaining objects as deleted"
_LATER = "a sync would have to keep or delete objects that opt out later"
# Reasons by call and option, for cases where naming the calls that accept the option is not enough.
_REASONS = {
    ("stream", "robots"): f"{_PROGRAM_DECIDES}; it can check them with urllib.robotparser",
    ("list", "opt_out"): _ONLY_LISTS,
    ("sync", "opt_out"): _LATER,
    ("sync", "first"): _WHOLE,
    ("list", "first"): "to end the listing early, raise an exception in `each`",
    ("plan", "first"): "a plan always covers the whole job",
    ("stream", "first"): "your program ends a stream by leaving the loop",
    ("check", "compressed"): _STORES_NOTHING,
}


def describe_elsewhere(call: str, name: str) -> str | None:
    """Name the other calls that accept an option. Return None if this call accepts it, or if no call does.

    Args:
        call: the call or command: `get`, `check`, `list`, `sync`, `plan` or `stream`.
        name: the option as a keyword.
    """
    having = [each for each, options in _CLASSES.items() if name in options]
    if not having or call not in _CLASSES or call in having:
        return None
    names = " and ".join(filter(None, (", ".join(having[:-1]), having[-1])))
    reason = _REASONS.get((call, name))
    return f"{names} {'has' if len(having) == 1 else 'have'} it" + (f"; {reason}" if reason else "")


def call_of(options: Mapping[str, object]) -> str | None:
    """Return the call to which this option table belongs."""
    return next((call for call, table_of in _CLASSES.items() if table_of is options), None)
