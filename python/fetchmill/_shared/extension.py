"""Adds lists to shared jobs."""

from collections.abc import Mapping
from typing import Any

from fetchmill._native import hide_secrets
from fetchmill._options.get import GetOptions
from fetchmill._shared.creation import check_record, files_of
from fetchmill._shared.host_division import full_parts
from fetchmill._shared.host_parts import HostParts
from fetchmill._shared.job_directory import JobDirectory, refuse_known
from fetchmill._shared.list_rows import NotByHostError
from fetchmill._shared.local_state import make_folder, process_name, remove_folder
from fetchmill._shared.ranges import ListFile, first_ranges
from fetchmill._shared.records import AddedList, JobRecord
from fetchmill._shared.source_lister import lists_folder
from fetchmill._shared.stored_options import reach_of
from fetchmill.errors import StorageError, UsageError


def extend_job(job: str, source: str, reach: Mapping[str, Any]) -> AddedList:
    """Add a list to a directory's shared job. Running workers also fetch the new list.

    Args:
        job: the job directory.
        source: the list. It must have the same format as the job's list.
        reach: connection options for the bucket of the job directory.

    Returns:
        The record of the added list.

    Raises:
        UsageError: there is no job, its source is a server or a bucket, or the list does not fit the job.
        StorageError: the job's list is divided by host, and the parts of the new list cannot be written.
    """
    directory = JobDirectory.at(job, reach_of(reach))
    record = directory.job()
    if record.listing is not None:
        raise UsageError(
            f"{directory.text}: its source {record.source} is not a list, so no list can be added; create another job"
        )
    check_record(directory, record)
    options = GetOptions(**{**record.options, "source": source, "dest": job})
    if options.source == "-" or options.source_kind != "list":
        raise UsageError(f"{source} is not a list; only a file or a folder of lists can be added to a shared job")
    list_format, files = files_of(options)
    if list_format != record.list_format:
        raise UsageError(
            f"{source} is {list_format}, but the list of {directory.text} is {record.list_format}; add a list in the "
            "same format, or create another job"
        )
    refuse_known(directory.text, record, [file.path for file in files])
    if record.is_by_host:
        return _add_parts(directory, record, source, files)
    return directory.add_list(hide_secrets(source), files, list(first_ranges(files)))


def _add_parts(directory: JobDirectory, job: JobRecord, source: str, files: list[ListFile]) -> AddedList:
    """Divide a list by host, and add its parts."""
    parts = HostParts(directory.store, job.list_format, job.options)
    folder = make_folder(lists_folder(None), process_name())
    try:
        # A list with few hosts becomes a single part. If it stayed undivided, the workers would have to divide the
        # limits.
        found = parts.divide(files, folder, lambda rows, hosts: max(full_parts(rows, hosts, job.divided_for), 1))
        divided = tuple(file.path for file in files)
        return directory.add_list(hide_secrets(source), list(found.files), list(found.ranges), divided)
    except BaseException as error:
        parts.remove()
        if isinstance(error, NotByHostError):
            raise UsageError(
                f"{directory.text}: its list is divided by host, but {source} cannot be divided, because {error}; "
                "create another job"
            ) from None
        if isinstance(error, OSError):
            raise StorageError(f"cannot divide the list {source} in {folder}: {error}") from error
        raise
    finally:
        remove_folder(folder)
