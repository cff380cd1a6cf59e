"""Creates shared jobs and their workers, and adds lists to shared jobs."""

import os
import secrets
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, BinaryIO

from fetchmill._native import hide_secrets, list_files
from fetchmill._options.get import GetOptions
from fetchmill._options.secrets import OPEN_FIELDS, SECRETS, is_given
from fetchmill._options.sources import BUCKET_REACH
from fetchmill._shared.job_directory import JobDirectory
from fetchmill._shared.local_state import default_folder
from fetchmill._shared.ranges import BLOCK, ListFile, first_line_end, first_ranges
from fetchmill._shared.records import AddedList, JobRecord
from fetchmill._shared.source_list import SourceList, await_list, read_source_list
from fetchmill._shared.store import is_bucket
from fetchmill._shared.worker import RangeWorker
from fetchmill.errors import SecurityError, UsageError

# Seconds until the ranges of a worker without a heartbeat are free.
LEASE_SECONDS = 10.0
_LEASE_MIN, _LEASE_MAX = 1.0, 3600.0
# Options of a single process, such as its folders and its dashboard. They are not part of the job.
_OF_A_PROCESS = (
    *("source", "dest", "state", "dashboard", "dashboard_addr", "dashboard_token", "dashboard_host"),
    *("threads", "concurrency", "concurrency_max", "limit"),
)
# Connections to the bucket of a job directory use these options, too.
_CONNECTIONS = ("ca_file", "proxy")
# Paths of files that each worker reads. They are stored as absolute paths, because workers run in different folders.
_PATHS = ("ca_file", "client_cert", "client_key", "cookies", "sse_c_key_file")
# Options that a shared job refuses, with the reason. They apply to one process only, or need all targets in one place.
_REFUSED = {
    "store": "the items of pages must be fetched in their order",
    "sample": "a sample is drawn from the whole list",
    "coalesce": "parts of one object may be in different ranges",
    "transform": "a job directory must not name code that workers run",
    **dict.fromkeys(("image_max_side", "image_min_side", "image_format"), "workers run no transform"),
    "retry_failed": "the ranges of a shared job are final",
    "max_failed": "it counts one process only",
    "max_bytes": "it counts one process only",
    "first": "it counts one process only",
    "max_duration": "it ends one process only (fetchmill stop ends all)",
    "bwlimit": "it limits one process only",
    "dashboard": "it shows one process only (fetchmill status --watch shows all)",
}
_BUCKET_FORMATS = ("parquet", "tar", "warc", "jsonl")
_STORED_FORMATS = (*_BUCKET_FORMATS, "null")


def create_or_join(options: GetOptions, lease: float, say: Callable[[str], None]) -> RangeWorker:
    """Returns a worker of a directory's shared job. Creates the job if it does not exist.

    Args:
        options: as for a job on one machine; `dest` is the job directory.
        lease: seconds after which the ranges of a worker without a heartbeat are free. An existing job keeps its own
            lease.
        say: called with each message for the user.

    Raises:
        UsageError: an option cannot be used for a shared job, or differs from the existing job's option.
    """
    _check(options, lease)
    directory = JobDirectory.at(options.dest, reach_of(own_values(options) | {"ca_file": options.ca_file}))
    source = hide_secrets(str(options.source))
    if options.source_kind == "list":
        return _create_or_join(directory, options, source, lease, say)
    listed = SourceList(directory, options, lease, say)
    try:
        return _create_or_join(directory, listed.ranged_options(), source, lease, say, listed)
    finally:
        listed.close()


def _create_or_join(
    directory: JobDirectory,
    options: GetOptions,
    source: str,
    lease: float,
    say: Callable[[str], None],
    listed: SourceList | None = None,
) -> RangeWorker:
    """`source` is what the user has named. `listed` is the list of its objects, if the source itself is not a list."""
    mine = shared_options(options)
    job = directory.job() if directory.exists() else directory.create(_plan(options, source, mine, lease, listed))
    _check_same(job, options, source, mine)
    return _worker(directory, job, own_values(options), options.state, say)


def reach_of(own: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the options of a process that are needed to reach the bucket of a job directory."""
    return {name: own[name] for name in (*BUCKET_REACH, *_CONNECTIONS) if own.get(name) is not None}


def join_job(job: str, own: Mapping[str, Any], say: Callable[[str], None]) -> RangeWorker:
    """Returns a worker of a directory's existing shared job.

    Args:
        job: the job directory.
        own: options of this process: secrets, `state`, `concurrency`, `threads`, and those for reaching the bucket.
        say: called with each message for the user.

    Raises:
        UsageError: there is no job, or this process lacks a secret that it needs.
    """
    directory = JobDirectory.at(job, reach_of(own))
    await_list(directory, say)
    given = {name: value for name, value in own.items() if value is not None}
    return _worker(directory, directory.job(), given, given.pop("state", None), say)


def extend_job(job: str, source: str, reach: Mapping[str, Any]) -> AddedList:
    """Adds a list to a directory's shared job. Running workers fetch the list, too.

    Args:
        job: the job directory.
        source: the list. It must have the same format as the job's list.
        reach: options for reaching the bucket of the job directory.

    Returns:
        The record of the added list.

    Raises:
        UsageError: the directory has no job, the job was made from a server or a bucket, or the list does not fit it.
    """
    directory = JobDirectory.at(job, reach_of(reach))
    record = directory.job()
    if read_source_list(directory) is not None:
        raise UsageError(
            f"{directory.text}: its source {record.source} was listed, so no list can be added; create another job"
        )
    _check_stored(directory, record)
    options = GetOptions(**{**record.options, "source": source, "dest": job})
    if options.source == "-" or options.source_kind != "list":
        raise UsageError(f"{source} is not a list; only a file or a folder of lists can be added to a shared job")
    list_format, files = files_of(options)
    if list_format != record.list_format:
        raise UsageError(
            f"{source} is {list_format}, and the list of {directory.text} is {record.list_format}; add a list in the "
            "same format, or create another job"
        )
    return directory.add_list(hide_secrets(source), files, list(first_ranges(files)))


def _worker(
    directory: JobDirectory, job: JobRecord, own: Mapping[str, Any], state: object, say: Callable[[str], None]
) -> RangeWorker:
    _check_stored(directory, job)
    lacking = [name for name in job.secrets if not is_given(own, name)]
    if lacking:
        raise UsageError(
            f"{directory.text} needs {', '.join(lacking)}, and secrets are never stored in it: give "
            f"{'it' if len(lacking) == 1 else 'them'} to this worker as well"
        )
    headers = {**job.options.get("headers", {}), **own.get("headers", {})}
    merged = {**job.options, **own, **({"headers": headers} if headers else {})}
    local = Path(str(state)) if state else default_folder(job.id)
    return RangeWorker(directory, job, merged, local, say)


def _check_stored(directory: JobDirectory, job: JobRecord) -> None:
    """Refuses job options that fetchmill never stores, such as commands and secrets: anybody may have made the job."""
    known = {option.name for option in fields(GetOptions) if option.metadata}
    # A job in a bucket must not choose the endpoint either, because the endpoint gets the credentials for that bucket.
    never = (*SECRETS, *_OF_A_PROCESS, *_REFUSED, *(BUCKET_REACH if is_bucket(directory.text) else ()))
    wrong = [name for name in job.options if name not in known or name in never]
    wrong += [name for name in job.options.get("headers", {}) if name.lower() not in OPEN_FIELDS]
    if wrong:
        place = directory.store.place("job.json")
        raise SecurityError(f"{place} has {wrong[0]}, which no such job directory has; do not use it")


def _check(options: GetOptions, lease: float) -> None:
    if not _LEASE_MIN <= lease <= _LEASE_MAX:
        raise UsageError(f"lease must be from {_LEASE_MIN:g} to {_LEASE_MAX:g} seconds, not {lease:g}")
    if options.source == "-":
        raise UsageError("standard input is read by one process only: store the list in a file that all workers see")
    formats = _BUCKET_FORMATS if is_bucket(options.dest) else _STORED_FORMATS
    if options.format not in formats:
        raise UsageError("a shared job stores shards: choose format parquet, tar, warc or jsonl")
    if options.names == "seq":
        raise UsageError("names seq counts the targets of one process: choose another template for a shared job")
    if options.engine != "native":
        raise UsageError(f"a shared job cannot use engine {options.engine}: it has engine native; leave the option out")
    for option in fields(options):
        if option.name in _REFUSED and getattr(options, option.name) != option.default:
            raise UsageError(
                f"a shared job cannot have {option.name}: {_REFUSED[option.name]}; leave it out", options=[option.name]
            )


def shared_options(options: GetOptions) -> dict[str, Any]:
    """Returns the options that the job directory stores: those that differ from their defaults, without secrets."""
    values: dict[str, Any] = {}
    own = (*_OF_A_PROCESS, *SECRETS, *(BUCKET_REACH if is_bucket(options.dest) else ()))
    for option in fields(options):
        value = getattr(options, option.name)
        if option.name in own or not option.metadata or value == option.default:
            continue
        if option.name in _PATHS:
            value = str(Path(value).absolute())
        values[option.name] = value
    if "headers" in values:
        kept = {name: value for name, value in values["headers"].items() if name.lower() in OPEN_FIELDS}
        values["headers"] = kept
    return {name: value for name, value in values.items() if value != {}}


def own_values(options: GetOptions) -> dict[str, Any]:
    """Returns the options of this process alone: secrets, access to a bucket, `state`, `threads` and concurrency."""
    names = (*SECRETS, *BUCKET_REACH, "state", "threads", "concurrency", "concurrency_max")
    defaults = {option.name: option.default for option in fields(options)}
    own = {name: getattr(options, name) for name in names if getattr(options, name) != defaults[name]}
    return own | ({"headers": dict(options.headers)} if options.headers else {})


def _secrets(options: GetOptions) -> tuple[str, ...]:
    """Returns the names of the secrets that each worker must be given."""
    named = [name for name in SECRETS if getattr(options, name) not in (None, False)]
    return (*named, *(f"header {name}" for name in options.headers or () if name.lower() not in OPEN_FIELDS))


def _plan(
    options: GetOptions, source: str, shared: Mapping[str, Any], lease: float, listed: SourceList | None
) -> JobRecord:
    """Divides the list into ranges, and returns the record of the job. For the arguments, see `_create_or_join`."""
    list_format, files = files_of(options)
    return JobRecord(
        id=secrets.token_hex(8),
        options=shared,
        secrets=_secrets(options),
        source=source,
        files=tuple(files if listed is None else map(listed.in_job, files)),
        list_format=list_format,
        ranges=tuple(first_ranges(files)),
        lease=lease,
    )


def files_of(options: GetOptions) -> tuple[str, list[ListFile]]:
    """Returns the format of a list, and the files of the list.

    Raises:
        UsageError: a file cannot be opened, or options that CSV needs are missing.
    """
    found = list_files(options.to_json())
    list_format = found[0][1] if found else "txt"
    has_fields = list_format in ("csv", "tsv")
    return list_format, [
        _list_file(Path(path).absolute(), has_lines, has_fields, rows, options) for path, _, has_lines, rows in found
    ]


def _list_file(path: Path, has_lines: bool, has_fields: bool, rows: int | None, options: GetOptions) -> ListFile:
    header = 0
    with path.open("rb") as file:
        found = os.fstat(file.fileno())
        if has_lines and has_fields:
            has_lines = options.quote == "none" or not _has(file, (options.quote or '"').encode())
        if has_lines and has_fields:
            _check_dialect(options)
            file.seek(0)
            header = first_line_end(file) if options.csv_header == "yes" else 0
    return ListFile(
        path=str(path), size=found.st_size, modified=found.st_mtime_ns, has_lines=has_lines, header=header, rows=rows
    )


def _has(file: BinaryIO, quote: bytes) -> bool:
    """Returns whether a file contains a quote. If so, a line end may be inside quotes, and the file is not divided."""
    while block := file.read(BLOCK):
        if quote in block:
            return True
    return False


def _check_dialect(options: GetOptions) -> None:
    """Refuses a CSV dialect that must be detected. Each range is read alone, so ranges could detect different ones."""
    if options.csv_header == "auto":
        raise UsageError(
            "csv_header auto looks at the first row only: say yes or no for a shared job", options=["csv_header"]
        )
    if options.delimiter is None and options.list_format != "tsv" and not str(options.source).endswith(".tsv"):
        raise UsageError("the delimiter is detected in the first rows only: say which it is for a shared job")


def _check_same(job: JobRecord, options: GetOptions, source: str, mine: Mapping[str, Any]) -> None:
    """Refuses options and a source that differ from those of the job."""
    theirs = job.options
    for name in sorted({*theirs, *mine}):
        if theirs.get(name) != _as_json(mine.get(name)):
            raise UsageError(
                f"{name} is {theirs.get(name)!r} in the job of {options.dest}, and {mine.get(name)!r} here; run "
                f"fetchmill join {options.dest}, or choose another directory"
            )
    if job.source != source:
        raise UsageError(f"{options.dest} has a job for {job.source}, not for {source}; choose another directory")


def _as_json(value: object) -> object:
    """Returns a value as it would be after a round trip through JSON, where a tuple becomes a list."""
    return list(value) if isinstance(value, (tuple, list)) else value
