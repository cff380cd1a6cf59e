"""The store for the files of a job directory: a folder, or a prefix of a bucket.

A name has `/` between its parts: `commits/00000-00000000000000.json`.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, Self

from fetchmill._quick_dataclass import dataclass
from fetchmill.errors import StorageError, TemporaryError

# Errors of methods if the file system or the bucket fails, perhaps temporarily.
STORE_ERRORS = (StorageError, TemporaryError)
# Files that a journal only needs while its job runs, and files that do not belong to it.
LEFT_BEHIND = ("lock", "token", "shards", "stage", "state", "state-token")
_BUCKET = "s3://"


@dataclass(frozen=True, kw_only=True)
class StoredFile:
    """A file of a job directory.

    Args:
        name: its name in its folder.
        content: its bytes.
        written_at: when it was written, seconds since 1970 by the store's clock.
    """

    name: str
    content: bytes
    written_at: float


class Store(Protocol):
    """Small named files. After a method has written a file, it is durable and visible to all processes.

    Raises:
        StorageError, TemporaryError: of each method, when the store fails.
        UsageError: of each method, when the store refuses it.
    """

    # As users write it.
    text: str

    def place(self, name: str) -> str:
        """A file, as users write it."""

    def with_patience(self, seconds: float) -> Self:
        """Returns the same store, with methods that fail after about `seconds`."""

    def check_owner(self, name: str) -> None:
        """Refuses a job directory that another user may have made.

        Raises:
            SecurityError: it belongs to another user, or leads elsewhere.
        """

    def top(self) -> list[str]:
        """Returns the names in the job directory itself, including files that are still being written.

        Raises:
            UsageError: it is not a folder.
        """

    def create(self, name: str, content: bytes) -> bool:
        """Creates a file with its whole content, unless the name exists. Returns whether it was created.

        If a reply is lost, a success can look like an existing name. Read the file to see who created it.
        """

    def replace(self, name: str, content: bytes) -> float:
        """Writes a file in place of the one with this name; returns the store's time, seconds since 1970."""

    def read(self, name: str) -> bytes | None:
        """The content of a file; None if there is none."""

    def contents(self, folder: str) -> list[StoredFile]:
        """The files of a folder."""

    def names(self, folder: str) -> list[str]:
        """Their names."""

    def remove(self, name: str) -> None:
        """Removes a file. Does nothing if the file does not exist."""

    def append(self, name: str, line: str) -> None:
        """Adds a line to a file that only this process writes."""

    def now(self) -> float:
        """Returns the store's time in seconds since 1970, for a process that has not just written a file."""

    # Attempts: folders below `data`.

    def destination(self, attempt: str) -> str:
        """Returns the destination of an attempt's job."""

    def attempts(self) -> list[str]:
        """The names in `data`."""

    def publish(self, attempt: str, state: Path) -> None:
        """Adds the journal of an attempt to its objects, and makes both durable.

        Args:
            attempt: its name.
            state: the folder of its journal, on this machine.
        """

    def remove_attempt(self, attempt: str) -> None:
        """Removes the objects of an attempt."""

    def abort_uploads(self) -> None:
        """Removes unfinished uploads, after the job is finished."""


def open_store(job: str | os.PathLike[str], reach: Mapping[str, Any] | None = None) -> Store:
    """The store of a job directory.

    Args:
        job: a folder, or `s3://BUCKET/PREFIX`.
        reach: options that say how the bucket is reached, as `endpoint_url`; the environment says the rest.

    Raises:
        UsageError: an option cannot be used.
    """
    text = os.fspath(job)
    if is_bucket(text):
        from fetchmill._shared.bucket_store import BucketStore

        return BucketStore.open(text, reach or {})
    from fetchmill._shared.folder_store import FolderStore

    return FolderStore(Path(os.path.abspath(text)))  # noqa: PTH100 - a link stays one


def is_bucket(job: str | os.PathLike[str]) -> bool:
    """Whether a job directory is below a prefix of a bucket."""
    return os.fspath(job).startswith(_BUCKET)
