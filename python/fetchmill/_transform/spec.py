"""`transform`: prepares a function for the processes that run it between fetching and storing.

The engine starts the processes and communicates with them (see `process`). Replies do not pass through Python code in
this process.
"""

import inspect
import pickle
import subprocess
import sys
from collections.abc import Sequence
from importlib import import_module
from multiprocessing import spawn
from operator import attrgetter
from typing import Any

from fetchmill._transform.process import TransformSetup
from fetchmill._transform.reply import Function
from fetchmill.bounded.portable import NotPortableError, portable
from fetchmill.errors import UsageError

# The search path must be set before anything in this package is imported.
_PROGRAM = "import sys; sys.path[:] = sys.argv[1:]; from fetchmill._transform.process import main; main()"


def native_transform(transform: Function | str, columns: Sequence[str], images: str | None = None) -> dict[str, Any]:
    """Return the settings that the native module needs to run a transform.

    Args:
        transform: the function, or its location as `module:function`.
        columns: the columns that the function may fill.
        images: an image transform's settings, as text. The text is part of the job's identity.

    Raises:
        UsageError: the function cannot be imported here or in another process.
    """
    function = _import(transform) if isinstance(transform, str) else transform
    if inspect.iscoroutinefunction(function):
        raise UsageError(f"transform must be a plain function, not the coroutine function {_name_of(function)}")
    sent = _portable(function)
    pickled = pickle.dumps(sent)
    needs_main = sent is function and b"__main__" in pickled
    setup = TransformSetup(_preparation(needs_main=needs_main), pickled, tuple(columns))
    return {
        # Like multiprocessing, pass on this interpreter's command-line options.
        "command": [sys.executable, *subprocess._args_from_interpreter_flags(), "-c", _PROGRAM, *sys.path],  # type: ignore[attr-defined]  # noqa: SLF001
        "setup": list(pickle.dumps(setup)),
        "images": images,
    }


def _import(text: str) -> Function:
    """Import the function named by `text`."""
    module, _, path = text.partition(":")
    try:
        found = attrgetter(path)(import_module(module))
    except Exception as error:  # importing a user's module may raise anything
        raise UsageError(f"cannot import transform {text}: {type(error).__name__}: {error}") from error
    if not callable(found):
        raise UsageError(f"transform {text} is not a function")
    return found  # type: ignore[no-any-return]


def _portable(function: Function) -> Function:
    try:
        return portable(function)
    except NotPortableError as error:
        raise UsageError(f"cannot send transform {_name_of(function)} to another process: {error}") from error


def _preparation(*, needs_main: bool) -> dict[str, Any]:
    """Return the data for setting up a process like this one. Include the main module only if the function needs it."""
    try:
        preparation: dict[str, Any] = spawn.get_preparation_data("fetchmill-transform")
    except RuntimeError as error:
        raise UsageError(
            "a transform process imports the main module, which starts a job; put the "
            "code that starts the job below `if __name__ == '__main__':`"
        ) from error
    # The key for multiprocessing's connections is secret, so it must not leave this process.
    preparation.pop("authkey", None)
    if not needs_main:
        preparation = {key: value for key, value in preparation.items() if not key.startswith("init_main")}
    return preparation


def _name_of(function: object) -> str:
    return getattr(function, "__qualname__", type(function).__name__)
