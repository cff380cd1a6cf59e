"""The libraries of the Python engines. An extra installs them, and they are imported when an engine is created.

Each library has an inclusive range of tested versions. A version outside this range can differ in any way. With such a
version, the transports use only the public API and close each connection after its reply.
"""

import importlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType

from fetchmill.errors import UsageError

# All other versions are release candidates, development versions or private builds.
_RELEASE = re.compile(r"[0-9]+(?:\.[0-9]+)*")


@dataclass(frozen=True)
class Library:
    """A library, and the versions with which the tests run.

    Args:
        name: the name under which the library is imported and installed.
        floor: the oldest tested version, for which no security advisory is known.
        newest: the newest tested version.
    """

    name: str
    floor: str
    newest: str

    def load(self) -> ModuleType:
        """Import the library.

        Raises:
            UsageError: the library is not installed.
        """
        return import_library(self.name)

    def is_tested(self, version: str) -> bool:
        """Return whether the tests cover a version."""
        if _RELEASE.fullmatch(version) is None:
            return False
        return _numbers(self.floor) <= _numbers(version) <= _numbers(self.newest)


# pyproject.toml declares the same ranges, and tests/engines/test_engine_libraries.py compares them.
AIOHTTP = Library("aiohttp", "3.14.4", "3.14.5")
REQUESTS = Library("requests", "2.33.0", "2.34.2")
URLLIB3 = Library("urllib3", "2.8.0", "2.8.0")


def untested_notices(libraries: Sequence[Library]) -> tuple[str, ...]:
    """Return a line for each library whose version is outside the tested range.

    Raises:
        UsageError: a library is not installed.
    """
    return tuple(
        f"{library.name} {version}: not a tested version ({_range_text(library)}), so each request uses "
        "its own connection, which is slower; for a tested version, pip install 'fetchmill[engines]'"
        for library in libraries
        if not library.is_tested(version := str(library.load().__version__))
    )


def import_library(name: str) -> ModuleType:
    """Import a library that the extra installs.

    Args:
        name: the name under which the library is imported.

    Raises:
        UsageError: the library is not installed.
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        # If the library is installed but lacks another module, raise the original error.
        if error.name != name:
            raise
        raise UsageError(
            f"this engine requires the library {name}, which is not installed; run "
            "pip install 'fetchmill[engines]', or use the native engine"
        ) from None


def _range_text(library: Library) -> str:
    return library.newest if library.floor == library.newest else f"{library.floor} to {library.newest}"


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in version.split("."))
