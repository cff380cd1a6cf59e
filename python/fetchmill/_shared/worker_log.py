"""The log of a worker: a file of its process in the job directory."""

import os
import socket
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path


class WorkerLog:
    """Lines for people. A log that cannot be written stops no worker.

    Args:
        job: the job directory.
    """

    def __init__(self, job: Path) -> None:
        self._place = job / "logs" / f"{socket.gethostname()[:40].replace('/', '-')}-{os.getpid()}.log"

    def write(self, line: str) -> None:
        """Adds a line, with the time."""
        with suppress(OSError):
            if self._place.parent.parent.is_dir() and not self._place.parent.is_symlink():
                self._place.parent.mkdir(exist_ok=True)
                with self._place.open("a") as file:
                    file.write(f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} {line}\n")
