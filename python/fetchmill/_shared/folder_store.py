"""A job directory's files in a folder shared by several machines.

The protocol needs two file system operations: `link`, which fails if the name exists, and `rename`. Both work on local
file systems, NFS, Lustre and GPFS. Mounted buckets do not support `link` and are refused.
"""

import errno
import os
import secrets
import shutil
import time
from contextlib import suppress
from pathlib import Path
from typing import Self

from fetchmill._shared.store import LEFT_BEHIND, PART, StoredFile
from fetchmill.errors import SecurityError, StorageError, UsageError

# Errors of a file system that has no hard links.
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)

_STALE_TRIES = 3
# Folders of a job directory.
_LIST = "list"
_FOLDERS = ("commits", "claims", "workers", "logs", "data", _LIST, "lists")


class FolderStore:
    """See `Store`.

    Args:
        folder: the job directory.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.text = str(folder)

    def place(self, name: str) -> str:
        """See `Store`."""
        return str(self.folder / name)

    def with_patience(self, seconds: float) -> Self:
        """Return this store. The mount options of the file system decide how long a method waits."""
        del seconds
        return self

    def check_owner(self, name: str) -> None:
        """See `Store`."""
        place = self.folder / name
        with _failing("read", place):
            owner = place.stat().st_uid
        if owner != os.geteuid():
            raise SecurityError(
                f"{place} belongs to user {owner}, but this process runs as user {os.geteuid()}; run all workers as "
                "its owner"
            )
        for folder in _FOLDERS:
            if (self.folder / folder).is_symlink():
                raise SecurityError(
                    f"{self.folder / folder} is a link that may lead out of the job directory; remove it"
                )

    def top(self) -> list[str]:
        """See `Store`."""
        try:
            return os.listdir(self.folder)  # noqa: PTH208 - only the names
        except FileNotFoundError:
            return []
        except OSError as error:
            raise UsageError(f"{self.folder} is not a folder ({error.strerror}); a shared job needs one") from error

    def create(self, name: str, content: bytes) -> bool:
        """See `Store`. If the reply is lost, a new file can look as if it had existed before."""
        place = self.folder / name
        with _failing("write", place):
            place.parent.mkdir(parents=True, exist_ok=True)
            draft = self._write_draft(place, content)
            try:
                os.link(draft, place)
            except FileExistsError:
                return False
            except OSError as error:
                if error.errno in _NO_LINKS:
                    raise UsageError(
                        f"{self.folder}: the file system has no hard links ({error.strerror}); a shared job needs a "
                        "local file system, NFS, Lustre or GPFS, not a mounted bucket"
                    ) from error
                raise
            finally:
                with suppress(OSError):
                    draft.unlink()
            sync_folder(place.parent)
        return True

    def replace(self, name: str, content: bytes) -> float:
        """See `Store`."""
        place = self.folder / name
        with _failing("write", place):
            place.parent.mkdir(parents=True, exist_ok=True)
            draft = self._write_draft(place, content)
            written_at = draft.stat().st_mtime
            draft.replace(place)
        return written_at

    def read(self, name: str) -> bytes | None:
        """See `Store`."""
        place = self.folder / name
        with _failing("read", place):
            for _ in range(_STALE_TRIES):
                try:
                    return place.read_bytes()
                except (FileNotFoundError, NotADirectoryError):
                    return None
                except OSError as error:
                    # NFS raises ESTALE if another machine has just replaced the file.
                    if error.errno != errno.ESTALE:
                        raise
            return place.read_bytes()

    def contents(self, folder: str) -> list[StoredFile]:
        """See `Store`. Omit files that cannot be read, because another worker may have just replaced them."""
        found = []
        for name in self.names(folder):
            with suppress(StorageError):
                content = self.read(f"{folder}/{name}")
                written_at = self._written_at(f"{folder}/{name}")
                if content is not None and written_at is not None:
                    found.append(StoredFile(name=name, content=content, written_at=written_at))
        return found

    def _written_at(self, name: str) -> float | None:
        place = self.folder / name
        with _failing("read", place):
            try:
                return place.stat().st_mtime
            except FileNotFoundError:
                return None

    def names(self, folder: str) -> list[str]:
        """See `Store`."""
        place = self.folder / folder
        with _failing("list", place):
            try:
                return [name for name in os.listdir(place) if not name.startswith(".")]  # noqa: PTH208 - only the names
            except FileNotFoundError:
                return []

    def remove(self, name: str) -> None:
        """See `Store`."""
        place = self.folder / name
        with _failing("remove", place):
            place.unlink(missing_ok=True)

    def add_file(self, name: str, path: Path) -> None:
        """See `Store`."""
        place = self.folder / name
        with _failing("write", place):
            place.parent.mkdir(parents=True, exist_ok=True)
            draft = place.with_name(f".{place.name}")
            try:
                # The columns of a list may contain secrets, and only workers need to read them.
                draft.touch(0o600)
                shutil.copyfile(path, draft)
                sync_file(draft)
                draft.replace(place)
            except BaseException:
                # On a full disk, an incomplete copy would occupy the space that the next attempt needs.
                with suppress(OSError):
                    draft.unlink()
                raise
            sync_folder(place.parent)

    def append(self, name: str, line: str) -> None:
        """See `Store`."""
        place = self.folder / name
        with _failing("write", place):
            # Do not create the job directory again if it was removed.
            if self.folder.is_dir() and not place.parent.is_symlink():
                place.parent.mkdir(exist_ok=True)
                with place.open("a") as file:
                    file.write(line)

    def now(self) -> float:
        """See `Store`."""
        name = f"workers/.now-{secrets.token_hex(4)}"
        try:
            now = self.replace(name, b"")
            self.remove(name)
        except StorageError:
            # A process that only reads may lack write permission. Use the clock of this machine instead.
            return time.time()
        return now

    def destination(self, attempt: str) -> str:
        """See `Store`."""
        return self.place(f"data/{attempt}")

    def attempts(self) -> list[str]:
        """See `Store`."""
        return self.names("data")

    def publish(self, attempt: str, state: Path) -> None:
        """See `Store`."""
        folder = self.folder / "data" / attempt
        hidden = folder / ".fetchmill"
        with _failing("write", hidden):
            for name in ("state", "state-token"):
                (hidden / name).unlink(missing_ok=True)
            for entry in state.iterdir():
                if entry.name not in LEFT_BEHIND:
                    copy = shutil.copytree if entry.is_dir() else shutil.copyfile
                    copy(entry, hidden / entry.name)
            sync_tree(hidden)
            sync_folder(folder)
            sync_folder(folder.parent)

    def remove_attempt(self, attempt: str) -> None:
        """See `Store`."""
        shutil.rmtree(self.folder / "data" / attempt, ignore_errors=True)

    def abort_uploads(self) -> None:
        """Remove unfinished copies left by `add_file`. Only attempt folders contain other unfinished files."""
        for draft in (self.folder / _LIST).glob(".*"):
            if PART.fullmatch(draft.name[1:]):
                self.remove(f"{_LIST}/{draft.name}")

    def _write_draft(self, place: Path, content: bytes) -> Path:
        draft = place.with_name(f".{place.name}.{secrets.token_hex(8)}")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666)
        try:
            view = memoryview(content)
            while view:
                view = view[os.write(descriptor, view) :]
            os.fsync(descriptor)
        except BaseException:
            with suppress(OSError):
                draft.unlink()
            raise
        finally:
            os.close(descriptor)
        return draft


def sync_file(path: Path) -> None:
    """Make the content of a file durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_tree(folder: Path) -> None:
    """Make all files and names below a folder durable."""
    for parent, _, names in os.walk(folder):
        for name in names:
            sync_file(Path(parent, name))
        sync_folder(Path(parent))


class _failing:  # noqa: N801 - used like a function
    """A context manager that converts file system errors to StorageError and adds the path."""

    def __init__(self, verb: str, place: Path) -> None:
        self._verb, self._place = verb, place

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, OSError):
            raise StorageError(f"cannot {self._verb} {self._place}: {error.strerror or error}") from error
