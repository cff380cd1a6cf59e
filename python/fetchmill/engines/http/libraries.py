"""The libraries of the engines in Python: an extra of the package, imported when an engine is made."""

import importlib
from types import ModuleType

from fetchmill.errors import UsageError


def import_library(name: str) -> ModuleType:
    """Imports a library of the extra.

    Args:
        name: what it is imported as.

    Raises:
        UsageError: it is not installed.
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        # What is missing inside an installed library is another fault, with a message of its own.
        if error.name != name:
            raise
        raise UsageError(
            f"this engine needs the library {name}, which is not installed: pip install 'fetchmill[engines]', "
            "or use the engine native"
        ) from None
