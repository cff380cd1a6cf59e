"""Makes functions picklable for other processes, including functions defined in a notebook."""

import pickle
import sys
from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any, TypeVar, cast

T = TypeVar("T")


class NotPortableError(TypeError):
    """The function cannot be sent to another process."""


def portable(value: T) -> T:
    """Return the value, or a wrapper from which another process unpickles the value.

    Functions defined in a module are pickled by name, and imported by the other process. Lambdas, nested functions and
    functions defined in a notebook cell are pickled by value if cloudpickle is installed.

    Raises:
        NotPortableError: the value can be pickled neither by name nor by value.
    """
    reason = _why_not_by_name(value)
    if reason is None:
        return value
    try:
        import cloudpickle
    except ImportError:
        raise NotPortableError(
            f"{reason}; define functions in a module (in a notebook: %%writefile NAME.py), or install cloudpickle"
        ) from None
    try:
        taken = cloudpickle.dumps(value)
    except Exception as error:
        raise NotPortableError(f"{reason}, and cloudpickle failed ({type(error).__name__}: {error})") from error
    return cast("T", _ByValue(taken))


def _why_not_by_name(value: object) -> str | None:
    """Return the reason why another process cannot import the value, or None if it can."""
    try:
        pickled = bytes(ForkingPickler.dumps(value))
    except Exception as error:  # noqa: BLE001 - a user's object may raise anything
        return f"{type(error).__name__}: {error}"
    # Another process cannot import a main module without a file.
    file = getattr(sys.modules["__main__"], "__file__", None)
    if b"__main__" in pickled and (file is None or not Path(file).exists()):
        return "the function is defined in an interactive session or a notebook"
    return None


class _ByValue:
    """A pickled value that unpickles as the value itself."""

    def __init__(self, taken: bytes) -> None:
        self._taken = taken

    def __reduce__(self) -> tuple[Callable[[bytes], Any], tuple[bytes]]:
        return pickle.loads, (self._taken,)
