"""The task that a contender receives, and the counter to which it reports."""

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

# Interval at which completed requests are counted, so that the steady state can be separated from the start and the
# end.
STEP_SECONDS = 0.25


@dataclass(frozen=True, kw_only=True)
class Task:
    """The task of a contender.

    Args:
        scenario: `billion`, `slow`, `sites` or `s3`.
        url: base URL of the list/get server (GET /list, GET /get/{name}), for ways that list objects. For `s3`, this is
            the endpoint.
        urls: path of a file with `count` URLs, one per line, for ways that start from URLs.
        count: number of objects to request.
        limit: maximum number of requests in flight, if the way's number can be configured.
        seconds: time after which the contender is stopped. The requests completed by then count.
        folder: folder in which each body is stored as a file; None to discard bodies.
        answers: path of a file for the sites' answers: a URL, a tab and a class in each line; None to record no
            answers. The class is a status, `timeout` or `connection-error`, as in the published text.
        timeout: timeout in seconds for a connection and for each wait for bytes; None for the library's default.
        ca_file: certificates to trust.
        hosts: path of a file with an address and a name in each line, for names that this machine's name server does
            not know. All other names fail to resolve. None to use the system's names.
        bucket: the bucket whose objects are read; None if there is none. Credentials come from the environment.
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
        """Parses the output of `to_json`."""
        return cls(**json.loads(text))

    def to_json(self) -> str:
        """Returns the task as JSON, for the command line of a contender's process."""
        return json.dumps(asdict(self))

    def each_url(self) -> Iterator[str]:
        """Yields the URLs, which are read from the file as needed."""
        with Path(self.urls).open(encoding="utf-8") as lines:
            for line in islice(lines, self.count):
                yield line.rstrip("\n")

    def store(self, name: str, body: bytes) -> None:
        """Stores an object as a file if requested. The name is quoted, so that the file stays in the folder."""
        if self.folder is not None:
            Path(self.folder, quote(name, safe="")).write_bytes(body)


@dataclass
class RequestCounter:
    """Counts a contender's work in the contender's own process. Worker processes report to that process.

    Args:
        task: the task of the contender.
        done: number of completed requests, including failed ones.
        failed: number of requests without a complete 2xx reply; for sites, without a status.
        error: the reason, if the way itself ended early.
        set_up: seconds that the way took to create its clients, if it reports them. The way's total time includes them.
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
        """Counts completed requests, of which `failed` have failed."""
        step = int((time.monotonic() - self._began) / STEP_SECONDS)
        with self._lock:
            self.done += done
            self.failed += failed
            self._steps.extend([0] * (step + 1 - len(self._steps)))
            self._steps[step] += done

    def is_set_up(self) -> None:
        """Records that the clients have been created."""
        self.set_up = time.monotonic() - self._began

    def answer(self, url: str, found: str) -> None:
        """Records a site's answer. See `Task.answers`."""
        if self.task.answers is None:
            return
        with self._lock:
            if self._answers is None:
                self._answers = Path(self.task.answers).open("w", encoding="utf-8")  # noqa: SIM115 - open until the end
            self._answers.write(f"{url}\t{found}\n")

    def add_site(self, url: str, found: str) -> None:
        """Counts a site, and records its answer."""
        self.answer(url, found)
        self.add(failed=0 if found.isdigit() else 1)

    def finish(self) -> NoReturn:
        """Prints the result to standard output, and ends the process immediately.

        It does not wait for the way to end, because a failing way may never end.
        """
        with self._lock:
            if self._answers is not None:
                self._answers.flush()
            seconds = time.monotonic() - self._began
            result = {"done": self.done, "failed": self.failed, "seconds": seconds, "steps": self._steps}
            sys.stdout.write(json.dumps({**result, "error": self.error, "set_up": self.set_up}) + "\n")
            sys.stdout.flush()
            os._exit(0)


def is_good(status: int) -> bool:
    """Returns whether a status is a 2xx."""
    return status // 100 == 2  # noqa: PLR2004 - status class
