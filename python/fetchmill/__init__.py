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
    from fetchmill.exporting import export
    from fetchmill.job import get
    from fetchmill.ledger import failures, status
    from fetchmill.objects import Object, Objects, open  # noqa: A004 - as fetchmill.open
    from fetchmill.options import GetOptions
    from fetchmill.report import Failure, Report, Status
    from fetchmill.verifying import Finding, VerifyReport, verify

__all__ = [
    "BusyError",
    "Failure",
    "FetchmillError",
    "Finding",
    "GetOptions",
    "InternalError",
    "JournalError",
    "ListingError",
    "Object",
    "Objects",
    "Report",
    "SecurityError",
    "Status",
    "StorageError",
    "TemporaryError",
    "UsageError",
    "VerifyReport",
    "__version__",
    "export",
    "failures",
    "get",
    "open",
    "status",
    "verify",
]

_HOMES = {
    "__version__": "fetchmill._native",
    "export": "fetchmill.exporting",
    "failures": "fetchmill.ledger",
    "get": "fetchmill.job",
    "open": "fetchmill.objects",
    "status": "fetchmill.ledger",
    "verify": "fetchmill.verifying",
    "Failure": "fetchmill.report",
    "Finding": "fetchmill.verifying",
    "GetOptions": "fetchmill.options",
    "Object": "fetchmill.objects",
    "Objects": "fetchmill.objects",
    "Report": "fetchmill.report",
    "Status": "fetchmill.report",
    "VerifyReport": "fetchmill.verifying",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever the name stands for
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOMES.get(name, "fetchmill.errors")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
