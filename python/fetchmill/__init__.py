"""fetchmill fetches huge numbers of small HTTP objects: crash-safe, in flat memory, close to the kernel's speed.

    report = fetchmill.get("http://127.0.0.1:8080", "out/")

The names below are all there is; modules are loaded when a name is first used, so that the command starts quickly.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fetchmill._native import __version__
    from fetchmill.errors import (
        BusyError,
        FetchmillError,
        InternalError,
        JournalError,
        ListingError,
        SecurityError,
        StorageError,
        TemporaryError,
        UsageError,
    )
    from fetchmill.job import get
    from fetchmill.ledger import failures, status
    from fetchmill.options import GetOptions
    from fetchmill.report import Failure, Report, Status

__all__ = [
    "BusyError",
    "Failure",
    "FetchmillError",
    "GetOptions",
    "InternalError",
    "JournalError",
    "ListingError",
    "Report",
    "SecurityError",
    "Status",
    "StorageError",
    "TemporaryError",
    "UsageError",
    "__version__",
    "failures",
    "get",
    "status",
]

_HOMES = {
    "__version__": "fetchmill._native",
    "failures": "fetchmill.ledger",
    "get": "fetchmill.job",
    "status": "fetchmill.ledger",
    "Failure": "fetchmill.report",
    "GetOptions": "fetchmill.options",
    "Report": "fetchmill.report",
    "Status": "fetchmill.report",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever the name stands for
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOMES.get(name, "fetchmill.errors")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
