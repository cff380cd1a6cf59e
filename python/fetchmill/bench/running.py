"""One run: a server, a contender beside it, and what came of it as a row of the document."""

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from fetchmill.bench.answers import Answers, answers_of, differences
from fetchmill.bench.commands import command_of
from fetchmill.bench.contestants import BUCKETS
from fetchmill.bench.measuring import Measured, measure
from fetchmill.bench.places import Place, bucket_store, file_server, foreign_server, world
from fetchmill.bench.plan import WARM_UP_SECONDS, Run
from fetchmill.bench.told import Told, told_by
from fetchmill.errors import FetchmillError

# Of a program that makes all requests that it is told to.
_WARM_UP_REQUESTS = 100
_WARM_UP_GRACE = 5.0

_Number = TypeVar("_Number", int, float)


@dataclass(frozen=True, kw_only=True)
class _Outcome:
    """What came of a run, before it is a row."""

    told: Told
    measured: Measured | None = None
    server_cpu_seconds: float | None = None
    answers: Answers | None = None


class Bench:
    """Runs contenders one after the other; of sites it remembers what the check has found.

    Args:
        folder: where all this happens.
        url: the user's own server.
        warm_up: whether a run that does not count goes before each.
    """

    def __init__(self, folder: Path, url: str | None, *, warm_up: bool) -> None:
        self._folder = folder
        self._url = url
        self._warm_up = warm_up
        self._checked: dict[int, Answers] = {}

    def run(self, run: Run) -> dict[str, Any]:
        """One run as a row of the document; whatever the contender does, this goes on.

        Raises:
            ListingError: the user's server does not list anything.
        """
        if self._warm_up:
            # On a server of its own: some sites remember who has asked.
            brief = _brief(run)
            with self._place(brief) as place:
                self._run(brief, place, grace=_WARM_UP_GRACE)
        with self._place(run) as place:
            return self._row(run, place, self._run(run, place))

    @contextlib.contextmanager
    def _place(self, run: Run) -> Iterator[Place]:
        """Where its requests go: started for this run alone, unless it is the user's."""
        contestant = run.contestant
        if run.sites is not None:
            folder = self._folder / f"sites-{run.sites}"
            folder.mkdir(exist_ok=True)
            with world(run.sites, folder) as place:
                yield place
        elif run.scenario.name == BUCKETS:
            with bucket_store(run.requests, run.store, self._folder) as place:
                yield place
        elif self._url is not None:
            with foreign_server(self._url.rstrip("/"), run.requests, self._folder) as place:
                yield place
        else:
            with_urls = contestant.starts_from_urls and (contestant.kind != "own" or "{urls}" in contestant.name)
            with file_server(run.requests, run.scenario.serve, self._folder, with_urls=with_urls) as place:
                yield place

    def _run(self, run: Run, place: Place, *, grace: float | None = None) -> _Outcome:
        with _temporary(self._folder) as folder:
            command = command_of(run, place, folder)
            bounds = command.bounds if grace is None else replace(command.bounds, grace=grace)
            served, busy = place.served(), place.server_cpu_seconds()
            try:
                measured = measure(command.arguments, bounds, folder=command.folder, environment=command.environment)
            except OSError as error:
                reason = f"{command.arguments[0]} cannot be started: {error.strerror}"
                return _Outcome(told=Told(status="failed", reason=reason))
            busy = _since(busy, place.server_cpu_seconds())
            told = told_by(run, place.count, measured, _since(served, place.served()))
            outcome = _Outcome(told=told, measured=measured, server_cpu_seconds=busy)
            if run.sites is None or told.status == "failed":
                return outcome
            return _with_answers(outcome, run, place, folder)

    def _row(self, run: Run, place: Place, outcome: _Outcome) -> dict[str, Any]:
        told, measured = outcome.told, outcome.measured
        failures, differs = told.failures, None
        if run.sites is not None and outcome.answers is not None:
            failures = sum(not found.isdigit() for found in outcome.answers.values())
            differs = self._compared(run, run.sites, outcome.answers)
        return {
            "scenario": run.scenario.name,
            "contender": run.contestant.name,
            "way": run.contestant.way,
            "row": run.contestant.row,
            "requests": place.count,
            "limit": run.limit,
            "sites": run.sites,
            "repeat": run.repeat,
            "status": told.status,
            "reason": told.reason,
            "done": told.done,
            "failures": failures,
            "seconds": _rounded(told.seconds),
            "requests_per_second": _rounded(told.rate),
            "steady_per_second": _rounded(told.steady_rate(run)),
            "set_up_seconds": _rounded(told.set_up),
            "cpu_seconds": _rounded(measured.cpu_seconds) if measured else 0.0,
            "server_cpu_seconds": _rounded(outcome.server_cpu_seconds),
            "peak_mib": _rounded(measured.peak_mib) if measured else 0.0,
            "differs": differs,
        }

    def _compared(self, run: Run, sites: int, answers: Answers) -> dict[str, Any] | None:
        """How it differs from the check, which goes before the others; None of the check itself, and without one."""
        if run.contestant.kind == "check":
            self._checked[sites] = answers
            return None
        return differences(answers, self._checked[sites]) if sites in self._checked else None


def _brief(run: Run) -> Run:
    """The warm-up of a run: short, and with few requests for a program that would make all that it is told."""
    few = run.contestant.starts_from_urls and run.sites is None
    requests = min(run.requests, _WARM_UP_REQUESTS) if few else run.requests
    return replace(run, seconds=min(WARM_UP_SECONDS, run.seconds), requests=requests)


@contextlib.contextmanager
def _temporary(around: Path) -> Iterator[Path]:
    """An empty folder for one run. What a contender has left there may be in use while it is removed."""
    folder = Path(tempfile.mkdtemp(dir=around))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _with_answers(outcome: _Outcome, run: Run, place: Place, folder: Path) -> _Outcome:
    """With what each site answered, as the contender has left it."""
    is_complete = outcome.told.status == "ok"
    try:
        return replace(outcome, answers=answers_of(run.contestant.kind, folder, place.urls, is_complete=is_complete))
    except (FetchmillError, ValueError) as error:
        return replace(outcome, told=replace(outcome.told, status="failed", reason=str(error)))


def _since(before: _Number | None, after: _Number | None) -> _Number | None:
    return None if before is None or after is None else after - before


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
