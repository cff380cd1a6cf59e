"""What a contender is told and what it tells: one task, one tally."""

import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import IO, NoReturn, Self
from urllib.parse import quote

# Completed requests are counted in steps of so long, so that a steady state can be told from start and end.
STEP_SECONDS = 0.25


@dataclass(frozen=True, kw_only=True)
class Task:
    """What a contender is to do.

    Args:
        scenario: `billion`, `slow`, `sites` or `s3`.
        url: base URL of the list/get server, for ways that list; GET /list, GET /get/{name}. Of `s3` the endpoint.
        urls: path of a file with one URL a line, `count` of them, for ways that start from URLs.
        count: how many objects are asked for.
        limit: how many requests may be in flight, where the way has such a number.
        seconds: after this the contender is ended with what it has done.
        folder: folder in which each body becomes a file; None: bodies are dropped.
        answers: path of a file for what each site answered, a URL, a tab and a class in each line; None: not asked for.
            The class is a status, `timeout` or `connection-error`, as the published text has it.
        timeout: seconds for a connection, and for each wait for bytes; None: the library's own.
        ca_file: certificates to trust.
        hosts: path of a file with names that no name server of this machine knows, an address and a name in each line;
            other names then do not exist. None: names are the system's.
        bucket: the bucket whose objects are read, with credentials of the environment; None where there is none.
    """

    scenario: str
    url: str
    urls: str
    count: int
    limit: int
    seconds: float
    folder: str | None = None
    answers: str | None = None
    timeout: float | None = None
    ca_file: str | None = None
    hosts: str | None = None
    bucket: str | None = None

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The reverse of `to_json`."""
        return cls(**json.loads(text))

    def to_json(self) -> str:
        """For the command line of a contender's process."""
        return json.dumps(asdict(self))

    def each_url(self) -> Iterator[str]:
        """The URLs, read from their file as they are asked for."""
        with Path(self.urls).open(encoding="utf-8") as lines:
            for line in islice(lines, self.count):
                yield line.rstrip("\n")

    def store(self, name: str, body: bytes) -> None:
        """Makes an object a file, where that is asked for; its name is quoted, so that no name leads elsewhere."""
        if self.folder is not None:
            Path(self.folder, quote(name, safe="")).write_bytes(body)


@dataclass
class RequestCounter:
    """What a contender has done, in its own process; its own workers tell the process that has it.

    Args:
        task: what it does.
        done: completed requests, failed ones included.
        failed: those without a complete 2xx; of sites, those that gave no status.
        error: why the way itself came to an end, if it did.
        set_up: seconds until its clients were made, of a way that tells; they are part of its time.
    """

    task: Task
    done: int = 0
    failed: int = 0
    error: str | None = None
    set_up: float | None = None
    _began: float = field(default_factory=time.monotonic)
    _steps: list[int] = field(default_factory=list)
    _answers: IO[str] | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, done: int = 1, failed: int = 0) -> None:
        """Counts completed requests; `failed` of them failed."""
        step = int((time.monotonic() - self._began) / STEP_SECONDS)
        with self._lock:
            self.done += done
            self.failed += failed
            self._steps.extend([0] * (step + 1 - len(self._steps)))
            self._steps[step] += done

    def is_set_up(self) -> None:
        """Notes that the clients are made."""
        self.set_up = time.monotonic() - self._began

    def answer(self, url: str, found: str) -> None:
        """Notes what a site answered; see `Task.answers`."""
        if self.task.answers is None:
            return
        with self._lock:
            if self._answers is None:
                self._answers = Path(self.task.answers).open("w", encoding="utf-8")  # noqa: SIM115 - until the process ends
            self._answers.write(f"{url}\t{found}\n")

    def add_site(self, url: str, found: str) -> None:
        """Counts a site, and notes what it answered."""
        self.answer(url, found)
        self.add(failed=0 if found.isdigit() else 1)

    def finish(self) -> NoReturn:
        """Says on standard output what was done, and ends the process at once: a way in trouble does not end itself."""
        with self._lock:
            if self._answers is not None:
                self._answers.flush()
            seconds = time.monotonic() - self._began
            result = {"done": self.done, "failed": self.failed, "seconds": seconds, "steps": self._steps}
            sys.stdout.write(json.dumps({**result, "error": self.error, "set_up": self.set_up}) + "\n")
            sys.stdout.flush()
            os._exit(0)


def is_good(status: int) -> bool:
    """Whether it is a 2xx."""
    return status // 100 == 2  # noqa: PLR2004 - the hundreds of a status
