"""The folder of a worker on its machine: journals of ranges that are not final. What dead workers left goes."""

import os
import shutil
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from fetchmill.errors import SecurityError, StorageError


def default_folder(job: str) -> Path:
    """Where the journals of a job are on this machine, if the user names no folder.

    The folder for temporary files belongs to all users, so the one in it must be this user's alone.

    Args:
        job: the id of the job.

    Raises:
        SecurityError: another user has made it, or can write into it.
    """
    base = Path(tempfile.gettempdir()) / f"fetchmill-{os.geteuid()}"
    with suppress(FileExistsError):
        base.mkdir(mode=0o700)
    found = base.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
        raise SecurityError(f"{base} is not a folder of this user alone: remove it, or name another one with state")
    return base / job


def make_folder(parent: Path, worker: str) -> Path:
    """Makes the folder of a worker, after it removed those of workers that are dead.

    Args:
        parent: the folder for workers of the job on this machine.
        worker: host, process and a random part, with `-` between.

    Raises:
        StorageError: the folder cannot be made.
    """
    try:
        parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        for entry in parent.iterdir():
            host, _, process = entry.name.rpartition("-")[0].rpartition("-")
            if host == worker.rpartition("-")[0].rpartition("-")[0] and process.isdigit() and not _lives(int(process)):
                shutil.rmtree(entry, ignore_errors=True)
        folder = parent / worker
        folder.mkdir(mode=0o700)
    except OSError as error:
        raise StorageError(f"cannot make a folder in {parent}: {error.strerror}") from error
    return folder


def remove_folder(folder: Path) -> None:
    """Removes the folder of a worker, and that of the job if no other worker has one there."""
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
