"""The files of a job directory in a folder that several machines share.

All that the protocol needs of a file system is `link`, which fails if the name exists, and `rename`. Both hold on local
file systems, NFS, Lustre and GPFS. File systems that mount a bucket lack `link`, and are refused.
"""

import errno
import os
import secrets
from contextlib import suppress
from pathlib import Path

from fetchmill.errors import StorageError, UsageError

# Errors of a file system that has no hard links.
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)

_STALE_TRIES = 3


class FolderStore:
    """Small files with names below a folder; writes are durable when a method returns.

    Args:
        folder: the job directory.

    Raises:
        StorageError: of each method, when the file system fails.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def create(self, name: str, content: bytes) -> bool:
        """Creates a file with its whole content, if no other has this name.

        A reply that was lost can make a success look like a name that exists: read the file to know whose it is.

        Returns:
            Whether this call has made it.
        """
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
        """Writes a file in place of the one with this name; readers see one of the two.

        Returns:
            When it was written, by the clock of the file system.
        """
        place = self.folder / name
        with _failing("write", place):
            place.parent.mkdir(parents=True, exist_ok=True)
            draft = self._write_draft(place, content)
            written_at = draft.stat().st_mtime
            draft.replace(place)
        return written_at

    def read(self, name: str) -> bytes | None:
        """The content of a file; None if there is none."""
        place = self.folder / name
        with _failing("read", place):
            for _ in range(_STALE_TRIES):
                try:
                    return place.read_bytes()
                except (FileNotFoundError, NotADirectoryError):
                    return None
                except OSError as error:
                    # On NFS, of a file that another machine has just replaced.
                    if error.errno != errno.ESTALE:
                        raise
            return place.read_bytes()

    def owner(self, name: str) -> int:
        """The user who owns a file."""
        place = self.folder / name
        with _failing("read", place):
            return place.stat().st_uid

    def written_at(self, name: str) -> float | None:
        """When a file was written, by the clock of the file system; None if there is none."""
        place = self.folder / name
        with _failing("read", place):
            try:
                return place.stat().st_mtime
            except FileNotFoundError:
                return None

    def names(self, folder: str) -> list[str]:
        """Names of the files in a folder, without drafts."""
        place = self.folder / folder
        with _failing("list", place):
            try:
                return [name for name in os.listdir(place) if not name.startswith(".")]  # noqa: PTH208 - names only
            except FileNotFoundError:
                return []

    def remove(self, name: str) -> None:
        """Removes a file; one that is not there is no error."""
        place = self.folder / name
        with _failing("remove", place):
            place.unlink(missing_ok=True)

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


def sync_folder(folder: Path) -> None:
    """Makes the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_tree(folder: Path) -> None:
    """Makes all files and names below a folder durable."""
    for parent, _, names in os.walk(folder):
        for name in names:
            descriptor = os.open(Path(parent, name), os.O_RDONLY | os.O_NOFOLLOW)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        sync_folder(Path(parent))


class _failing:  # noqa: N801 - reads as what it does
    """Errors of the file system as ours, with the path."""

    def __init__(self, verb: str, place: Path) -> None:
        self._verb, self._place = verb, place

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, OSError):
            raise StorageError(f"cannot {self._verb} {self._place}: {error.strerror or error}") from error
