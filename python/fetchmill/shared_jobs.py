"""Shared jobs, in which processes on any number of machines fetch one list, coordinated by a shared folder or bucket.

    fetchmill.shared_jobs.get("urls.txt", "/nfs/run", format="parquet")  # on each machine; the first creates the job
    fetchmill.shared_jobs.get("urls.txt", "/nfs/run", format="parquet", on=fetchmill.Ray(workers=64))  # in a cluster
    fetchmill.shared_jobs.status("/nfs/run").ledger["fetched"]
    for name, body in fetchmill.open("/nfs/run").items(): ...

A job directory is a folder, or `s3://BUCKET/PREFIX`. Each process reads the bucket's credentials from its environment.
docs/guide/shared-jobs.md lists the supported file systems and stores, and describes what happens if a worker dies.
"""

import os
from typing import TYPE_CHECKING, Any, Unpack

from fetchmill._options.get import GetOptions
from fetchmill._ray.ray_job import RayJob, check_installed
from fetchmill._ray.settings import Ray
from fetchmill._shared import reach_named
from fetchmill._shared.creation import LEASE_SECONDS, create_or_join, join_job
from fetchmill._shared.extension import extend_job
from fetchmill._shared.given_list import items_of_program
from fetchmill._shared.history import SharedHistory, shared_history
from fetchmill._shared.job_directory import JobDirectory
from fetchmill._shared.status import SharedStatus, WorkerStatus
from fetchmill._shared.status import shared_status as _status
from fetchmill._shared.stored_options import own_values
from fetchmill._shared.worker import RangeWorker

__all__ = [
    "SharedHistory",
    "SharedStatus",
    "WorkerStatus",
    "extend",
    "get",
    "history",
    "join",
    "resume",
    "set_rate",
    "status",
    "stop",
]

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from fetchmill._options.keywords import GetKeywords


def get(
    source: "str | os.PathLike[str] | Iterable[str | Mapping[str, object]]",
    dest: str | os.PathLike[str],
    *,
    lease: float = LEASE_SECONDS,
    on: Ray | None = None,
    **options: Unpack["GetKeywords"],
) -> SharedStatus:
    """Fetch a source together with other processes on any machine that can access the same folder or bucket.

    Create the job directory or join the existing job, and work until every range has a commit record or the job is
    stopped. Any number of processes can call `get` or `join` with the same directory, at any time.

    On KeyboardInterrupt, the worker spends up to 20 s finishing and committing targets in progress, then releases the
    remainder of its range to other workers.

    Args:
        source: the source of the targets, one of:

            - A list of URLs in a file, a folder or a glob, at the same path on every machine.
            - A server that lists its objects, or a bucket. One process lists it while all processes fetch listed
              objects.
            - An iterable of URLs, or of dicts with the values of a row. This process copies all items into the job
              directory before the job exists. Other processes call `join`.
        dest: the job directory: a folder that is empty or does not exist, an unused prefix of a bucket, or the
            directory of the same job.
        lease: seconds without a heartbeat after which other workers can take over a worker's ranges. Use a larger value
            if the file system propagates changes slowly.
        on: a Ray cluster that runs the workers. If given, this process only watches the job.
        **options: the fields of `GetOptions`, except those that apply only to a single process.

    Returns:
        The progress of the whole job.

    Raises:
        UsageError: an option cannot be used for a shared job, or differs from the existing job.
        SecurityError: the job directory belongs to another user.
        FetchmillError: any error that would end a job on one machine. The worker releases its range first.
    """
    if on is not None:
        check_installed()
    if isinstance(source, (str, os.PathLike)):
        given, checked = None, GetOptions(source=source, dest=dest, **options)
    else:
        given = items_of_program(source)
        checked = GetOptions(source=given.name, dest=dest, **options)
    return _run(create_or_join(checked, lease, _silent, given), own_values(checked), on)


def join(  # noqa: PLR0913 - keyword-only options
    job: str | os.PathLike[str],
    *,
    headers: "Mapping[str, str] | None" = None,
    auth: str | tuple[str, str] | None = None,
    bearer: str | None = None,
    bearer_command: str | None = None,
    proxy: str | None = None,
    state: str | os.PathLike[str] | None = None,
    concurrency: "int | str | None" = None,
    endpoint_url: str | None = None,
    region: str | None = None,
    profile: str | None = None,
    on: Ray | None = None,
) -> SharedStatus:
    """Work on a shared job that another process created.

    Args:
        job: the job directory.
        headers: header fields whose values the job directory does not store, because they may be secret.
        auth: the user name and password, if the job was created with them.
        bearer: a token, if the job was created with one.
        bearer_command: a command that prints a token.
        proxy: the proxy of this process.
        state: a local folder for journals; None for a folder inside the system's temporary folder.
        concurrency: maximum number of requests in flight in this process or, with `on`, in each worker.
        endpoint_url: URL of the store, if the job directory is in a bucket; None for the environment's value.
        region: the region of that bucket.
        profile: the profile with the bucket's credentials.
        on: a Ray cluster that runs the workers, as for `get`.

    Returns:
        The progress of the whole job.

    Raises:
        UsageError: the job does not exist, or a secret that it requires is missing.
        SecurityError: the job directory belongs to another user.
        FetchmillError: any error that would end a job on one machine. The worker releases its range first.
    """
    own = {
        "headers": headers,
        "auth": auth,
        "bearer": bearer,
        "bearer_command": bearer_command,
        "proxy": proxy,
        "state": state,
        "concurrency": concurrency,
        **reach_named(endpoint_url, region, profile),
    }
    given = {name: value for name, value in own.items() if value is not None}
    if on is not None:
        check_installed()
    return _run(join_job(os.fspath(job), own, _silent), given, on)


def stop(
    job: str | os.PathLike[str],
    *,
    now: bool = False,
    endpoint_url: str | None = None,
    region: str | None = None,
    profile: str | None = None,
) -> None:
    """Stop a shared job. Each worker finishes and commits its targets in progress, then ends.

    Args:
        job: the job directory.
        now: whether workers immediately release their ranges and end, instead of finishing targets in progress.
        endpoint_url: as for `join`.
        region: as for `join`.
        profile: as for `join`.

    Raises:
        UsageError: the job does not exist.
    """
    directory = JobDirectory.at(job, reach_named(endpoint_url, region, profile))
    directory.job()
    directory.stop(now=now)


def resume(
    job: str | os.PathLike[str],
    *,
    endpoint_url: str | None = None,
    region: str | None = None,
    profile: str | None = None,
) -> None:
    """Undo `stop` so that workers can join and continue the job.

    Args:
        job: the job directory.
        endpoint_url: as for `join`.
        region: as for `join`.
        profile: as for `join`.

    Raises:
        UsageError: the job does not exist.
    """
    directory = JobDirectory.at(job, reach_named(endpoint_url, region, profile))
    directory.job()
    directory.go_on()


def set_rate(
    job: str | os.PathLike[str],
    rate: float,
    *,
    endpoint_url: str | None = None,
    region: str | None = None,
    profile: str | None = None,
) -> None:
    """Change a shared job's total request rate, even while workers are running.

    Args:
        job: the job directory.
        rate: total requests per second for all workers; must be greater than 0.
        endpoint_url: as for `join`.
        region: as for `join`.
        profile: as for `join`.

    Raises:
        UsageError: the job does not exist, or the rate is not greater than 0.
    """
    directory = JobDirectory.at(job, reach_named(endpoint_url, region, profile))
    directory.job()
    directory.set_rate(rate)


def extend(
    job: str | os.PathLike[str],
    source: str | os.PathLike[str],
    *,
    endpoint_url: str | None = None,
    region: str | None = None,
    profile: str | None = None,
) -> None:
    """Add a list to a shared job, even while workers are running or after the job has finished.

    Running workers pick up the new list within seconds. If no worker is running, call `join`.

    Args:
        job: the job directory.
        source: a file or a folder of files, at the same path on every machine, in the format of the job's list.
        endpoint_url: as for `join`.
        region: as for `join`.
        profile: as for `join`.

    Raises:
        UsageError: the job does not exist, its source is a server or a bucket, or it already includes the list.
        UsageError: the job's list is divided by host, and the new list cannot be divided.
    """
    extend_job(os.fspath(job), os.fspath(source), reach_named(endpoint_url, region, profile))


def status(
    job: str | os.PathLike[str],
    *,
    endpoint_url: str | None = None,
    region: str | None = None,
    profile: str | None = None,
) -> SharedStatus:
    """Return the progress of a shared job and the state of its workers.

    Args:
        job: the job directory.
        endpoint_url: as for `join`.
        region: as for `join`.
        profile: as for `join`.

    Returns:
        The totals for all final ranges, and the last heartbeat of each worker.

    Raises:
        UsageError: the job does not exist.
        JournalError: a file in the job directory is damaged.
        StorageError: the file system failed.
        TemporaryError: the bucket's store does not respond.
    """
    return _status(JobDirectory.at(job, reach_named(endpoint_url, region, profile)))


def history(
    job: str | os.PathLike[str],
    *,
    endpoint_url: str | None = None,
    region: str | None = None,
    profile: str | None = None,
) -> SharedHistory:
    """Return the history of a shared job's workers, whose counts cover only final ranges.

    Args:
        job: the job directory.
        endpoint_url: as for `join`.
        region: as for `join`.
        profile: as for `join`.

    Returns:
        The status of the job and its samples. `to_html` creates a page with charts.

    Raises:
        UsageError: the job does not exist.
        JournalError: a file in the job directory is damaged.
        StorageError: the file system failed.
        TemporaryError: the bucket's store does not respond.
    """
    return shared_history(JobDirectory.at(job, reach_named(endpoint_url, region, profile)))


def _run(worker: RangeWorker, own: "Mapping[str, Any]", on: Ray | None) -> SharedStatus:
    if on is None:
        worker.run()
    else:
        RayJob(worker, own, on, say=_silent).run()
    return _status(JobDirectory(worker.store))


def _silent(_line: str) -> None:
    pass
