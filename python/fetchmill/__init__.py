"""fetchmill fetches huge numbers of small HTTP objects. It survives crashes and runs in constant memory.

    report = fetchmill.get("http://127.0.0.1:8080", "out/")

`__all__` lists all public names. Modules are loaded lazily, when one of their names is first used, so that the command
starts quickly.
"""

from importlib import import_module

# Replaces `typing.TYPE_CHECKING`, because importing `typing` takes longer than everything else here.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from fetchmill import bounded
    from fetchmill._destination.diff import Change, DiffReport, diff
    from fetchmill._destination.export import export
    from fetchmill._destination.history import JobHistory, history
    from fetchmill._destination.objects import Object, Objects, open  # noqa: A004 - exported as fetchmill.open
    from fetchmill._destination.status import failures, skipped, status
    from fetchmill._destination.verify import Finding, VerifyReport, verify
    from fetchmill._job.check import CheckReport, check
    from fetchmill._job.get import get, resume
    from fetchmill._job.list import ListedTarget, ListReport, list  # noqa: A004 - exported as fetchmill.list
    from fetchmill._job.report import (
        Failure,
        JobProgress,
        Latency,
        LimitedBy,
        OriginLatency,
        Report,
        Skipped,
        Snapshot,
        Status,
        Wait,
    )
    from fetchmill._native import __version__
    from fetchmill._options.check import CheckOptions
    from fetchmill._options.get import GetOptions
    from fetchmill._options.list import ListOptions
    from fetchmill._options.plan import PlanOptions
    from fetchmill._options.stream import StreamOptions
    from fetchmill._options.sync import SyncOptions
    from fetchmill._plan.plan import plan
    from fetchmill._plan.result import FormatPlan, Plan
    from fetchmill._plan.windows import Estimate
    from fetchmill._ray.settings import Ray
    from fetchmill._stream.stream import Client, Headers, Reply, Request, Timings, astream, stream, stream_batches
    from fetchmill._sync.report import SyncPlan, SyncReport
    from fetchmill._sync.sync import sync
    from fetchmill._transform.reply import FetchedReply
    from fetchmill.cli.config import load_config
    from fetchmill.errors import (
        AccessError,
        BusyError,
        DeleteLimitError,
        FetchmillError,
        InternalError,
        JournalError,
        ListingError,
        ReplyError,
        SecurityError,
        StatusError,
        StorageError,
        StrayReplyError,
        TemporaryError,
        UsageError,
    )

__all__ = [
    "AccessError",
    "BusyError",
    "Change",
    "CheckOptions",
    "CheckReport",
    "Client",
    "DeleteLimitError",
    "DiffReport",
    "Estimate",
    "Failure",
    "FetchedReply",
    "FetchmillError",
    "Finding",
    "FormatPlan",
    "GetOptions",
    "Headers",
    "InternalError",
    "JobHistory",
    "JobProgress",
    "JournalError",
    "Latency",
    "LimitedBy",
    "ListOptions",
    "ListReport",
    "ListedTarget",
    "ListingError",
    "Object",
    "Objects",
    "OriginLatency",
    "Plan",
    "PlanOptions",
    "Ray",
    "Reply",
    "ReplyError",
    "Report",
    "Request",
    "SecurityError",
    "Skipped",
    "Snapshot",
    "Status",
    "StatusError",
    "StorageError",
    "StrayReplyError",
    "StreamOptions",
    "SyncOptions",
    "SyncPlan",
    "SyncReport",
    "TemporaryError",
    "Timings",
    "UsageError",
    "VerifyReport",
    "Wait",
    "__version__",
    "astream",
    "bounded",
    "check",
    "diff",
    "export",
    "failures",
    "get",
    "history",
    "list",
    "load_config",
    "open",
    "plan",
    "resume",
    "skipped",
    "status",
    "stream",
    "stream_batches",
    "sync",
    "verify",
]

_MODULES = {
    "__version__": "fetchmill._native",
    "astream": "fetchmill._stream.stream",
    "check": "fetchmill._job.check",
    "diff": "fetchmill._destination.diff",
    "export": "fetchmill._destination.export",
    "failures": "fetchmill._destination.status",
    "skipped": "fetchmill._destination.status",
    "get": "fetchmill._job.get",
    "history": "fetchmill._destination.history",
    "list": "fetchmill._job.list",
    "load_config": "fetchmill.cli.config",
    "open": "fetchmill._destination.objects",
    "plan": "fetchmill._plan.plan",
    "resume": "fetchmill._job.get",
    "status": "fetchmill._destination.status",
    "stream": "fetchmill._stream.stream",
    "stream_batches": "fetchmill._stream.stream",
    "sync": "fetchmill._sync.sync",
    "verify": "fetchmill._destination.verify",
    "Change": "fetchmill._destination.diff",
    "CheckOptions": "fetchmill._options.check",
    "CheckReport": "fetchmill._job.check",
    "DiffReport": "fetchmill._destination.diff",
    "Estimate": "fetchmill._plan.windows",
    "Failure": "fetchmill._job.report",
    "Skipped": "fetchmill._job.report",
    "Snapshot": "fetchmill._job.report",
    "FetchedReply": "fetchmill._transform.reply",
    "Finding": "fetchmill._destination.verify",
    "FormatPlan": "fetchmill._plan.result",
    "GetOptions": "fetchmill._options.get",
    "ListOptions": "fetchmill._options.list",
    "Latency": "fetchmill._job.report",
    "OriginLatency": "fetchmill._job.report",
    "LimitedBy": "fetchmill._job.report",
    "ListReport": "fetchmill._job.list",
    "ListedTarget": "fetchmill._job.list",
    "Object": "fetchmill._destination.objects",
    "Objects": "fetchmill._destination.objects",
    "Plan": "fetchmill._plan.result",
    "PlanOptions": "fetchmill._options.plan",
    "Ray": "fetchmill._ray.settings",
    "Client": "fetchmill._stream.stream",
    "Headers": "fetchmill._stream.stream",
    "Reply": "fetchmill._stream.stream",
    "JobHistory": "fetchmill._destination.history",
    "JobProgress": "fetchmill._job.report",
    "Report": "fetchmill._job.report",
    "Request": "fetchmill._stream.stream",
    "Status": "fetchmill._job.report",
    "StreamOptions": "fetchmill._options.stream",
    "SyncOptions": "fetchmill._options.sync",
    "SyncPlan": "fetchmill._sync.report",
    "SyncReport": "fetchmill._sync.report",
    "Timings": "fetchmill._stream.stream",
    "VerifyReport": "fetchmill._destination.verify",
    "Wait": "fetchmill._job.report",
}


def __getattr__(name: str) -> "Any":  # noqa: ANN401 - any public object
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "bounded":
        return import_module("fetchmill.bounded")
    try:
        module = import_module(_MODULES.get(name, "fetchmill.errors"))
    except ImportError as error:
        from fetchmill._platform import explain

        raise explain(error) from error
    value = getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> "Iterable[str]":
    return sorted(__all__)
