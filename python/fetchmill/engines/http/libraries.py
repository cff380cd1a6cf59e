"""The libraries of the engines in Python: an extra of the package, imported when an engine is made.

Each has a range of versions that the tests run with, both ends included. Outside of it nobody knows what a release has
changed, so the transports then use public API only and close each connection after its reply.
"""

import importlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType

from fetchmill.errors import UsageError

# Anything else is a release candidate, a development version or somebody's own build.
_RELEASE = re.compile(r"[0-9]+(?:\.[0-9]+)*")


@dataclass(frozen=True)
class Library:
    """A library and the versions that the tests run with.

    Args:
        name: what it is imported and installed as.
        floor: the oldest tested version: no advisory for it is known.
        newest: the newest tested version.
    """

    name: str
    floor: str
    newest: str

    def load(self) -> ModuleType:
        """Imports it.

        Raises:
            UsageError: it is not installed.
        """
        return import_library(self.name)

    def is_tested(self, version: str) -> bool:
        """Whether the tests cover a version."""
        if _RELEASE.fullmatch(version) is None:
            return False
        return _numbers(self.floor) <= _numbers(version) <= _numbers(self.newest)


# pyproject.toml declares the same ranges; tests/engines/test_engine_libraries.py compares them.
AIOHTTP = Library("aiohttp", "3.14.4", "3.14.5")
REQUESTS = Library("requests", "2.33.0", "2.34.2")
URLLIB3 = Library("urllib3", "2.8.0", "2.8.0")


def untested_notices(libraries: Sequence[Library]) -> tuple[str, ...]:
    """A line for each library whose version is outside its tested range; none if all are inside.

    Raises:
        UsageError: one is not installed.
    """
    return tuple(
        f"{library.name} {version}: not a tested version ({_range_text(library)}); each request has a connection "
        "of its own, which is slower. For a tested version: pip install 'fetchmill[engines]'"
        for library in libraries
        if not library.is_tested(version := str(library.load().__version__))
    )


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


def _range_text(library: Library) -> str:
    return library.newest if library.floor == library.newest else f"{library.floor} to {library.newest}"


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in version.split("."))
