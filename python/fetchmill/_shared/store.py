"""Where the files of a job directory are: in a folder or below a prefix of a bucket.

A name has `/` between its parts: `commits/00000-00000000000000.json`.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, Self

from fetchmill._quick_dataclass import dataclass
from fetchmill.errors import StorageError, TemporaryError

# What a method raises when the file system or the bucket fails, and may work later.
STORE_ERRORS = (StorageError, TemporaryError)
# What a journal needs only while its job runs, and what is no part of it.
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
    """Small files with names. What a method has written is durable, and all others see it.

    Raises:
        StorageError, TemporaryError: of each method, when the store fails.
        UsageError: of each method, when the store refuses it.
    """

    # As users write it.
    text: str

    def place(self, name: str) -> str:
        """A file, as users write it."""

    def with_patience(self, seconds: float) -> Self:
        """The same store, whose methods fail after about this time."""

    def check_owner(self, name: str) -> None:
        """Refuses a job directory that somebody else may have made.

        Raises:
            SecurityError: it belongs to another user, or leads elsewhere.
        """

    def top(self) -> list[str]:
        """What is in the job directory itself, also what is only being written.

        Raises:
            UsageError: it is not a folder.
        """

    def create(self, name: str, content: bytes) -> bool:
        """Creates a file with its whole content, if no other has this name; returns whether it did.

        A reply that was lost can make a success look like a name that exists: read the file to know whose it is.
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
        """Removes a file; one that is not there is no error."""

    def append(self, name: str, line: str) -> None:
        """Adds a line to a file that only this process writes."""

    def now(self) -> float:
        """The store's time, seconds since 1970; for a process that has just written nothing."""

    # Attempts: folders below `data`.

    def destination(self, attempt: str) -> str:
        """Where the job of an attempt stores its objects."""

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
        """Removes what uploads have left that will never be an object of an attempt; for a job that is finished."""


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
