"""The files of a job directory in a bucket.

The protocol only needs a store that supports `If-None-Match: *`, so that a PUT fails if the key exists. If the reply is
lost, the content of the object shows whether the PUT succeeded. Times come from the store's clock, in whole seconds.
"""

import json
import os
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from fetchmill._native import Bucket
from fetchmill._shared.store import LEFT_BEHIND, StoredFile
from fetchmill.errors import StorageError

# A store that does not answer within this time has failed. The limit is shorter than the core's limit for uploads.
PATIENCE_SECONDS = 60.0
# Maximum pause before a creation is retried.
_PAUSE_SECONDS = 0.5
# Maximum size of a log. The limit is low, because each new line rewrites the whole log.
_LOG_BYTES = 64 << 10
# The store truncates times to whole seconds, so a file may be newer than its recorded time by up to this duration.
_CLOCK_STEP = 1.0
_PART_BYTES = 8 << 20


class BucketStore:
    """See `Store`.

    Args:
        bucket: access to the objects below the prefix.
        patience: seconds after which a method fails.
    """

    def __init__(self, bucket: Bucket, patience: float = PATIENCE_SECONDS) -> None:
        self.text = bucket.text()
        self._bucket = bucket
        self._patience = patience
        self._lock = threading.Lock()
        # Cache of files read by `contents`: ETag and time, then the content.
        self._known: dict[str, tuple[tuple[str, int], bytes]] = {}
        self._logs: dict[str, bytes] = {}

    @classmethod
    def open(cls, text: str, reach: Mapping[str, Any]) -> Self:
        """Return the store of a prefix, `s3://BUCKET/PREFIX`; see `open_store`."""
        return cls(Bucket(text, json.dumps(dict(reach))))

    def place(self, name: str) -> str:
        """See `Store`."""
        return f"{self.text}{name}"

    def with_patience(self, seconds: float) -> Self:
        """See `Store`."""
        return type(self)(self._bucket, seconds)

    def check_owner(self, name: str) -> None:
        """Do nothing, because the bucket's owner controls write access."""

    def top(self) -> list[str]:
        """See `Store`."""
        return sorted({name.partition("/")[0] for name, *_ in self._list("")})

    def create(self, name: str, content: bytes) -> bool:
        """See `Store`."""
        ends_at = time.monotonic() + self._patience
        while True:
            made = self._bucket.create(name, content, self._patience)
            if made:
                return True
            # An earlier PUT may have created the file although its reply was lost.
            found = self.read(name)
            if found is not None:
                return found == content
            if time.monotonic() >= ends_at:
                raise StorageError(
                    f"{self.place(name)} cannot be written: the store did not report the result; run the same "
                    "command again"
                )
            time.sleep(random.uniform(0.0, _PAUSE_SECONDS))  # noqa: S311 - only spreads workers out

    def replace(self, name: str, content: bytes) -> float:
        """See `Store`."""
        return float(self._bucket.put(name, content, self._patience))

    def read(self, name: str) -> bytes | None:
        """See `Store`."""
        pieces: list[bytes] = []
        length = 0
        while (found := self._bucket.get(name, length, self._patience)) is not None:
            pieces.append(found[0])
            length += len(found[0])
            if len(found[0]) < _PART_BYTES:
                return b"".join(pieces)
        return None

    def contents(self, folder: str) -> list[StoredFile]:
        """See `Store`. Unchanged files are not read again."""
        before, known, files = self._known, {}, []
        for name, _, etag, modified in self._list(f"{folder}/"):
            leaf = name.removeprefix(f"{folder}/")
            if "/" in leaf or not leaf:
                continue
            version = (etag, modified)
            content = before[name][1] if name in before and before[name][0] == version else self.read(name)
            if content is not None:
                known[name] = (version, content)
                files.append(StoredFile(name=leaf, content=content, written_at=modified + _CLOCK_STEP))
        with self._lock:
            others = {name: found for name, found in self._known.items() if not name.startswith(f"{folder}/")}
            self._known = others | known
        return files

    def names(self, folder: str) -> list[str]:
        """See `Store`."""
        leaves = (name.removeprefix(f"{folder}/") for name, *_ in self._list(f"{folder}/"))
        return [leaf for leaf in leaves if leaf and "/" not in leaf]

    def remove(self, name: str) -> None:
        """See `Store`."""
        self._bucket.delete(name, self._patience)

    def add_file(self, name: str, path: Path) -> None:
        """See `Store`."""
        self._bucket.put_file(name, path, self._patience)

    def append(self, name: str, line: str) -> None:
        """See `Store`. Each line rewrites the object, so only the end of a long log is kept."""
        with self._lock:
            content = self._logs.get(name, b"") + line.encode(errors="backslashreplace")
            self._logs[name] = content[-_LOG_BYTES:]
            self._bucket.put(name, self._logs[name], self._patience)

    def now(self) -> float:
        """See `Store`."""
        return float(self._bucket.list("job.json", None, self._patience)[2])

    def destination(self, attempt: str) -> str:
        """See `Store`."""
        return self.place(f"data/{attempt}/")

    def attempts(self) -> list[str]:
        """See `Store`."""
        return sorted({name.split("/")[1] for name, *_ in self._list("data/") if name.count("/") > 1})

    def publish(self, attempt: str, state: Path) -> None:
        """See `Store`."""
        for parent, folders, names in os.walk(state):
            folder = Path(parent)
            if folder == state:
                folders[:] = [name for name in folders if name not in LEFT_BEHIND]
            for name in names:
                if folder == state and name in LEFT_BEHIND:
                    continue
                path = folder / name
                key = f"data/{attempt}/.fetchmill/{path.relative_to(state).as_posix()}"
                self._bucket.put_file(key, path, self._patience)

    def remove_attempt(self, attempt: str) -> None:
        """See `Store`."""
        self._bucket.abort_uploads(f"data/{attempt}/", self._patience)
        for name, *_ in list(self._list(f"data/{attempt}/")):
            self._bucket.delete(name, self._patience)

    def abort_uploads(self) -> None:
        """See `Store`."""
        for begin in ("data/", "list/"):
            self._bucket.abort_uploads(begin, self._patience)

    def objects(self, attempt: str) -> dict[str, int]:
        """Return the sizes in bytes of an attempt's objects, by their names in the attempt's folder."""
        begin = f"data/{attempt}/"
        return {name.removeprefix(begin): size for name, size, *_ in self._list(begin)}

    def download(
        self, attempt: str, name: str, size: int, path: Path, is_stopped: Callable[[], bool] = lambda: False
    ) -> bool:
        """Copy an attempt's object into a new file; see `local_copy`.

        Args:
            attempt: name of the attempt.
            name: name of the object in the attempt's folder.
            size: size of the object in bytes, from the listing.
            path: path of the new file.
            is_stopped: as for `local_copy`.
        """
        return self.local_copy(f"data/{attempt}/{name}", size, path, is_stopped)

    def local_copy(self, name: str, size: int, path: Path, is_stopped: Callable[[], bool] = lambda: False) -> bool:
        """Copy an object from the job directory into a new file.

        Args:
            name: name of the object.
            size: size of the object in bytes.
            path: path of the new file.
            is_stopped: returns whether to end early. The file is then incomplete.

        Returns:
            Whether the file is complete.

        Raises:
            StorageError: the file cannot be written, the object is gone, or the object has a different size.
        """
        length = 0
        try:
            with path.open("xb") as file:
                while length < size:
                    if is_stopped():
                        return False
                    found = self._bucket.get(name, length, self._patience)
                    if found is None or not found[0]:
                        break
                    file.write(found[0])
                    length += len(found[0])
        except OSError as error:
            raise StorageError(f"cannot write {path}: {error.strerror or error}") from error
        if length != size:
            raise StorageError(
                f"{self.place(name)} has {length:,} bytes instead of {size:,}: another "
                "process is removing it, or the job is damaged"
            )
        return True

    def _list(self, begin: str) -> Iterator[tuple[str, int, str, int]]:
        """Yield the name, size, ETag and time of each object with a prefix."""
        token: str | None = None
        while True:
            keys, following, _ = self._bucket.list(begin, token, self._patience)
            yield from keys
            if following is None:
                return
            if following == token:
                raise StorageError(f"{self.place(begin)} cannot be listed: the store keeps returning the same page")
            token = following
