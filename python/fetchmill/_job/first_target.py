"""Lists the first target of a source before `restart` removes an earlier job."""

import os
import select
import stat
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import TypeVar

from fetchmill._native import Job
from fetchmill._options.get import GetOptions
from fetchmill._options.list import ListOptions
from fetchmill._options.sources import values_for
from fetchmill.errors import ListingError

T = TypeVar("T")
_STEP_SECONDS = 0.05
# Time limit for a listing to end after its last row or after an abort, in seconds.
_END_SECONDS = 10.0
# Options that jobs and lists share, but that the list must not inherit, because they describe the job's own files and
# dashboard.
_OF_THE_JOB = {
    *("format", "state", "durability", "commit_window"),
    *("dashboard", "dashboard_addr", "dashboard_token", "dashboard_host"),
}


def list_first_target(options: GetOptions) -> None:
    """List one target if the job removes an earlier one, so that a wrong URL does not destroy that job's files.

    For standard input, only check that it is not empty. Do not check other sources that can be read only once, or jobs
    that store an API's items, which are not targets.

    Args:
        options: the options of the job.

    Raises:
        ListingError: the source lists no targets.
        FetchmillError: the source cannot be listed.
    """
    if not _removes_job(options) or options.store == "items":
        return
    if str(options.source) == "-" and _is_input_empty():
        raise ListingError(f"standard input is empty; {_not_removed(options)}")
    if _is_read_once(options.source):
        return
    with tempfile.TemporaryDirectory(prefix="fetchmill-restart-") as folder:
        listing = Job(_listing(options).to_json(folder))
        try:
            while (rows := listing.take_rows(_STEP_SECONDS)) == b"":
                pass
            if rows is None:
                listing.wait(_END_SECONDS)
                listing.report()
                raise ListingError(f"{options.source} lists no targets; {_not_removed(options)}")
        finally:
            listing.abort()
            listing.wait(_END_SECONDS)


def take_first_item(options: GetOptions, items: Iterator[T]) -> Iterator[T]:
    """If the job removes an earlier one, check that there is an item. Return an iterator over all items.

    Args:
        options: the options of the job.
        items: the targets of a program.

    Raises:
        ListingError: there are no items.
        Exception: any exception that the iterator raises.
    """
    if not _removes_job(options):
        return items
    for first in items:
        return chain((first,), items)
    raise ListingError(f"the iterable yields no items; {_not_removed(options)}")


def _removes_job(options: GetOptions) -> bool:
    state = options.state or Path(options.dest, ".fetchmill")
    return options.restart and Path(state, "job.sqlite").exists()


def _not_removed(options: GetOptions) -> str:
    return f"the job in {options.dest} was not removed"


def _is_input_empty() -> bool:
    """Return whether standard input is empty. Wait for the first byte of a pipe, but do not read it."""
    with suppress(OSError):
        found = os.fstat(0)
        if stat.S_ISREG(found.st_mode):
            return os.lseek(0, 0, os.SEEK_CUR) >= found.st_size
        if stat.S_ISFIFO(found.st_mode):
            waiting = select.poll()
            waiting.register(0, select.POLLIN)
            return not any(events & select.POLLIN for _, events in waiting.poll())
    return False


def _is_read_once(source: str | PathLike[str]) -> bool:
    """Return whether a source is standard input or a pipe."""
    path = Path(source)
    return str(source) == "-" or (path.exists() and not path.is_file() and not path.is_dir())


def _listing(options: GetOptions) -> ListOptions:
    """Return the options for listing the targets of a job."""
    return ListOptions(**values_for(ListOptions, options, _OF_THE_JOB))
