"""The libraries of the Python engines. An extra installs them, and creating an engine imports them.

Each library has a range of tested versions, which includes both ends. A version outside this range may differ in any
way, so the transports then use only public API and close each connection after its reply.
"""

import importlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType

from fetchmill.errors import UsageError

# Other versions are release candidates, development versions or private builds.
_RELEASE = re.compile(r"[0-9]+(?:\.[0-9]+)*")


@dataclass(frozen=True)
class Library:
    """A library, and the versions with which the tests run.

    Args:
        name: name for importing and installing the library.
        floor: the oldest tested version. No security advisory is known for it.
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
    """Import a library of the extra.

    Args:
        name: name for importing the library.

    Raises:
        UsageError: the library is not installed.
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        # An installed library that lacks another module is a different error with its own message.
        if error.name != name:
            raise
        raise UsageError(
            f"this engine needs the library {name}, which is not installed; run "
            "pip install 'fetchmill[engines]', or use the native engine"
        ) from None


def _range_text(library: Library) -> str:
    return library.newest if library.floor == library.newest else f"{library.floor} to {library.newest}"


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in version.split("."))
