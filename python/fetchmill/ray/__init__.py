"""Reads the objects in a list as a Ray Data Dataset.

    import fetchmill.ray

    dataset = fetchmill.ray.read("urls.parquet", column="url")
    dataset.filter(lambda row: row["status"] == 200).map_batches(decode)

To run the workers of a shared job in Ray, pass `fetchmill.Ray` to `fetchmill.shared_jobs.get(..., on=...)`.
"""

import os
from typing import TYPE_CHECKING, Any, Unpack

from fetchmill._options.get import GetOptions
from fetchmill._options.secrets import OPEN_FIELDS
from fetchmill._options.stream import StreamOptions
from fetchmill._ray.ray_job import check_installed
from fetchmill._shared.creation import files_of
from fetchmill.errors import UsageError

__all__ = ["read"]

if TYPE_CHECKING:
    from fetchmill._options.keywords import StreamKeywords

# Ray keeps task arguments in its object store, and may write them to disk.
_SECRETS = ("auth", "bearer", "proxy")


def read(
    source: str | os.PathLike[str],
    *,
    workers: int | None = None,
    list_format: str | None = None,
    column: str | int | None = None,
    template: str | None = None,
    csv_header: str | None = None,
    delimiter: str | None = None,
    **options: Unpack["StreamKeywords"],
) -> Any:  # noqa: ANN401 - ray.data.Dataset, which has no types without Ray
    """Read the objects of a list of URLs as a Dataset with one row per target, including failed targets.

    Each read task fetches one range of the list and returns blocks with at most 16 MiB of bodies, so memory is bounded.
    Each reply is held until it is certain to belong to its request. Nothing is stored. A shared folder is needed only
    for the list. The first rows arrive after about a second.

    If a task or its node dies, Ray runs the task again. Each row still occurs once, but the requests of that range are
    repeated. A Dataset that is executed twice fetches the objects twice. To store results and to resume, run a shared
    job instead, and read its files `JOB/data/*/*.parquet` with `ray.data.read_parquet` when the job is finished.

    The columns are `url`, `status` (HTTP status; null without a complete reply), `error` (the failure kind; null with a
    complete reply), `content_type`, `body` and `total_time` (seconds). A line without a URL becomes a row with the
    error `url`. In that row, `url` is the position of the line: `line 7 after byte 0 of /nfs/urls.txt`.

    Args:
        source: a list in a file, a folder or a glob, at the same path on all nodes.
        workers: maximum number of tasks that fetch at the same time. If None, the cluster's CPUs are the only limit.
        list_format: format of the list. This and the other list options have the same meaning as in `fetchmill.get`.
        column: the column that contains the URL, or the value for `template`.
        template: a URL with `{}`.
        csv_header: `yes` or `no`, for CSV and TSV.
        delimiter: the field delimiter, for CSV.
        **options: the fields of `StreamOptions`. `rate` is the total for all tasks and requires `workers`; each task
            gets an equal share. The other limits apply to each task. Credentials are refused, because Ray would store
            them. Use `netrc` instead, or each node's own credentials for S3.

    Returns:
        A `ray.data.Dataset`. Fetching begins when it is executed.

    Raises:
        UsageError: Ray is not installed, the list cannot be read, or an option is invalid.

    Example:
        >>> dataset = fetchmill.ray.read("urls.txt", workers=8, rate=500)  # doctest: +SKIP
    """
    check_installed()
    _check(options, workers)
    given = {
        "list_format": list_format,
        "column": column,
        "template": template,
        "csv_header": csv_header,
        "delimiter": delimiter,
    }
    list_options: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    checked = GetOptions(source=source, dest="unused", format="null", **list_options)
    if checked.source_kind != "list" or checked.source == "-":
        raise UsageError(f"{source} is not a file with a list; create one with fetchmill ls -o")
    found_format, files = files_of(checked)
    if (rate := options.get("rate")) is not None and workers:
        options["rate"] = rate / workers
    StreamOptions(**options).to_json()
    import ray

    from fetchmill.ray._source import ListSource

    listed = {**list_options, "list_format": found_format}
    return ray.data.read_datasource(ListSource(files, listed, dict(options)), concurrency=workers)


def _check(options: "StreamKeywords", workers: int | None) -> None:
    given = [name for name in _SECRETS if options.get(name)]
    given += [f"header {name}" for name in options.get("headers") or () if name.lower() not in OPEN_FIELDS]
    if given:
        raise UsageError(
            f"{given[0]} may be secret, but Ray would keep its value in the object store; use netrc on each node"
        )
    if workers is not None and workers < 1:
        raise UsageError(f"workers must be at least 1, not {workers}")
    if options.get("rate") is not None and workers is None:
        raise UsageError("rate applies to all tasks together; set workers, so that each task gets an equal share")
