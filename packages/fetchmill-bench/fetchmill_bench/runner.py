"""Makes a run: starts a server and a contender, and returns the result as a row of the document."""

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from fetchmill.errors import FetchmillError
from fetchmill_bench.answers import Answers, differences, read_answers
from fetchmill_bench.commands import command_of
from fetchmill_bench.contender_result import ContenderResult, read_result
from fetchmill_bench.contender_table import BUCKETS
from fetchmill_bench.endpoints import Endpoint, bucket_store, file_server, foreign_server, world
from fetchmill_bench.measurement import Measurement, measure
from fetchmill_bench.plan import WARM_UP_SECONDS, Run

# Number of warm-up requests for a way that starts from a list of URLs.
_WARM_UP_REQUESTS = 100
_WARM_UP_GRACE = 5.0

_Number = TypeVar("_Number", int, float)


@dataclass(frozen=True, kw_only=True)
class _RunOutcome:
    """The result of a run, before it becomes a row."""

    result: ContenderResult
    measurement: Measurement | None = None
    server_cpu_seconds: float | None = None
    answers: Answers | None = None


class Bench:
    """Runs contenders one at a time. For sites, it remembers the results of the check.

    Args:
        folder: folder for the files of all runs.
        url: the user's own server.
        warm_up: whether to precede each run with one that does not count.
    """

    def __init__(self, folder: Path, url: str | None, *, warm_up: bool) -> None:
        self._folder = folder
        self._url = url
        self._warm_up = warm_up
        self._checked: dict[int, Answers] = {}

    def run(self, run: Run) -> dict[str, Any]:
        """Makes a run and returns it as a row of the document. The bench continues even if the contender fails.

        Raises:
            ListingError: the user's server lists no objects.
        """
        if self._warm_up:
            # Use a separate server for the warm-up, because some sites remember their clients.
            brief = _make_warm_up(run)
            with self._endpoint(brief) as endpoint:
                self._run(brief, endpoint, grace=_WARM_UP_GRACE)
        with self._endpoint(run) as endpoint:
            return self._row(run, endpoint, self._run(run, endpoint))

    @contextlib.contextmanager
    def _endpoint(self, run: Run) -> Iterator[Endpoint]:
        """Starts a separate server for this run's requests, or uses the user's own server."""
        contender = run.contender
        if run.sites is not None:
            folder = self._folder / f"sites-{run.sites}"
            folder.mkdir(exist_ok=True)
            with world(run.sites, folder) as endpoint:
                yield endpoint
        elif run.scenario.name == BUCKETS:
            with bucket_store(run.requests, run.store, self._folder) as endpoint:
                yield endpoint
        elif self._url is not None:
            with foreign_server(self._url.rstrip("/"), run.requests, self._folder) as endpoint:
                yield endpoint
        else:
            with_urls = contender.starts_from_urls and (contender.kind != "own" or "{urls}" in contender.name)
            with file_server(run.requests, run.scenario.serve, self._folder, with_urls=with_urls) as endpoint:
                yield endpoint

    def _run(self, run: Run, endpoint: Endpoint, *, grace: float | None = None) -> _RunOutcome:
        with _temporary_folder(self._folder) as folder:
            command = command_of(run, endpoint, folder)
            bounds = command.bounds if grace is None else replace(command.bounds, grace=grace)
            served, busy = endpoint.served(), endpoint.server_cpu_seconds()
            try:
                measurement = measure(command.arguments, bounds, folder=command.folder, environment=command.environment)
            except OSError as error:
                reason = f"{command.arguments[0]} cannot be started: {error.strerror}"
                return _RunOutcome(result=ContenderResult(status="failed", reason=reason))
            busy = _since(busy, endpoint.server_cpu_seconds())
            result = read_result(run, endpoint.count, measurement, _since(served, endpoint.served()))
            outcome = _RunOutcome(result=result, measurement=measurement, server_cpu_seconds=busy)
            if run.sites is None or result.status == "failed":
                return outcome
            return _with_answers(outcome, run, endpoint, folder)

    def _row(self, run: Run, endpoint: Endpoint, outcome: _RunOutcome) -> dict[str, Any]:
        result, measurement = outcome.result, outcome.measurement
        failures, differs = result.failures, None
        if run.sites is not None and outcome.answers is not None:
            failures = sum(not found.isdigit() for found in outcome.answers.values())
            differs = self._compare(run, run.sites, outcome.answers)
        return {
            "scenario": run.scenario.name,
            "contender": run.contender.name,
            "way": run.contender.way,
            "row": run.contender.row,
            "requests": endpoint.count,
            "limit": run.limit,
            "sites": run.sites,
            "repeat": run.repeat,
            "status": result.status,
            "reason": result.reason,
            "done": result.done,
            "failures": failures,
            "seconds": _round(result.seconds),
            "requests_per_second": _round(result.rate),
            "steady_per_second": _round(result.steady_rate(run)),
            "set_up_seconds": _round(result.set_up),
            "cpu_seconds": _round(measurement.cpu_seconds) if measurement else 0.0,
            "server_cpu_seconds": _round(outcome.server_cpu_seconds),
            "peak_mib": _round(measurement.peak_mib) if measurement else 0.0,
            "differs": differs,
        }

    def _compare(self, run: Run, sites: int, answers: Answers) -> dict[str, Any] | None:
        """Returns the differences from the check, which runs first; None for the check itself, or without a check."""
        if run.contender.kind == "check":
            self._checked[sites] = answers
            return None
        return differences(answers, self._checked[sites]) if sites in self._checked else None


def _make_warm_up(run: Run) -> Run:
    """Returns a short warm-up for a run. A way that starts from a list of URLs gets only a few of them."""
    few = run.contender.starts_from_urls and run.sites is None
    requests = min(run.requests, _WARM_UP_REQUESTS) if few else run.requests
    return replace(run, seconds=min(WARM_UP_SECONDS, run.seconds), requests=requests)


@contextlib.contextmanager
def _temporary_folder(around: Path) -> Iterator[Path]:
    """Creates an empty folder for one run. When the folder is removed, files in it may still be in use."""
    folder = Path(tempfile.mkdtemp(dir=around))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _with_answers(outcome: _RunOutcome, run: Run, endpoint: Endpoint, folder: Path) -> _RunOutcome:
    """Adds the sites' answers that the contender has recorded."""
    is_complete = outcome.result.status == "ok"
    try:
        return replace(
            outcome, answers=read_answers(run.contender.kind, folder, endpoint.urls, is_complete=is_complete)
        )
    except (FetchmillError, ValueError) as error:
        return replace(outcome, result=replace(outcome.result, status="failed", reason=str(error)))


def _since(before: _Number | None, after: _Number | None) -> _Number | None:
    return None if before is None or after is None else after - before


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
