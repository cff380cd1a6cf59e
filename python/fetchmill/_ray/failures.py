"""Passes errors between the processes of a job on Ray, as a class name and a text."""

from fetchmill import errors
from fetchmill.errors import FetchmillError


def error_of(kind: str, text: str) -> FetchmillError:
    """Recreate an error from another process.

    Args:
        kind: the name of the error's class. An unknown class becomes a plain `FetchmillError`.
        text: the text of the error.
    """
    found = getattr(errors, kind, None)
    if isinstance(found, type) and issubclass(found, FetchmillError):
        return found(text)
    return FetchmillError(text)
