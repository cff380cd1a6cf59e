"""The log of a worker: a file of its process in the job directory."""

import os
import socket
from contextlib import suppress
from datetime import UTC, datetime

from fetchmill._shared.store import Store
from fetchmill.errors import FetchmillError

# Time limit for writing a line to a bucket. A line that takes longer is dropped.
_SECONDS = 5.0


class WorkerLog:
    """Log lines for people. If the log cannot be written, the worker continues.

    Args:
        store: the store of the job directory. None if it is not known yet; lines are dropped until `keep_in`.
    """

    def __init__(self, store: Store | None = None) -> None:
        self._name = f"logs/{socket.gethostname()[:40].replace('/', '-')}-{os.getpid()}.log"
        self._store = None if store is None else store.with_patience(_SECONDS)

    def keep_in(self, store: Store) -> None:
        """Write all later lines to the log in a job directory."""
        self._store = store.with_patience(_SECONDS)

    def write(self, line: str) -> None:
        """Add a line with the current time."""
        if self._store is not None:
            with suppress(FetchmillError):
                self._store.append(self._name, f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} {line}\n")
