"""fetchmill fetches huge numbers of small HTTP objects: crash-safe, in flat memory, close to the kernel's speed.

    report = fetchmill.get("http://127.0.0.1:8080", "out/")

The names below are all there is; modules are loaded when a name is first used, so that the command starts quickly.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fetchmill import bounded
    from fetchmill._native import __version__
    from fetchmill.check_options import CheckOptions
    from fetchmill.checking import CheckReport, check
    from fetchmill.differing import Change, DiffReport, diff
    from fetchmill.errors import (
        BusyError,
        FetchmillError,
        InternalError,
        JournalError,
        ListingError,
        ReplyError,
        SecurityError,
        StatusError,
        StorageError,
        TemporaryError,
        UsageError,
    )
    from fetchmill.exporting import export
    from fetchmill.fetched import FetchedReply
    from fetchmill.job import get
    from fetchmill.ledger import failures, status
    from fetchmill.list_options import ListOptions
    from fetchmill.listing import ListedTarget, ListReport, list  # noqa: A004 - as fetchmill.list
    from fetchmill.objects import Object, Objects, open  # noqa: A004 - as fetchmill.open
    from fetchmill.options import GetOptions
    from fetchmill.report import Failure, Report, Status
    from fetchmill.stream_options import StreamOptions
    from fetchmill.streaming import Client, Headers, Reply, Request, Timings, astream, stream, stream_batches
    from fetchmill.verifying import Finding, VerifyReport, verify

__all__ = [
    "BusyError",
    "Change",
    "CheckOptions",
    "CheckReport",
    "Client",
    "DiffReport",
    "Failure",
    "FetchedReply",
    "FetchmillError",
    "Finding",
    "GetOptions",
    "Headers",
    "InternalError",
    "JournalError",
    "ListOptions",
    "ListReport",
    "ListedTarget",
    "ListingError",
    "Object",
    "Objects",
    "Reply",
    "ReplyError",
    "Report",
    "Request",
    "SecurityError",
    "Status",
    "StatusError",
    "StorageError",
    "StreamOptions",
    "TemporaryError",
    "Timings",
    "UsageError",
    "VerifyReport",
    "__version__",
    "astream",
    "bounded",
    "check",
    "diff",
    "export",
    "failures",
    "get",
    "list",
    "open",
    "status",
    "stream",
    "stream_batches",
    "verify",
]

_HOMES = {
    "__version__": "fetchmill._native",
    "astream": "fetchmill.streaming",
    "check": "fetchmill.checking",
    "diff": "fetchmill.differing",
    "export": "fetchmill.exporting",
    "failures": "fetchmill.ledger",
    "get": "fetchmill.job",
    "list": "fetchmill.listing",
    "open": "fetchmill.objects",
    "status": "fetchmill.ledger",
    "stream": "fetchmill.streaming",
    "stream_batches": "fetchmill.streaming",
    "verify": "fetchmill.verifying",
    "Change": "fetchmill.differing",
    "CheckOptions": "fetchmill.check_options",
    "CheckReport": "fetchmill.checking",
    "DiffReport": "fetchmill.differing",
    "Failure": "fetchmill.report",
    "FetchedReply": "fetchmill.fetched",
    "Finding": "fetchmill.verifying",
    "GetOptions": "fetchmill.options",
    "ListOptions": "fetchmill.list_options",
    "ListReport": "fetchmill.listing",
    "ListedTarget": "fetchmill.listing",
    "Object": "fetchmill.objects",
    "Objects": "fetchmill.objects",
    "Client": "fetchmill.streaming",
    "Headers": "fetchmill.streaming",
    "Reply": "fetchmill.streaming",
    "Report": "fetchmill.report",
    "Request": "fetchmill.streaming",
    "Status": "fetchmill.report",
    "StreamOptions": "fetchmill.stream_options",
    "Timings": "fetchmill.streaming",
    "VerifyReport": "fetchmill.verifying",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever the name stands for
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "bounded":
        return import_module("fetchmill.bounded")
    value = getattr(import_module(_HOMES.get(name, "fetchmill.errors")), name)
    globals()[name] = value
    return value


def __dir__() -> "Iterable[str]":
    return sorted(__all__)
