"""A job as one blocking call."""

from os import PathLike
from typing import Unpack

from fetchmill._native import Job
from fetchmill.options import GetKeywords, GetOptions
from fetchmill.report import Report
from fetchmill.waiting import run_to_end


def get(source: str, dest: str | PathLike[str], **options: Unpack[GetKeywords]) -> Report:
    """Fetches every object that a source lists into a destination; resumes what an earlier call began.

    Blocks until the job has ended and releases the GIL meanwhile. On KeyboardInterrupt (or any other exception that a
    signal handler raises) the requests in flight are drained, at most 5 s, a checkpoint is written, and the exception
    goes on; a second one ends the job at once. Either way the same call resumes.

    Args:
        source: where targets come from, `http://host:port[/path]`.
        dest: the destination: a folder that is missing, empty or the same job's.
        **options: the fields of `GetOptions`, which has their units and defaults.

    Returns:
        The ledger. Absent and failed targets are counted there: they raise nothing.

    Raises:
        UsageError: an option cannot be used, or the destination belongs to something else; nothing was touched.
        ListingError: the listing failed, is incomplete or never ends.
        TemporaryError: the origin gave no success for `give_up_after` seconds.
        SecurityError: the listing led to another origin.
        StorageError: the local storage failed.
        BusyError: another process runs this job.
        JournalError: the journal or the output contradict each other.

    Example:
        >>> report = fetchmill.get("http://127.0.0.1:8080", "out/", limit=128)  # doctest: +SKIP
        >>> report.listed == report.fetched + report.absent + report.failed + report.skipped  # doctest: +SKIP
        True
    """
    checked = GetOptions(source=source, dest=dest, **options).to_json()
    return Report.from_native(run_to_end(lambda: Job(checked)))
