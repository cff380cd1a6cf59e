"""The replies of a dashboard: the page and its parts, JSON figures, and metrics."""

import json
import math
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from importlib.resources import files
from typing import Any, Protocol
from urllib.parse import parse_qs

from fetchmill._dashboard.access import Access
from fetchmill._dashboard.metrics import CONTENT_TYPE, metrics_text
from fetchmill._dashboard.page_server import PageReply
from fetchmill._dashboard.request_head import RequestHead
from fetchmill._native import __version__, hide_secrets

_SCRIPT, _STYLE = "text/javascript; charset=utf-8", "text/css; charset=utf-8"
# Files and their types by path.
_FILES = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/dashboard.css": ("dashboard.css", _STYLE),
    "/dashboard.js": ("dashboard.js", _SCRIPT),
    "/page.js": ("page.js", _SCRIPT),
    "/figures.js": ("figures.js", _SCRIPT),
    "/charts.js": ("charts.js", _SCRIPT),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
    "/uPlot.min.css": ("uplot/uPlot.min.css", _STYLE),
    "/uPlot.iife.min.js": ("uplot/uPlot.iife.min.js", _SCRIPT),
}
_JSON = "application/json"
_QUERY_LENGTH_MAX = 100
_REALM = ("WWW-Authenticate", 'Basic realm="fetchmill: any user, the token as password", charset="UTF-8"')


class ShownJob(Protocol):
    """The part of a job's interface that a dashboard uses."""

    def snapshot(self) -> dict[str, Any]:
        """Return the current counters."""

    def samples(self, after: float) -> list[dict[str, Any]]:
        """Return the samples after a time in seconds since 1970."""


class Pages:
    """Answers requests with the job's current figures.

    Args:
        job: the job.
        told: facts about the job: the command, source and destination.
        access: the rules that decide which clients can read the dashboard.
    """

    def __init__(self, job: ShownJob, told: Mapping[str, str | None], access: Access) -> None:
        self._job = job
        self._told = {name: text and hide_secrets(text) for name, text in told.items()}
        self._access = access
        self._started = time.time() - float(job.snapshot()["seconds"])
        folder = files("fetchmill._dashboard") / "static"
        self._files = {path: (kind, (folder / name).read_bytes()) for path, (name, kind) in _FILES.items()}
        self._figures: dict[str, Callable[[str], PageReply]] = {
            "/metrics": self._metrics,
            "/api/snapshot": self._snapshot,
            "/api/samples": self._samples,
        }

    def answer(self, head: RequestHead, local: str) -> PageReply:
        """Return the reply to a request received on a local address.

        The token is checked first so that clients without it learn nothing.
        """
        if not self._access.allows_authorization(head.authorization):
            return PageReply.of_text(HTTPStatus.UNAUTHORIZED, "the token is missing or wrong", _REALM)
        if not self._access.allows_host(head.host, local):
            return PageReply.of_text(
                HTTPStatus.MISDIRECTED_REQUEST,
                "this dashboard does not accept this host name; add it with --dashboard-host NAME",
            )
        if head.method not in ("GET", "HEAD"):
            return PageReply.of_text(
                HTTPStatus.METHOD_NOT_ALLOWED, "the dashboard is read-only; use GET or HEAD", ("Allow", "GET, HEAD")
            )
        if head.path in self._files:
            kind, body = self._files[head.path]
            return PageReply(HTTPStatus.OK, kind, body)
        if head.path in self._figures:
            return self._figures[head.path](head.query)
        return PageReply.of_text(HTTPStatus.NOT_FOUND, "no such page; use /, /metrics, /api/snapshot or /api/samples")

    def _metrics(self, _query: str) -> PageReply:
        return PageReply(
            HTTPStatus.OK, CONTENT_TYPE, metrics_text(self._job.snapshot(), self._started, __version__).encode()
        )

    def _snapshot(self, _query: str) -> PageReply:
        snapshot = self._job.snapshot()
        for wait in snapshot["waits"]:
            wait["what"] = hide_secrets(wait["what"])
        if snapshot["limited_by"]:
            snapshot["limited_by"]["text"] = hide_secrets(snapshot["limited_by"]["text"])
        own = {"version": __version__, "time": time.time(), "start_time": self._started}
        return _as_json({**snapshot, **self._told, **own})

    def _samples(self, query: str) -> PageReply:
        after = _after(query)
        if after is None:
            return PageReply.of_text(HTTPStatus.BAD_REQUEST, "after must be a number of seconds since 1970")
        return _as_json({"samples": self._job.samples(after)})


def _as_json(value: object) -> PageReply:
    return PageReply(HTTPStatus.OK, _JSON, json.dumps(value, allow_nan=False).encode())


def _after(query: str) -> float | None:
    """Return the time in a query: 0 if it is missing, None if it is invalid."""
    if not query:
        return 0.0
    try:
        given = parse_qs(query[:_QUERY_LENGTH_MAX], strict_parsing=True, max_num_fields=1)
        (text,) = given["after"]
        after = float(text)
    except (ValueError, KeyError):
        return None
    return after if math.isfinite(after) else None
