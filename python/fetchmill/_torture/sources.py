"""Creates jobs for the rounds, along with the objects that each job must store."""

import os
import random
import sys
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from fetchmill._native import synthetic_body
from fetchmill._server import Fault, ServeOptions, Server
from fetchmill._torture.comparison import Expected, contents, digest
from fetchmill._torture.supervisor import run
from fetchmill.errors import UsageError

# Number of objects in a job.
OBJECTS = 2000
# Exit codes of a job that has ended, with all targets fetched or with some failed.
FINISHED = (0, 3)

# Time after which a run counts as hung. For the user's source, three times the duration of the undisturbed run is
# added.
_RUN_SECONDS_MAX = 60.0
_BODY_BYTES = 300
_DELAY_SECONDS = (0.0, 0.02)
# The seed chooses the objects. Only the first request for an object can have a fault, and a connection has at most one
# fault.
_FAULTS = (
    Fault("truncate", rate=0.02, times=1),
    Fault("reset", rate=0.01, times=1),
    Fault("unsolicited", rate=0.01, times=1),
    Fault("status", rate=0.01, status=503, times=1),
    Fault("stray", rate=0.05),
)
# Frequent shards and commits provide many moments at which to disturb the job.
_PACE = ("--concurrency", "24", "--seal-after", "50ms", "--commit-window", "20ms")
# Approximate numbers of durable calls in an undisturbed run. They are constant, so that a seed always draws
# the same disturbances.
_CALLS = {"files": 2300, "tar": 280, "jsonl": 280, "parquet": 560, "warc": 280}
# Options of `get` that torture sets itself.
_OWN_OPTIONS = ("--format", "--state", "--first", "--concurrency", "--seal-after", "--commit-window")


@dataclass(frozen=True)
class Job:
    """A job to disturb, and the objects that it must store.

    Args:
        source: the job's SOURCE.
        dest: the destination.
        format: format of the destination.
        arguments: more options for `fetchmill get`.
        environment: environment variables of the runs.
        expected: number of times that each object must be stored, by the name that the format's reader returns.
        calls: number of durable calls of an undisturbed run.
        seconds_max: time after which a run counts as hung.
        server: the server with faults; None for the user's source.
    """

    source: str
    dest: Path
    format: str
    arguments: Sequence[str]
    environment: Mapping[str, str]
    expected: Expected
    calls: int
    seconds_max: float
    server: Server | None = None

    @property
    def get(self) -> list[str]:
        """The command that starts and resumes the job."""
        return _get(self.source, self.dest, self.format, self.arguments)

    @property
    def verify(self) -> list[str]:
        """The command that verifies the job."""
        return [*_fetchmill(), "verify", str(self.dest), "--quiet"]

    @property
    def server_faults(self) -> int:
        """Number of replies with a fault so far."""
        return 0 if self.server is None else sum(self.server.stats()["faults"].values())

    @property
    def fetched_again(self) -> int | None:
        """Number of requests beyond one per object; None for the user's source."""
        return None if self.server is None else max(0, self.server.stats()["get"] - self.expected.total())


class Source(ABC):
    """Creates one job for each round."""

    @abstractmethod
    def job(self, format: str, dest: Path, seed: str) -> AbstractContextManager[Job]:
        """Create the job for one round, as a context manager.

        Raises:
            UsageError: even without faults, the source's job does not finish or stores nothing.
            UnsupportedError: processes cannot be monitored on this machine.
        """


class FaultyServer(Source):
    """A server in this process. For 5 % of the objects, the first reply is faulty."""

    @contextmanager
    def job(self, format: str, dest: Path, seed: str) -> Iterator[Job]:
        """Yield a job with its own server. The job does not inherit fetchmill's environment variables."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("FETCHMILL_")}
        with _serve(random.Random(f"{seed} faults").getrandbits(32)) as server:  # noqa: S311 - reproducible from a seed
            prefix = f"{server.url}/get/" if format == "warc" else ""
            names = [f"file-{number:012}" for number in range(OBJECTS)]
            expected = Counter((f"{prefix}{name}", digest(synthetic_body(name, _BODY_BYTES))) for name in names)
            yield Job(
                server.url, dest, format, (), environment, expected, _CALLS[format], _RUN_SECONDS_MAX, server=server
            )


class GivenSource(Source):
    """The user's source. Each job must store the same objects as an earlier, undisturbed job.

    Args:
        folder: an existing folder for the undisturbed jobs.
        source: the SOURCE for `fetchmill get`.
        arguments: options for `fetchmill get`.

    Raises:
        UsageError: torture itself sets one of the options, or the source can be read only once.
    """

    def __init__(self, folder: Path, source: str, arguments: Sequence[str]) -> None:
        if source == "-":
            raise UsageError(
                "SOURCE cannot be standard input, because the list is read more than once; save the list to a file"
            )
        for argument in arguments:
            if argument.partition("=")[0] in _OWN_OPTIONS:
                raise UsageError(
                    f"{argument.partition('=')[0]} cannot be given after --, because torture sets this option"
                )
        self._folder = folder
        self._source = source
        self._arguments = ("--first", str(OBJECTS), *arguments)
        self._known: dict[str, tuple[Expected, int, float]] = {}

    @contextmanager
    def job(self, format: str, dest: Path, seed: str) -> Iterator[Job]:  # noqa: ARG002 - nothing here is random
        """Yield a job for the first objects of the source."""
        if format not in self._known:
            self._known[format] = self._run_undisturbed(format)
        expected, calls, seconds_max = self._known[format]
        yield Job(self._source, dest, format, self._arguments, os.environ, expected, calls, seconds_max)

    def _run_undisturbed(self, format: str) -> tuple[Expected, int, float]:
        dest = self._folder / f"undisturbed-{format}"
        ended = run(_get(self._source, dest, format, self._arguments), dest)
        if ended.code not in FINISHED:
            raise UsageError(f"the undisturbed job failed (exit code {ended.code}): {ended.last_error}")
        try:
            stored = contents(dest, format)
        except Exception as error:
            raise UsageError(f"{format} of the undisturbed job cannot be read: {error}") from error
        if not stored:
            why = "run `fetchmill get` to see why"
            raise UsageError(f"the undisturbed job stored nothing of {self._source}: {why}")
        return stored, ended.calls, _RUN_SECONDS_MAX + 3 * ended.seconds


def _serve(seed: int) -> Server:
    return Server(
        ServeOptions(
            synthetic=OBJECTS, size=_BODY_BYTES, page_size=100, delay=_DELAY_SECONDS, seed=seed, faults=_FAULTS
        )
    )


def _fetchmill() -> list[str]:
    # `-P` keeps the working folder off the import path, because it may contain a file such as `random.py`.
    return [sys.executable, "-P", "-m", "fetchmill"]


def _get(source: str, dest: Path, format: str, arguments: Sequence[str]) -> list[str]:
    return [*_fetchmill(), "get", source, str(dest), "--format", format, "--quiet", *_PACE, *arguments]
