"""Creates shared jobs and their workers."""

import os
import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, BinaryIO

from fetchmill._native import hide_secrets, list_files
from fetchmill._options.file_names import refuse_file_name
from fetchmill._options.get import GetOptions
from fetchmill._options.secrets import is_given
from fetchmill._shared.first_part import FirstPart
from fetchmill._shared.given_list import GivenList, create_with_copy, standard_input
from fetchmill._shared.host_division import HostDivision, has_host_limits
from fetchmill._shared.job_directory import JobDirectory
from fetchmill._shared.list_claim import await_job
from fetchmill._shared.listing import Listing
from fetchmill._shared.local_state import default_folder, process_name
from fetchmill._shared.ranges import BLOCK, InventoryFile, ListFile, Range, first_ranges, header_end
from fetchmill._shared.records import JobRecord
from fetchmill._shared.source_lister import LISTING_END_SECONDS, Part, SourceLister, lists_folder
from fetchmill._shared.store import is_bucket
from fetchmill._shared.stored_options import (
    LISTED_FORMAT,
    check_stored,
    list_options,
    listing_options,
    options_of_listed,
    own_values,
    reach_of,
    secrets_of,
    shared_options,
    with_own,
)
from fetchmill._shared.worker import RangeWorker
from fetchmill.errors import UsageError

# Default lease: seconds without a heartbeat after which a worker's ranges are free.
LEASE_SECONDS = 10.0
_LEASE_MIN, _LEASE_MAX = 1.0, 3600.0
# Options that a shared job refuses, with the reasons. These options apply to only one process, or need all targets in
# one place.
_REFUSED = {
    "store": "the items of pages must be fetched in order",
    "sample": "a sample is taken from the whole list",
    "coalesce": "the parts of an object may be in different ranges",
    "transform": "a job directory must not name code for workers to run",
    **dict.fromkeys(("image_max_side", "image_min_side", "image_format"), "workers do not run transforms"),
    "restart": "other workers may be fetching ranges; remove the job directory, or choose another one",
    "retry_failed": "the ranges of a shared job are final",
    "max_failed": "it applies to only one process",
    "max_bytes": "it applies to only one process",
    "first": "it applies to only one process",
    "max_duration": "it stops only one process (fetchmill stop stops all of them)",
    "bwlimit": "it limits only one process",
    "dashboard": "it shows only one process (fetchmill status --watch shows all of them)",
}
# Text that replaces a secret; see `hide_secrets`.
_HIDDEN = "***"
# Matches the placeholder for a row's number in a name template from which `{{` and `}}` have been removed.
_INDEX = re.compile(r"\{index(![a-z])?\}")
_BUCKET_FORMATS = ("parquet", "tar", "warc", "jsonl")
_STORED_FORMATS = (*_BUCKET_FORMATS, "null")


def create_or_join(
    options: GetOptions, lease: float, say: Callable[[str], None], given: GivenList | None = None
) -> RangeWorker:
    """Return a worker for a directory's shared job. Create the job if it does not exist.

    Args:
        options: the options, as for a job on one machine; `dest` is the job directory.
        lease: seconds without a heartbeat after which a worker's ranges are free. An existing job keeps its own lease.
        say: called with each message for the user.
        given: the list, if no other process can read it.

    Raises:
        UsageError: an option cannot be used for a shared job, or differs from the existing job's option. Also raised if
            the job exists and its list is `given` or on standard input.
    """
    _check(options, lease)
    directory = JobDirectory.at(options.dest, reach_of(own_values(options) | {"ca_file": options.ca_file}))
    refuse_file_name(options.dest, has_job=directory.exists)
    if given is None and options.source == "-":
        given = standard_input(options)
    if given is not None:
        return _create(directory, options, given, lease, say)
    name, is_list = process_name(), options.source_kind == "list"
    plan = _Definition(options if is_list else options_of_listed(options), lease, options)
    lister = None
    if is_list and not directory.exists():
        if has_host_limits(plan.shared):
            parent = lists_folder(options.state)
            HostDivision(directory, name, options.concurrency, parent, lease, say).create(plan.of_list())
        else:
            directory.create(plan.of_list())
    elif not directory.exists():
        listing = list_options(str(options.source), plan.listing or {}, with_own(plan.shared, own_values(options)))
        lister = FirstPart(directory, name, plan.source, listing, lists_folder(options.state), lease, say).create(
            plan.of_part
        )
    try:
        job = directory.job()
        plan.check_same(job)
        return _worker(directory, job, own_values(options), say, name, str(options.source), lister)
    except BaseException:
        if lister is not None:
            lister.stop()
            lister.join(LISTING_END_SECONDS)
        raise


def _create(
    directory: JobDirectory, options: GetOptions, given: GivenList, lease: float, say: Callable[[str], None]
) -> RangeWorker:
    """Create a job whose list no other process can read, and return a worker."""
    refusal = UsageError(
        f"{directory.text} already has a shared job, and only the process that creates a job reads {given.name}",
        hint=f"work on that job: fetchmill join {directory.text}",
    )
    if directory.exists():
        raise refusal
    directory.refuse_foreign()
    name, parent = process_name(), lists_folder(options.state)
    with given.saved(parent) as path:
        plan = _Definition(replace(options, source=str(path), list_format=given.format), lease, options)
        try:
            job = replace(plan.of_list(), source=given.name)
        except UsageError as error:
            text = str(error).replace(str(path), given.name)
            raise UsageError(text, hint=error.hint, options=error.options) from error
        if has_host_limits(plan.shared):
            HostDivision(directory, name, options.concurrency, parent, lease, say, is_here=True).create(job)
        else:
            create_with_copy(directory, job)
    found = directory.job()
    if found.id != job.id:
        raise refusal
    return _worker(directory, found, own_values(options), say, name, None)


def join_job(job: str, own: Mapping[str, Any], say: Callable[[str], None]) -> RangeWorker:
    """Return a worker for a directory's existing shared job.

    Args:
        job: the job directory.
        own: options of this process: secrets, `state`, `concurrency`, `threads`, bucket options, and `source` if the
            process knows the source with its secrets.
        say: called with each message for the user.

    Raises:
        UsageError: there is no job, or this process lacks a required secret.
    """
    directory = JobDirectory.at(job, reach_of(own))
    await_job(directory, say)
    given = {name: value for name, value in own.items() if value is not None}
    record = directory.job()
    source = given.pop("source", None if _HIDDEN in record.source else record.source)
    return _worker(directory, record, given, say, process_name(), source)


def _worker(
    directory: JobDirectory,
    job: JobRecord,
    own: Mapping[str, Any],
    say: Callable[[str], None],
    name: str,
    source: str | None,
    lister: SourceLister | None = None,
) -> RangeWorker:
    """Create a worker. `source` is the source with its secrets; None if unknown to this process."""
    check_record(directory, job)
    lacking = [secret for secret in job.secrets if not is_given(own, secret)]
    if lacking:
        raise UsageError(
            f"{directory.text} needs {', '.join(lacking)}, but job directories never store secrets; give "
            f"{'it' if len(lacking) == 1 else 'them'} to this worker as well"
        )
    given = {name: value for name, value in own.items() if name != "state"}
    local = Path(str(own["state"])).absolute() if own.get("state") else default_folder(job.id)
    options = with_own(job.options, given)
    listing = Listing(directory, name, source, options, own.get("state"), lister)
    return RangeWorker(directory, job, name, options, local, listing, say)


def check_record(directory: JobDirectory, job: JobRecord) -> None:
    """Refuse a job with options that fetchmill never stores.

    Raises:
        SecurityError: the job uses such an option.
    """
    for stored in (job.options, job.listing or {}):
        check_stored(directory.store.place("job.json"), directory.text, stored, tuple(_REFUSED))


def _check(options: GetOptions, lease: float) -> None:
    if not _LEASE_MIN <= lease <= _LEASE_MAX:
        raise UsageError(f"lease must be from {_LEASE_MIN:g} to {_LEASE_MAX:g} seconds, not {lease:g}")
    formats = _BUCKET_FORMATS if is_bucket(options.dest) else _STORED_FORMATS
    if options.format not in formats:
        raise UsageError("a shared job stores shards; choose format parquet, tar, warc or jsonl")
    if options.names == "seq":
        raise UsageError("names seq counts the targets of one process; choose another template for a shared job")
    if _INDEX.search(str(options.names).replace("{{", "").replace("}}", "")):
        raise UsageError("names with {index} number the rows of one process; choose another template for a shared job")
    if options.engine != "native":
        raise UsageError(f"a shared job cannot use engine {options.engine}, only engine native; leave the option out")
    for option in fields(options):
        if option.name in _REFUSED and getattr(options, option.name) != option.default:
            raise UsageError(
                f"a shared job cannot use {option.name}: {_REFUSED[option.name]}; leave it out", options=[option.name]
            )


class _Definition:
    """The definition of a job that does not exist yet.

    Args:
        options: the job's options for fetching its list.
        lease: see `create_or_join`.
        given: the options as given by the user, including the source.
    """

    def __init__(self, options: GetOptions, lease: float, given: GetOptions) -> None:
        self.shared = shared_options(options)
        self.source = hide_secrets(str(given.source))
        # Options for listing the source; None if the source is itself a list.
        self.listing = None if given.source_kind == "list" else listing_options(given)
        self._options = options
        self._dest = given.dest
        self._lease = lease

    def of_list(self) -> JobRecord:
        """Return the definition of a job whose source is a list."""
        list_format, files = files_of(self._options)
        return self._record(list_format, tuple(files), tuple(first_ranges(files)))

    def of_part(self, part: Part) -> JobRecord:
        """Return the definition of a job that starts with the first part of its source's list."""
        return self._record(LISTED_FORMAT, (part.file,), part.ranges)

    def _record(self, list_format: str, files: tuple[ListFile, ...], ranges: tuple[Range, ...]) -> JobRecord:
        return JobRecord(
            id=secrets.token_hex(8),
            options=self.shared,
            secrets=secrets_of(self._options),
            source=self.source,
            files=files,
            list_format=list_format,
            ranges=ranges,
            lease=self._lease,
            listing=self.listing,
        )

    def check_same(self, job: JobRecord) -> None:
        """Refuse a job with different options or a different source.

        Raises:
            UsageError: the options or the source differ.
        """
        if job.source != self.source:
            raise UsageError(
                f"{self._dest} already has a job for {job.source}, not for {self.source}; choose another directory"
            )
        for theirs, mine in ((job.options, self.shared), (job.listing or {}, self.listing or {})):
            for name in sorted({*theirs, *mine}):
                if theirs.get(name) != _as_json(mine.get(name)):
                    raise UsageError(
                        f"{name} is {theirs.get(name)!r} in the job at {self._dest}, but {mine.get(name)!r} here; run "
                        f"fetchmill join {self._dest}, or choose another directory"
                    )


def files_of(options: GetOptions) -> tuple[str, list[ListFile]]:
    """Return a list's format and files.

    Raises:
        UsageError: a file cannot be opened, or options required for CSV are missing.
    """
    found = list_files(options.to_json())
    list_format = found[0][1] if found else "txt"
    has_fields = list_format in ("csv", "tsv")
    files = []
    for path, _, has_lines, rows, inventory in found:
        file = _list_file(Path(path).absolute(), has_lines, has_fields, rows, options)
        named = None if inventory is None else InventoryFile(head=inventory[0], md5=inventory[1])
        files.append(replace(file, inventory=named))
    return list_format, files


def _list_file(path: Path, has_lines: bool, has_fields: bool, rows: int | None, options: GetOptions) -> ListFile:
    header = 0
    with path.open("rb") as file:
        found = os.fstat(file.fileno())
        if has_lines and has_fields:
            has_lines = options.quote == "none" or not _has(file, (options.quote or '"').encode())
        if has_lines and has_fields:
            _check_dialect(options)
            file.seek(0)
            header = header_end(file) if options.csv_header == "yes" else 0
    return ListFile(
        path=str(path), size=found.st_size, modified=found.st_mtime_ns, has_lines=has_lines, header=header, rows=rows
    )


def _has(file: BinaryIO, quote: bytes) -> bool:
    """Return whether a file contains a quote. If so, it is not divided, because a line ending may be inside quotes."""
    while block := file.read(BLOCK):
        if quote in block:
            return True
    return False


def _check_dialect(options: GetOptions) -> None:
    """Refuse to detect a CSV dialect, because separately read ranges could detect different dialects."""
    if options.csv_header == "auto":
        raise UsageError(
            "csv_header auto checks only the first row; for a shared job, set it to yes or no", options=["csv_header"]
        )
    if options.delimiter is None and options.list_format != "tsv" and not str(options.source).endswith(".tsv"):
        raise UsageError("the delimiter is detected from the first rows only; for a shared job, set it")


def _as_json(value: object) -> object:
    """Return a value as it would be after a round trip through JSON, where a tuple becomes a list."""
    return list(value) if isinstance(value, (tuple, list)) else value
