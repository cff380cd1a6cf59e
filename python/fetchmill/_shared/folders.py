"""Locates the objects of a shared job, which are in the folders listed in its commit records.

If the job directory is in a bucket, these folders are copied to this machine, one at a time. Objects are only copied if
the caller needs them.
"""

import shutil
import tempfile
import weakref
from pathlib import Path
from typing import Self

from fetchmill._shared.bucket_store import BucketStore
from fetchmill._shared.job_directory import JobDirectory
from fetchmill.errors import StorageError

# Maximum total size in bytes of copied objects. A range with more than this is copied alone.
_COPIES_BYTES = 2 << 30
_HIDDEN = ".fetchmill/"


def final_attempts(directory: JobDirectory) -> list[str]:
    """Return the attempts that have the objects of a shared job, in the order of the job's list.

    Raises:
        UsageError: there is no job.
        JournalError: a file of the job directory is damaged.
    """
    directory.job()
    final = sorted(directory.final_attempts().items())
    return [f"{range_id}-{attempt}" for range_id, attempt in final if attempt]


class AttemptFolders:
    """The folders of attempts. Each folder is a complete destination.

    Args:
        directory: the job directory.
    """

    def __init__(self, directory: JobDirectory) -> None:
        self._directory = directory
        # For a bucket: the folder for copies, and the size in bytes of each copy's objects, oldest first.
        self._place: Path | None = None
        self._remove: weakref.finalize[..., AttemptFolders] | None = None
        self._copies: dict[str, int] = {}
        self._facts: set[str] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def facts(self, attempt: str) -> str:
        """Return a folder with an attempt's journal and the manifests of its shards. The shards may lack content.

        Raises:
            StorageError, TemporaryError: the folder cannot be copied.
        """
        store = self._directory.store
        if not isinstance(store, BucketStore) or attempt in self._copies:
            return self.whole(attempt)
        if attempt not in self._facts:
            self._copy(store, attempt, self._root() / f"{attempt}.facts", with_objects=False)
            self._facts.add(attempt)
        return str(self._root() / f"{attempt}.facts")

    def whole(self, attempt: str) -> str:
        """Return a folder with an attempt's journal and objects.

        Raises:
            StorageError, TemporaryError: the folder cannot be copied.
        """
        store = self._directory.store
        if not isinstance(store, BucketStore):
            return store.destination(attempt)
        if attempt not in self._copies:
            self._copies[attempt] = self._copy(store, attempt, self._root() / attempt, with_objects=True)
        return str(self._root() / attempt)

    def close(self) -> None:
        """Remove copies."""
        self._copies.clear()
        self._facts.clear()
        if self._remove is not None:
            self._remove()
        self._place = self._remove = None

    def _copy(self, store: BucketStore, attempt: str, folder: Path, *, with_objects: bool) -> int:
        """Copy an attempt into a folder. Return the total size of the attempt's objects in bytes."""
        objects = store.objects(attempt)
        size = sum(objects.values())
        if with_objects:
            self._make_room(size)
        for name, length in objects.items():
            # The name comes from the store, so check that it stays inside the folder.
            if "\0" in name or any(part in ("", ".", "..") for part in name.split("/")):
                raise StorageError(f"{store.destination(attempt)}{name} is not a file name, so it cannot be copied")
            path = folder / name
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                if not with_objects and not name.startswith(_HIDDEN):
                    with path.open("xb") as file:
                        file.truncate(length)
                    continue
            except OSError as error:
                raise StorageError(f"cannot write {path}: {error.strerror or error}") from error
            store.download(attempt, name, length, path)
        return size

    def _make_room(self, size: int) -> None:
        """Remove the oldest copies. Files that are still open stay readable."""
        while self._copies and sum(self._copies.values()) + size > _COPIES_BYTES:
            oldest = next(iter(self._copies))
            del self._copies[oldest]
            shutil.rmtree(self._root() / oldest, ignore_errors=True)

    def _root(self) -> Path:
        if self._place is None:
            self._place = Path(tempfile.mkdtemp(prefix="fetchmill-copies-"))
            # Remove the copies even if `close` is never called.
            self._remove = weakref.finalize(self, shutil.rmtree, self._place, ignore_errors=True)
        return self._place
