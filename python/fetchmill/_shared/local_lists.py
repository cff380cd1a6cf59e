"""Local files of a list. If the job directory is in a bucket, its lists are copied when they are first needed."""

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from fetchmill._shared.bucket_store import BucketStore
from fetchmill._shared.ranges import ListFile
from fetchmill._shared.store import PART, Store, is_bucket
from fetchmill.errors import SecurityError

# Folder of lists in a job directory (see `source_lister` and `host_division`).
FOLDER = "list"


class LocalLists:
    """See the module docstring. Only one thread at a time may use an instance.

    Args:
        store: the files of the job directory.
        folder: the local folder for copies. It must exist when the first copy is made.
    """

    def __init__(self, store: Store, folder: Path) -> None:
        self._store = store
        self._folder = folder
        # Copies, by the path of the original.
        self._copies: dict[str, Path] = {}

    def local(self, file: ListFile) -> ListFile:
        """Return a list file with its local path.

        Raises:
            SecurityError: the file is in a bucket, but not in the job directory.
            StorageError, TemporaryError: the file cannot be copied.
        """
        if not is_bucket(file.path):
            return file
        name = file.path.removeprefix(self._store.text)
        folder, _, part = name.rpartition("/")
        if not isinstance(self._store, BucketStore) or folder != FOLDER or not PART.fullmatch(part):
            raise SecurityError(f"{file.path} is not in the job directory {self._store.text}; do not use this job")
        copy = self._folder / part
        if file.path not in self._copies:
            self._store.local_copy(name, file.size, copy)
            self._copies[file.path] = copy
        return replace(file, path=str(copy), modified=copy.stat().st_mtime_ns)

    def keep(self, paths: Collection[str], most: int = 0) -> None:
        """Remove the oldest copies until at most `most` are left. Never remove copies of the lists in `paths`."""
        for path in [path for path in self._copies if path not in paths]:
            if len(self._copies) > most:
                self._copies.pop(path).unlink(missing_ok=True)


def in_job_directory(store: Store, file: ListFile, name: str) -> ListFile:
    """Return the record of a list file whose copy was added to the job directory as `name`.

    A file in a bucket gets no modification time, because each copy has its own.
    """
    place = store.place(name)
    modified = 0 if is_bucket(store.text) else Path(place).stat().st_mtime_ns
    return replace(file, path=place, modified=modified)


def copy_into_job(store: Store, file: ListFile) -> tuple[str, ListFile]:
    """Copy a local list file into the job directory. Return the name of the copy, and its record."""
    path = Path(file.path)
    name = f"{FOLDER}/{path.name}"
    store.add_file(name, path)
    return name, in_job_directory(store, file, name)


def parts_in(store: Store) -> list[str]:
    """Return the names of the parts in a job directory. Omit other files, because users may also keep lists there."""
    return [f"{FOLDER}/{name}" for name in store.names(FOLDER) if PART.fullmatch(name)]
