"""A worker's local folder, with the journals of its unfinished ranges. Dead workers' folders are removed."""

import os
import secrets
import shutil
import socket
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from fetchmill.errors import SecurityError, StorageError

# Minimum free space for a worker's journals. At 70,000 objects/s, the journal of a range took 42 MB. Up to three more
# ranges may wait for their last objects.
ROOM_BYTES_MIN = 256 << 20
# Maximum number of attempts to create a parent folder that other workers may be removing.
_TRIES = 100


def default_folder(job: str) -> Path:
    """Return the default folder for a job's journals on this machine.

    All users share the folder for temporary files, so the folder inside it must belong to this user only.

    Args:
        job: the id of the job.

    Raises:
        SecurityError: another user owns the folder, or can write into it.
    """
    base = Path(tempfile.gettempdir()) / f"fetchmill-{os.geteuid()}"
    with suppress(FileExistsError):
        base.mkdir(mode=0o700)
    found = base.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
        raise SecurityError(
            f"{base} is not a folder that belongs to this user alone; remove it, or choose another folder with state"
        )
    return base / job


def process_name() -> str:
    """Return a unique name for this process, made of host, process and a random part, joined by `-`."""
    letters = [letter if letter.isalnum() or letter == "-" else "-" for letter in socket.gethostname()[:40]]
    return f"{''.join(letters) or 'host'}-{os.getpid()}-{secrets.token_hex(3)}"


def make_folder(parent: Path, worker: str) -> Path:
    """Create a worker's folder, after removing the folders of dead workers.

    Args:
        parent: the folder for workers of the job on this machine.
        worker: the name of the worker, from `process_name`.

    Raises:
        StorageError: the folder cannot be created.
    """
    try:
        _make_parent(parent)
        for entry in _entries(parent):
            host, _, process = entry.name.rpartition("-")[0].rpartition("-")
            if host == worker.rpartition("-")[0].rpartition("-")[0] and process.isdigit() and not _lives(int(process)):
                shutil.rmtree(entry, ignore_errors=True)
        return _make_below(parent, worker)
    except OSError as error:
        raise StorageError(f"cannot create a folder in {parent}: {error.strerror}") from error


def check_room(folder: Path) -> None:
    """Refuse a folder without room for a worker's journals.

    Raises:
        StorageError: less than `ROOM_BYTES_MIN` is free.
    """
    found = os.statvfs(folder)
    free = found.f_bavail * found.f_frsize
    # A file system that reports no size, such as some FUSE mounts, is not refused.
    if found.f_blocks and free < ROOM_BYTES_MIN:
        raise StorageError(
            f"{folder.parent} has {free >> 20:,} MiB free, and a worker needs {ROOM_BYTES_MIN >> 20} MiB there for its "
            "journals; free some space, or choose another folder with state"
        )


def _entries(parent: Path) -> list[Path]:
    """Return the entries of a folder, or none if another worker has removed it."""
    with suppress(FileNotFoundError):
        return list(parent.iterdir())
    return []


def _make_parent(parent: Path) -> None:
    # `mkdir` also raises FileExistsError if another worker removes the folder right after `mkdir` has found it.
    with suppress(FileExistsError):
        parent.mkdir(mode=0o700, parents=True, exist_ok=True)


def _make_below(parent: Path, name: str) -> Path:
    """Create a folder. Create its parent again if another worker is removing it."""
    folder = parent / name
    for _ in range(_TRIES):
        with suppress(FileNotFoundError):
            folder.mkdir(mode=0o700)
            return folder
        _make_parent(parent)
    folder.mkdir(mode=0o700)
    return folder


def remove_folder(folder: Path) -> None:
    """Remove a worker's folder. Also remove the parent folder if no other worker has a folder there."""
    # A relative path would depend on the working folder, which may contain the user's files.
    if not folder.is_absolute():
        raise StorageError(f"{folder} is not the folder of a worker")
    shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):
        folder.parent.rmdir()


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
