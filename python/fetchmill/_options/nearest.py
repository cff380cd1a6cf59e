"""Guesses which known name a user meant."""

import difflib
from collections.abc import Collection, Mapping

# Synonyms for values.
_VALUES = {
    **dict.fromkeys(("webdataset", "wds"), "tar"),
    **dict.fromkeys(("json", "ndjson", "jsonlines"), "jsonl"),
    **dict.fromkeys(("arrow", "pq", "table"), "parquet"),
    **dict.fromkeys(("folder", "file", "raw", "dir"), "files"),
    **dict.fromkeys(("cursor", "token"), "marker"),
}


def nearest_value(value: str, choices: Collection[str]) -> str | None:
    """Return the choice that the user probably meant."""
    return nearest(value, choices, _VALUES)


def nearest_spelling(name: str, known: Collection[str]) -> str | None:
    """Return the known name with the most similar spelling."""
    close = difflib.get_close_matches(name, known, n=1)
    return close[0] if close else None


def nearest(name: str, known: Collection[str], meanings: Mapping[str, str]) -> str | None:
    """Return the known name with the same meaning, or else with the closest spelling. Also match misspelt synonyms."""
    if (meant := meanings.get(name)) in known:
        return meant
    close = nearest_spelling(name, [*known, *(word for word, meant in meanings.items() if meant in known)])
    return None if close is None else meanings.get(close, close) if close not in known else close
