"""Concludes a shared job: writes the sum of all ledgers, and removes data that no commit record names."""

from fetchmill._shared.job_directory import FINISHED, LISTING, JobDirectory
from fetchmill._shared.local_lists import parts_in
from fetchmill._shared.records import JobRecord
from fetchmill._shared.status import sum_of
from fetchmill._shared.store import Store
from fetchmill.errors import JournalError


def conclude(store: Store, known: JobRecord) -> None:
    """Write the sum of all ledgers, and remove attempts that no commit record names.

    Args:
        store: the files of the job directory.
        known: the job as known to the worker. All its ranges are final.

    Raises:
        JournalError: a commit record has disappeared.
    """
    directory = JobDirectory(store)
    job = directory.job()
    if len(job.files) > len(known.files):
        return  # a list was just added; the workers that fetch it conclude the job
    if not directory.is_complete(job):
        raise JournalError(f"{directory.text} has open ranges again; run the same command again")
    _write_sum(store, sum_of(directory.commits(), job).to_bytes())
    final = directory.final_attempts()
    named = {f"{range_id}-{attempt}" for range_id, attempt in final.items()}
    for attempt in directory.attempts():
        # If a list is added now, attempts at its ranges must not be removed.
        if attempt not in named and attempt.rpartition("-")[0] in final:
            store.remove_attempt(attempt)
    # `extend` divides a list by host, and adds the parts before the record that names them.
    if not job.is_by_host:
        _remove_unnamed_parts(store, job)
    store.abort_uploads()
    for range_id, names in directory.claims().items():
        for name in names:
            if range_id in final or range_id == LISTING:
                store.remove(f"claims/{name}")


def _remove_unnamed_parts(store: Store, job: JobRecord) -> None:
    """Remove lists and parts of lists that the job does not name, because the process that was adding them died."""
    named = {file.path.rpartition("/")[2] for file in job.files}
    for part in parts_in(store):
        if part.rpartition("/")[2] not in named:
            store.remove(part)


def _write_sum(store: Store, content: bytes) -> None:
    """Write `finished.json`, unless it already has this content. The sum changes when a list is added."""
    if store.read(FINISHED) != content:
        store.replace(FINISHED, content)
