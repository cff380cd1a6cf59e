"""Errors between the processes of a job on Ray: as their class and their text."""

from fetchmill import errors
from fetchmill.errors import FetchmillError


def error_of(kind: str, text: str) -> FetchmillError:
    """An error of another process, as it was there.

    Args:
        kind: the name of its class; an unknown one is a plain `FetchmillError`.
        text: what it says.
    """
    found = getattr(errors, kind, None)
    if isinstance(found, type) and issubclass(found, FetchmillError):
        return found(text)
    return FetchmillError(text)
