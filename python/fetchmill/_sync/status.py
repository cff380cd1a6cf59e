"""Reads the status of a synced folder. A pass may be running."""

import fcntl
import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fetchmill._job.readable_report import ReadableReport
from fetchmill._native import SyncStore
from fetchmill._sync.pass_file import PassFolder
from fetchmill._sync.state import STATE
from fetchmill._sync.sync_pass import Phase

# Number of failures read at a time.
_ROWS = 1000


@dataclass(frozen=True, kw_only=True, repr=False)
class SyncStatus(ReadableReport):
    """The status of a synced folder. It is also available while a pass is running.

    Args:
        source: the source of the folder.
        dest: the folder.
        objects: number of objects after the last finished pass.
        number: number of the last finished pass; 0 if none has finished.
        ledger: the ledger of that pass, with the fields of `fetchmill.SyncReport`; None if no pass has finished.
        running: whether a process is working on the folder.
        phase: the phase of the unfinished pass; None if there is none.
        started_at: time when the unfinished pass began, UTC.
    """

    source: str
    dest: str
    objects: int
    number: int
    ledger: Mapping[str, Any] | None
    running: bool
    phase: Phase | None
    started_at: datetime | None

    def to_dict(self) -> dict[str, Any]:
        """Return a dict for JSON, with times in ISO 8601 UTC."""
        return asdict(self) | {"started_at": self.started_at.isoformat() if self.started_at else None}


def sync_status(dest: str) -> SyncStatus:
    """Return the status of a synced folder.

    Raises:
        JournalError: the state of the folder cannot be read.
    """
    folder = PassFolder(Path(dest) / STATE)
    # Check the lock before reading. If the pass ends in between, the reads already show its result.
    is_running = _is_locked(folder.folder / "lock")
    begun = folder.begun()
    with tempfile.TemporaryDirectory(prefix="fetchmill-sync-") as scratch:
        store = SyncStore(dest, scratch)
        base = store.base()
        store.close()
    last = 0 if base is None else base["pass"]
    if begun is not None and begun.number <= last:
        begun = None
    return SyncStatus(
        source=begun.source if begun else "" if base is None else base["source"],
        dest=dest,
        objects=0 if base is None else base["objects"],
        number=last,
        ledger=None if base is None else base["ledger"],
        running=is_running,
        phase=_phase_of(folder, is_applying=begun.is_applying) if begun else None,
        started_at=datetime.fromtimestamp(begun.started_at, UTC) if begun else None,
    )


def sync_failures(dest: str) -> Iterator[tuple[bytes, str, str | None, str | None]]:
    """Iterate over the failures of the last pass, each with name, outcome, failure kind and a human-readable line."""
    with tempfile.TemporaryDirectory(prefix="fetchmill-sync-") as scratch:
        store = SyncStore(dest, scratch)
        try:
            last: bytes | None = None
            while rows := store.failures(last, _ROWS):
                last = rows[-1][0]
                yield from rows
        finally:
            store.close()


def _phase_of(folder: PassFolder, *, is_applying: bool) -> Phase:
    if is_applying:
        return "applying"
    if folder.outcomes.exists():
        return "preparing"
    if folder.requests.exists():
        return "fetching"
    return "comparing" if folder.listing.exists() else "listing"


def _is_locked(path: Path) -> bool:
    """Return whether a process holds the lock."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
