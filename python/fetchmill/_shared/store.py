"""The store for the files of a job directory, which is either a folder or a prefix of a bucket.

A name has `/` between its parts: `commits/00000-00000000000000.json`.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, Self

from fetchmill._quick_dataclass import dataclass
from fetchmill.errors import StorageError, TemporaryError

# Errors raised if the file system or the bucket fails, perhaps temporarily.
STORE_ERRORS = (StorageError, TemporaryError)
# Names in a journal's folder that are not copied, because they are only needed while the job runs or do not belong to
# the journal.
LEFT_BEHIND = ("lock", "token", "shards", "stage", "state", "state-token")
# Name of a part of a list in `list`. Other files there belong to the user.
PART = re.compile(r"[0-9a-f]{21}\.(?:jsonl|txt|csv|tsv|parquet)")
_BUCKET = "s3://"


@dataclass(frozen=True, kw_only=True)
class StoredFile:
    """A file of a job directory.

    Args:
        name: name of the file in its folder.
        content: the bytes of the file.
        written_at: time of the last write in seconds since 1970, by the store's clock.
    """

    name: str
    content: bytes
    written_at: float


class Store(Protocol):
    """Small named files. When a method that writes a file returns, the file is durable and visible to all processes.

    Raises:
        StorageError, TemporaryError: raised by every method if the store fails.
        UsageError: raised by every method if the store refuses the request.
    """

    # The job directory, as users write it.
    text: str

    def place(self, name: str) -> str:
        """Return the path or URL of a file, as users write it."""

    def with_patience(self, seconds: float) -> Self:
        """Return the same store, with methods that fail after about `seconds`."""

    def check_owner(self, name: str) -> None:
        """Refuse a job directory that another user may have created.

        Raises:
            SecurityError: the directory belongs to another user, or a folder in it is a link.
        """

    def top(self) -> list[str]:
        """Return the names in the job directory itself, including files that are still being written.

        Raises:
            UsageError: the job directory is not a folder.
        """

    def create(self, name: str, content: bytes) -> bool:
        """Create a file with its whole content, unless the name exists. Return whether it was created.

        If the reply is lost, a new file can look as if it had existed before. Read the file to see who created it.
        """

    def replace(self, name: str, content: bytes) -> float:
        """Create a file or replace its content. Return the store's time in seconds since 1970."""

    def read(self, name: str) -> bytes | None:
        """Return the content of a file; None if the file does not exist."""

    def contents(self, folder: str) -> list[StoredFile]:
        """Return the files of a folder."""

    def names(self, folder: str) -> list[str]:
        """Return the names of the files in a folder."""

    def remove(self, name: str) -> None:
        """Remove a file. Do nothing if the file does not exist."""

    def add_file(self, name: str, path: Path) -> None:
        """Add a local file, which may be large. The name must not be in use."""

    def append(self, name: str, line: str) -> None:
        """Add a line to a file that only this process writes."""

    def now(self) -> float:
        """Return the store's time in seconds since 1970, for a process that has not just written a file."""

    # Attempts: folders below `data`.

    def destination(self, attempt: str) -> str:
        """Return the destination of an attempt's job."""

    def attempts(self) -> list[str]:
        """Return the names in `data`."""

    def publish(self, attempt: str, state: Path) -> None:
        """Add the journal of an attempt to its objects, and make both durable.

        Args:
            attempt: name of the attempt.
            state: the folder of the attempt's journal, on this machine.
        """

    def remove_attempt(self, attempt: str) -> None:
        """Remove the objects of an attempt."""

    def abort_uploads(self) -> None:
        """Remove unfinished uploads, after the job is finished."""


def open_store(job: str | os.PathLike[str], reach: Mapping[str, Any] | None = None) -> Store:
    """Return the store of a job directory.

    Args:
        job: a folder, or `s3://BUCKET/PREFIX`.
        reach: connection options for the bucket, such as `endpoint_url`. The environment supplies all other options.

    Raises:
        UsageError: an option is invalid.
    """
    text = os.fspath(job)
    if is_bucket(text):
        from fetchmill._shared.bucket_store import BucketStore

        return BucketStore.open(text, reach or {})
    from fetchmill._shared.folder_store import FolderStore

    return FolderStore(Path(os.path.abspath(text)))  # noqa: PTH100 - symbolic links are not resolved


def is_bucket(job: str | os.PathLike[str]) -> bool:
    """Return whether a job directory is in a bucket."""
    return os.fspath(job).startswith(_BUCKET)
