"""A list that only one process can read, which is standard input or a program's items.

The process that creates the job saves the list locally, then copies it into the job directory. The job names the
copy only when it is complete, so no worker sees an incomplete list.
"""

import json
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from fetchmill._options.get import GetOptions
from fetchmill._quick_dataclass import dataclass
from fetchmill._shared.job_directory import JobDirectory
from fetchmill._shared.local_lists import copy_into_job
from fetchmill._shared.local_state import check_room, make_folder, process_name, remove_folder
from fetchmill._shared.ranges import BLOCK
from fetchmill._shared.records import JobRecord
from fetchmill.errors import StorageError, UsageError

# Minimum number of bytes written at a time. The free space is checked before each write.
_BATCH_BYTES = 1 << 20


@dataclass(frozen=True, kw_only=True)
class GivenList:
    """See the module docstring.

    Args:
        name: name of the list in messages and in the job.
        format: the format of the list.
        blocks: the content of the list.
    """

    name: str
    format: str
    blocks: Iterable[bytes]

    @contextmanager
    def saved(self, parent: Path) -> Iterator[Path]:
        """Save the list in a local file that only this user can read. The file is removed at the end.

        Args:
            parent: the folder in which listing processes on this machine create their own folders.

        Raises:
            StorageError: the list cannot be saved, or this machine has too little free space.
            UsageError: an item is not a URL or a dict.
        """
        folder = make_folder(parent, process_name())
        try:
            # The name of a part: 21 hexadecimal digits.
            path = folder / f"{secrets.token_hex(11)[1:]}.{self.format}"
            for batch in _batches(self.blocks):
                check_room(folder)
                self._append(batch, path)
            yield path
        finally:
            remove_folder(folder)

    def _append(self, batch: bytes, path: Path) -> None:
        try:
            with path.open("ab") as file:
                file.write(batch)
        except OSError as error:
            raise StorageError(f"cannot save {self.name} in {path.parent}: {error.strerror or error}") from error


def standard_input(options: GetOptions) -> GivenList:
    """Return the list on standard input."""
    unnamed = "txt" if options.delimiter is None and options.quote is None else "csv"
    return GivenList(name="standard input", format=options.list_format or unnamed, blocks=_blocks_of_input())


def items_of_program(items: Iterable[str | Mapping[str, object]]) -> GivenList:
    """Return a program's items, each a URL or a dict, as a list.

    Raises:
        UsageError: the items are not an iterable, or are a table.
    """
    if hasattr(items, "columns"):
        raise UsageError(
            "a shared job cannot use a table as its source; save it as Parquet, and pass the path of the file"
        )
    if not isinstance(items, Iterable):
        raise UsageError(f"source must be a path, a URL, or an iterable of URLs or dicts, not {type(items).__name__}")
    return GivenList(name="an iterable", format="jsonl", blocks=map(_line, items))


def create_with_copy(directory: JobDirectory, job: JobRecord) -> None:
    """Create a job with a copy of its only list file. If another process was faster, remove the copy."""
    name, file = copy_into_job(directory.store, job.files[0])
    try:
        found = directory.create(replace(job, files=(file,)))
    except BaseException:
        directory.store.remove(name)
        raise
    if found.id != job.id:
        directory.store.remove(name)


def _batches(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Join small blocks into larger batches. The last batch may be empty."""
    batch = bytearray()
    for block in blocks:
        batch += block
        if len(batch) >= _BATCH_BYTES:
            yield bytes(batch)
            batch.clear()
    yield bytes(batch)


def _blocks_of_input() -> Iterator[bytes]:
    try:
        while block := os.read(0, BLOCK):
            yield block
    except OSError as error:
        raise StorageError(f"cannot read standard input: {error.strerror or error}") from error


def _line(item: object) -> bytes:
    if not isinstance(item, (str, Mapping)):
        raise UsageError(f"an item of the source must be a URL or a dict, not {type(item).__name__}")
    try:
        return json.dumps(item if isinstance(item, str) else dict(item), allow_nan=False).encode() + b"\n"
    except (TypeError, ValueError) as error:
        raise UsageError(f"an item of the source cannot be written as JSON ({error}): {str(item)[:200]}") from None
