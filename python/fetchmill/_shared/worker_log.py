"""The log of a worker: a file of its process in the job directory."""

import os
import socket
from contextlib import suppress
from datetime import UTC, datetime

from fetchmill._shared.store import Store
from fetchmill.errors import FetchmillError

# A bucket that does not take a line in this time does not get it.
_SECONDS = 5.0


class WorkerLog:
    """Lines for people. A log that cannot be written stops no worker.

    Args:
        store: that of the job directory; None until it is known: lines before that are not kept.
    """

    def __init__(self, store: Store | None = None) -> None:
        self._name = f"logs/{socket.gethostname()[:40].replace('/', '-')}-{os.getpid()}.log"
        self._store = None if store is None else store.with_patience(_SECONDS)

    def keep_in(self, store: Store) -> None:
        """Keeps the lines that follow in a job directory."""
        self._store = store.with_patience(_SECONDS)

    def write(self, line: str) -> None:
        """Adds a line, with the time."""
        if self._store is not None:
            with suppress(FetchmillError):
                self._store.append(self._name, f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} {line}\n")
