"""The log of a worker, a file in the job directory. Each process has its own file."""

import os
import socket
from contextlib import suppress
from datetime import UTC, datetime

from fetchmill._shared.store import Store
from fetchmill.errors import FetchmillError

# Time limit for writing a line to a bucket. A line that takes longer is dropped.
_SECONDS = 5.0
# Maximum number of lines kept until the job directory is known.
_EARLY_MAX = 100


class WorkerLog:
    """A log for people to read. If it cannot be written, the worker continues anyway.

    Args:
        store: the store of the job directory. None if it is not known yet; the first lines are then kept until
            `keep_in` is called.
    """

    def __init__(self, store: Store | None = None) -> None:
        self._name = f"logs/{socket.gethostname()[:40].replace('/', '-')}-{os.getpid()}.log"
        self._store = None if store is None else store.with_patience(_SECONDS)
        self._early: list[str] = []

    def keep_in(self, store: Store) -> None:
        """Write the lines kept so far, and all later ones, to the log in a job directory."""
        self._store = store.with_patience(_SECONDS)
        for line in self._early:
            self._append(self._store, line)
        self._early.clear()

    def write(self, line: str) -> None:
        """Add a line with the current time."""
        dated = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} {line}\n"
        if self._store is not None:
            self._append(self._store, dated)
        elif len(self._early) < _EARLY_MAX:
            self._early.append(dated)

    def _append(self, store: Store, line: str) -> None:
        with suppress(FetchmillError):
            store.append(self._name, line)
