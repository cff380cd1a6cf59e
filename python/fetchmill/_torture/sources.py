"""Where the objects of a tortured job come from, and what the job must have."""

import random
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from fetchmill._native import synthetic_body
from fetchmill._server import Fault, ServeOptions, Server
from fetchmill._torture.comparison import digest, digests
from fetchmill._torture.supervisor import Ended, run
from fetchmill.errors import FetchmillError

# Objects of a job.
OBJECTS = 2000

_BODY_BYTES = 300
_DELAY_SECONDS = (0.0, 0.02)
# A name is hit by a seed, and only its first request. A connection is hit once.
_LIES = (
    Fault("truncate", rate=0.02, times=1),
    Fault("reset", rate=0.01, times=1),
    Fault("unsolicited", rate=0.01, times=1),
    Fault("status", rate=0.01, status=503, times=1),
    Fault("stray", rate=0.05),
)
# Shards and commits come often, so that there are many moments to disturb.
_PACE = ("--concurrency", "24", "--seal-after", "50ms", "--commit-window", "20ms")
# A job ends with 3 if targets failed: the comparison says whether they may.
FINISHED = (0, 3)


@dataclass(frozen=True)
class Job:
    """A job to be disturbed, and what it must have.

    Args:
        command: the program and its arguments.
        dest: its destination.
        format: of the destination.
        expected: a digest of each object, by the name that the format's reader gives.
        calls: how many durable calls an undisturbed run makes.
        server: the server that lies; None for a source of somebody else.
    """

    command: Sequence[str]
    dest: Path
    format: str
    expected: Mapping[str, bytes]
    calls: int
    server: Server | None = None

    @property
    def lies(self) -> int:
        """Replies that were wrong or cut on purpose."""
        return 0 if self.server is None else sum(self.server.stats()["faults"].values())

    @property
    def fetched_again(self) -> int | None:
        """Requests for objects beyond one each; None if nobody counts them."""
        return None if self.server is None else max(0, self.server.stats()["get"] - len(self.expected))


class Source(ABC):
    """Makes jobs, one for each round."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @abstractmethod
    def job(self, format: str, dest: Path, seed: str) -> AbstractContextManager[Job]:
        """A job of one round, in a `with` block.

        Raises:
            FetchmillError: a job that nobody disturbs does not finish, or the machine cannot watch a process.
        """


def _run_undisturbed(command: Sequence[str], dest: Path) -> Ended:
    ended = run(command, dest)
    if ended.code not in FINISHED:
        lines = ended.errors.strip().splitlines() or ["without a message"]
        raise FetchmillError(f"a job that nobody disturbs ends with exit code {ended.code}: {lines[-1]}")
    return ended


class LyingServer(Source):
    """A server of this process. One object in twenty has a reply that is cut, refused or followed by another."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._calls: dict[str, int] = {}

    @contextmanager
    def job(self, format: str, dest: Path, seed: str) -> Iterator[Job]:
        """With a server of its own."""
        if format not in self._calls:
            with self._serve(0) as server:
                undisturbed = self._folder / f"undisturbed-{format}"
                self._calls[format] = _run_undisturbed(_command(server.url, undisturbed, format, ()), undisturbed).calls
        with self._serve(random.Random(f"{seed} lies").getrandbits(32)) as server:  # noqa: S311 - a seed must repeat it
            prefix = f"{server.url}/get/" if format == "warc" else ""
            names = [f"file-{number:012}" for number in range(OBJECTS)]
            expected = {f"{prefix}{name}": digest(synthetic_body(name, _BODY_BYTES)) for name in names}
            command = _command(server.url, dest, format, ())
            yield Job(command, dest, format, expected, self._calls[format], server)

    def _serve(self, seed: int) -> Server:
        return Server(
            ServeOptions(
                synthetic=OBJECTS, size=_BODY_BYTES, page_size=100, delay=_DELAY_SECONDS, seed=seed, faults=_LIES
            )
        )


class GivenSource(Source):
    """A source of the user. What a job must have is what an undisturbed one stored before."""

    def __init__(self, folder: Path, source: str, arguments: Sequence[str]) -> None:
        super().__init__(folder)
        self._source = source
        self._arguments = ("--first", str(OBJECTS), *arguments)
        self._known: dict[str, tuple[Mapping[str, bytes], int]] = {}

    @contextmanager
    def job(self, format: str, dest: Path, seed: str) -> Iterator[Job]:  # noqa: ARG002 - nothing is drawn
        """Of the first objects of the source."""
        if format not in self._known:
            undisturbed = self._folder / f"undisturbed-{format}"
            calls = _run_undisturbed(_command(self._source, undisturbed, format, self._arguments), undisturbed).calls
            stored = digests(undisturbed, format)
            if not stored:
                raise FetchmillError(f"a job that nobody disturbs stores nothing of {self._source}: try fetchmill get")
            self._known[format] = stored, calls
        expected, calls = self._known[format]
        yield Job(_command(self._source, dest, format, self._arguments), dest, format, expected, calls)


def _command(source: str, dest: Path, format: str, arguments: Sequence[str]) -> list[str]:
    how = ["--format", format, "--quiet", *_PACE, *arguments]
    return [sys.executable, "-m", "fetchmill", "get", source, str(dest), *how]
