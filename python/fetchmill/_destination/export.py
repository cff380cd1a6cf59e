"""Writes what a job has stored again, in another format, as one blocking call."""

import json
import os
from typing import Literal, get_args

from fetchmill._job.progress import ProgressChoice, shown
from fetchmill._job.report import Report
from fetchmill._job.run import run_to_end
from fetchmill._native import Export
from fetchmill._options.table import Durability
from fetchmill._options.values import check_path
from fetchmill.errors import UsageError

ExportFormat = Literal["files", "tar", "parquet", "warc", "jsonl"]
EXPORT_FORMATS = get_args(ExportFormat)


def export(
    dest: str | os.PathLike[str],
    other: str | os.PathLike[str],
    *,
    format: ExportFormat,
    shard_size: int | None = None,
    state: str | os.PathLike[str] | None = None,
    other_state: str | os.PathLike[str] | None = None,
    durability: Durability = "power",
    progress: ProgressChoice = None,
) -> Report:
    """Writes every object of a destination into another one, in another format; resumes what was interrupted.

    The other destination is a job's like any other: `status`, `verify` and another export work on it. Blocks until
    the end and releases the GIL meanwhile. What was fetched must not change in between.

    Args:
        dest: the destination of a job.
        other: where objects go: a folder that is missing, empty or the same export's.
        format: how they are stored there.
        shard_size: bytes of a shard.
        state: folder of the journal of `dest`, when its job was given one.
        other_state: folder of the journal of `other`.
        durability: what a commit survives, a `power` cut or the death of the `process` only.
        progress: as for `fetchmill.get`.

    Returns:
        The ledger of the export. Objects that cannot be stored, because their names cannot be paths or meet on
        disk, are counted as failed: `fetchmill.failures(other)` iterates over them.

    Raises:
        UsageError: an option cannot be used, or `other` belongs to something else.
        BusyError: a process works on one of the two.
        JournalError: an object is damaged: look with `fetchmill.verify`.
        StorageError: the local storage failed.

    Example:
        >>> fetchmill.export("out/", "shards/", format="parquet").failed  # doctest: +SKIP
        0
    """
    options = to_json(dest, other, format, shard_size, state, other_state, durability)
    with shown(progress) as show:
        return Report.from_native(run_to_end(lambda: Export(options), show))


def to_json(
    dest: str | os.PathLike[str],
    other: str | os.PathLike[str],
    format: str,
    shard_size: int | None,
    state: str | os.PathLike[str] | None,
    other_state: str | os.PathLike[str] | None,
    durability: str,
) -> str:
    """For the native module: what is None is left out, which means the core's default."""
    if format not in EXPORT_FORMATS:
        raise UsageError(f"format must be one of {', '.join(EXPORT_FORMATS)}, not {format!r}")
    options = {
        "dest": check_path("dest", dest),
        "other": check_path("other", other),
        "format": format,
        "shard_size": shard_size,
        "state": None if state is None else check_path("state", state),
        "other_state": None if other_state is None else check_path("other_state", other_state),
        "durability": durability,
    }
    return json.dumps({name: value for name, value in options.items() if value is not None})
