"""A job as one blocking call."""

from collections.abc import AsyncIterable, Iterable
from os import PathLike
from typing import Unpack

from fetchmill._native import Job
from fetchmill.bridging import Target, close_iterator, from_async
from fetchmill.options import GetKeywords, GetOptions
from fetchmill.report import Report
from fetchmill.waiting import run_to_end


def get(
    source: str | PathLike[str] | Iterable[Target] | AsyncIterable[Target],
    dest: str | PathLike[str],
    **options: Unpack[GetKeywords],
) -> Report:
    """Fetches every object that a source lists into a destination; resumes what an earlier call began.

    Blocks until the job has ended and releases the GIL meanwhile. On KeyboardInterrupt (or any other exception that a
    signal handler raises) the requests in flight are drained, at most 5 s, a checkpoint is written, and the exception
    goes on; a second one ends the job at once. Either way the same call resumes.

    Args:
        source: where targets come from: `http://host:port[/path]` or the same with https for a server that lists its
            objects; the path of a list of URLs; or any iterable or async iterable of URLs, or of pairs of a URL and a
            name, a generator without end included. It is read on a thread of its own, as far ahead as there is room.
            To resume, it must give the same items in the same order: those that are done are skipped, and what differs
            stops the job.
        dest: the destination: a folder that is missing, empty or the same job's.
        **options: the fields of `GetOptions`, which has their units and defaults.

    Returns:
        The ledger. Absent and failed targets are counted there: they raise nothing.

    Raises:
        UsageError: an option cannot be used, or the destination belongs to something else; nothing was touched.
        ListingError: the listing failed, is incomplete or never ends.
        TemporaryError: the origin gave no success for `give_up_after` seconds.
        SecurityError: the listing led to another origin, or the only server's certificate is not to be trusted.
        Exception: whatever the iterable raises, after a checkpoint.
        StorageError: the local storage failed.
        BusyError: another process runs this job.
        JournalError: the journal or the output contradict each other.

    Example:
        >>> report = fetchmill.get("http://127.0.0.1:8080", "out/", limit=128)  # doctest: +SKIP
        >>> report.listed == report.fetched + report.absent + report.failed + report.skipped  # doctest: +SKIP
        True
    """
    if isinstance(source, (str, PathLike)):
        checked = GetOptions(source=source, dest=dest, **options).to_json()
        return Report.from_native(run_to_end(lambda: Job(checked)))
    checked = GetOptions(source="an iterable", dest=dest, **options).to_json("iterable")
    iterator = from_async(source) if isinstance(source, AsyncIterable) else iter(source)
    try:
        return Report.from_native(run_to_end(lambda: Job(checked, iterator)))
    finally:
        close_iterator(iterator)
