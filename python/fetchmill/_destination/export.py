"""`export`: rewrites the objects of a job in another format, in one blocking call."""

import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

from fetchmill._job.progress import ProgressChoice, shown
from fetchmill._job.report import Report
from fetchmill._job.run import run_to_end
from fetchmill._native import Export
from fetchmill._options.file_names import refuse_file_name
from fetchmill._options.shared_parts import refuse_part_of_shared_job
from fetchmill._options.sources import is_bucket
from fetchmill._options.table import Durability
from fetchmill._options.values import check_choice, check_path
from fetchmill._shared import is_shared_job, reach_named
from fetchmill.errors import FetchmillError, UsageError

if TYPE_CHECKING:
    from fetchmill._shared.folders import RangeCopies

ExportFormat = Literal["files", "tar", "parquet", "warc", "jsonl"]
EXPORT_FORMATS = get_args(ExportFormat)


def export(  # noqa: PLR0913 - every option has a default
    dest: str | os.PathLike[str],
    other: str | os.PathLike[str],
    *,
    format: ExportFormat,
    shard_size: int | None = None,
    state: str | os.PathLike[str] | None = None,
    other_state: str | os.PathLike[str] | None = None,
    durability: Durability = "power",
    progress: ProgressChoice = None,
    endpoint_url: str | None = None,
    region: str | None = None,
    profile: str | None = None,
) -> Report:
    """Copy all objects of a destination to another destination, in another format. Resume an interrupted export.

    Like the destination of any job, the new destination can be passed to `status`, `verify` and `export`. The call
    blocks until the export ends, and releases the GIL while it waits. The objects in `dest` must not change until the
    export is complete. A shared job must be finished. If it is in a bucket, its ranges are copied to a temporary folder
    on this machine, one at a time.

    Args:
        dest: the destination of a job, or the directory of a shared job.
        other: the folder to write to. It must be missing, empty, or left by an interrupted run of the same export.
        format: the format of `other`.
        shard_size: size of a shard in bytes.
        state: journal folder of `dest`, if its job was started with `state`.
        other_state: journal folder of `other`.
        durability: `power` if commits must survive a power cut; `process` if they only have to survive a crash of the
            process.
        progress: as for `fetchmill.get`.
        endpoint_url: URL of the store, if `dest` is a shared job in a bucket. None uses the environment's value.
        region: the region of the bucket.
        profile: the profile that provides the bucket's credentials.

    Returns:
        The ledger of the export. An object counts as failed if its name is not a valid path or collides with another
        one on disk. `fetchmill.failures(other)` iterates over failed objects.

    Raises:
        UsageError: an option is invalid, `other` already contains something else, or a shared job is not finished.
        BusyError: another process is using one of the two destinations.
        JournalError: an object is damaged. Run `fetchmill.verify` for details.
        StorageError: the local storage failed.

    Example:
        >>> fetchmill.export("out/", "shards/", format="parquet").failed  # doctest: +SKIP
        0
    """
    reach = reach_named(endpoint_url, region, profile)
    with (
        prepare(dest, other, format, shard_size, state, other_state, durability, reach) as prepared,
        shown(progress) as show,
    ):
        return Report.from_native(run_to_end(prepared.start, show))


class PreparedExport:
    """An export whose options have been checked.

    Args:
        options: the options for the native module.
        copies: local copies of the ranges, if `dest` is a shared job in a bucket.
    """

    def __init__(self, options: str, copies: "RangeCopies | None") -> None:
        self._options = options
        self._copies = copies

    def start(self) -> Export:
        """Start or resume the export."""
        return Export(self._options, self._copies)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _class: object, error: object, _trace: object) -> None:
        """Remove the copies. If an error names a copy, replace the path with the object's name in the bucket."""
        if self._copies is not None:
            if isinstance(error, FetchmillError):
                error.args = (self._copies.named_in_bucket(str(error)), *error.args[1:])
            self._copies.close()


def prepare(
    dest: str | os.PathLike[str],
    other: str | os.PathLike[str],
    format: str,
    shard_size: int | None,
    state: str | os.PathLike[str] | None,
    other_state: str | os.PathLike[str] | None,
    durability: str,
    reach: Mapping[str, Any],
) -> PreparedExport:
    """Return an export that is ready to start; see `export`.

    `reach` contains connection options for the bucket of a shared job.

    Raises:
        UsageError: an option is invalid, or `dest` is a shared job that cannot be exported.
    """
    check_choice("format", format, EXPORT_FORMATS)
    check_choice("durability", durability, get_args(Durability))
    if is_bucket(os.fspath(other)):
        raise UsageError(
            f"OTHER must be a folder, not the bucket prefix {os.fspath(other)}",
            hint="export to a folder, then copy its files to the bucket with the store's own tool",
        )
    refuse_part_of_shared_job(other)
    refuse_file_name(other)
    options: dict[str, Any] = {
        "dest": check_path("dest", dest),
        "other": check_path("other", other),
        "format": format,
        "shard_size": shard_size,
        "state": None if state is None else check_path("state", state),
        "other_state": None if other_state is None else check_path("other_state", other_state),
        "durability": durability,
    }
    copies = None
    if state is None and is_shared_job(options["dest"], reach):
        from fetchmill._destination.shared_export import shared_input

        found = shared_input(options["dest"], reach)
        options["source"], options["ranges"], copies = found.source, found.ranges, found.copies
    # Omit options that are None, so that the core uses its defaults.
    return PreparedExport(json.dumps({name: value for name, value in options.items() if value is not None}), copies)
