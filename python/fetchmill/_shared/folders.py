"""Locates the objects of a shared job, which are in the folders that its commit records name.

If the job directory is in a bucket, these folders are copied to this machine. Objects are only copied if the caller
needs them.
"""

import shutil
import tempfile
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Self

from fetchmill._shared.bucket_store import BucketStore
from fetchmill._shared.job_directory import JobDirectory
from fetchmill.errors import StorageError

# Maximum total size in bytes of copied objects. A larger range is copied on its own.
_COPIES_BYTES = 2 << 30
_HIDDEN = ".fetchmill/"


def final_attempts(directory: JobDirectory) -> list[str]:
    """Return the attempts that stored the objects of a shared job, in the order of the job's list.

    Raises:
        UsageError: there is no job.
        JournalError: a file of the job directory is damaged.
    """
    directory.job()
    final = sorted(directory.final_attempts().items())
    return [f"{range_id}-{attempt}" for range_id, attempt in final if attempt]


class CopiesFolder:
    """A folder for copies on this machine, created when it is first needed."""

    def __init__(self) -> None:
        self._path: Path | None = None
        self._remove: weakref.finalize[..., CopiesFolder] | None = None

    def path(self) -> Path:
        """Return the folder.

        Raises:
            StorageError: the folder cannot be created.
        """
        if self._path is None:
            try:
                self._path = Path(tempfile.mkdtemp(prefix="fetchmill-copies-"))
            except OSError as error:
                why = error.strerror or error
                raise StorageError(
                    f"cannot create a folder for copies ({why}); set TMPDIR to another folder"
                ) from error
            # Remove the copies even if `close` is never called.
            self._remove = weakref.finalize(self, shutil.rmtree, self._path, ignore_errors=True)
        return self._path

    def close(self) -> None:
        """Remove the folder."""
        if self._remove is not None:
            self._remove()
        self._path = self._remove = None


class RangeCopies:
    """Local copies of attempts in a bucket, for an export. They are made one at a time to save disk space.

    The native export calls `copy` in its own thread. Any thread may call `stop`.

    Args:
        store: the bucket.
    """

    def __init__(self, store: BucketStore) -> None:
        self._store = store
        self._place = CopiesFolder()
        self._is_stopped = False

    def copy(self, attempt: str, with_objects: bool) -> str | None:
        """Return a folder with an attempt's journal, and with its objects if they are needed.

        The previous folder is removed.

        Returns:
            The folder; None after `stop`.

        Raises:
            StorageError, TemporaryError: the folder cannot be copied.
        """
        root = self._place.path()
        for copy in root.iterdir():
            shutil.rmtree(copy, ignore_errors=True)
        objects = self._store.objects(attempt)
        if not with_objects:
            objects = {name: size for name, size in objects.items() if _is_journal(name)}
        is_whole = _copy(self._store, attempt, objects, root / attempt, lambda: self._is_stopped)
        return str(root / attempt) if is_whole else None

    def named_in_bucket(self, text: str) -> str:
        """Return a text with the paths of copies replaced by the names of the objects in the bucket."""
        return text.replace(f"{self._place.path()}/", self._store.place("data/"))

    def stop(self) -> None:
        """Abort the current copy, and make all later calls to `copy` return None."""
        self._is_stopped = True

    def close(self) -> None:
        """Remove the copies."""
        self._place.close()


class AttemptFolders:
    """The folders of attempts. Each folder is a complete destination.

    Args:
        directory: the job directory.
    """

    def __init__(self, directory: JobDirectory) -> None:
        self._directory = directory
        # If the store is a bucket, the folder for copies, and the size in bytes of each copy's objects, oldest first.
        self._place = CopiesFolder()
        self._copies: dict[str, int] = {}
        self._facts: set[str] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def facts(self, attempt: str) -> str:
        """Return a folder with an attempt's journal and the manifests of its shards. The shards may have no content.

        Raises:
            StorageError, TemporaryError: the folder cannot be copied.
        """
        store = self._directory.store
        if not isinstance(store, BucketStore) or attempt in self._copies:
            return self.whole(attempt)
        if attempt not in self._facts:
            self._copy(store, attempt, self._place.path() / f"{attempt}.facts", with_objects=False)
            self._facts.add(attempt)
        return str(self._place.path() / f"{attempt}.facts")

    def whole(self, attempt: str) -> str:
        """Return a folder with an attempt's journal and objects.

        Raises:
            StorageError, TemporaryError: the folder cannot be copied.
        """
        store = self._directory.store
        if not isinstance(store, BucketStore):
            return store.destination(attempt)
        if attempt not in self._copies:
            self._copies[attempt] = self._copy(store, attempt, self._place.path() / attempt, with_objects=True)
        return str(self._place.path() / attempt)

    def close(self) -> None:
        """Remove copies."""
        self._copies.clear()
        self._facts.clear()
        self._place.close()

    def _copy(self, store: BucketStore, attempt: str, folder: Path, *, with_objects: bool) -> int:
        """Copy an attempt into a folder. Return the total size of the attempt's objects in bytes."""
        objects = store.objects(attempt)
        size = sum(objects.values())
        if with_objects:
            self._make_room(size)
        copied = {name: length for name, length in objects.items() if with_objects or name.startswith(_HIDDEN)}
        _copy(store, attempt, copied, folder)
        for name in objects.keys() - copied.keys():
            path = _path_of(store, attempt, name, folder)
            try:
                with path.open("xb") as file:
                    file.truncate(objects[name])
            except OSError as error:
                raise _unwritable(path, error) from error
        return size

    def _make_room(self, size: int) -> None:
        """Remove the oldest copies. Files that are still open stay readable."""
        while self._copies and sum(self._copies.values()) + size > _COPIES_BYTES:
            oldest = next(iter(self._copies))
            del self._copies[oldest]
            shutil.rmtree(self._place.path() / oldest, ignore_errors=True)


def _is_journal(name: str) -> bool:
    """Return whether a file is part of the journal, rather than a manifest or a list of failures."""
    return name.startswith(_HIDDEN) and "/" not in name.removeprefix(_HIDDEN)


def _copy(
    store: BucketStore,
    attempt: str,
    objects: Mapping[str, int],
    folder: Path,
    is_stopped: Callable[[], bool] = lambda: False,
) -> bool:
    """Copy the given objects of an attempt into a new folder. Return False if the copy was stopped."""
    for name, length in objects.items():
        if not store.download(attempt, name, length, _path_of(store, attempt, name, folder), is_stopped):
            return False
    return not is_stopped()


def _path_of(store: BucketStore, attempt: str, name: str, folder: Path) -> Path:
    """Create the folder for a copy. Return the path of the copy."""
    # The name comes from the store, so check that it stays inside the folder.
    if "\0" in name or any(part in ("", ".", "..") for part in name.split("/")):
        raise StorageError(f"{store.destination(attempt)}{name} is not a file name, so it cannot be copied")
    path = folder / name
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(path, error) from error
    return path


def _unwritable(path: Path, error: OSError) -> StorageError:
    return StorageError(f"cannot write {path}: {error.strerror or error}")
