"""Shared jobs: any number of processes, on any machines that share a folder or a bucket, fetch one list together.

    fetchmill.shared_jobs.get("urls.txt", "/nfs/run", format="parquet")  # on each machine; the first creates the job
    fetchmill.shared_jobs.get("urls.txt", "/nfs/run", format="parquet", on=fetchmill.Ray(workers=64))  # in a cluster
    fetchmill.shared_jobs.status("/nfs/run").ledger["fetched"]
    for name, body in fetchmill.open("/nfs/run").items(): ...

A job directory is a folder, or `s3://BUCKET/PREFIX`: each process has the credentials of a bucket from its environment.
docs/guide/shared-jobs.md says which file systems and stores will do and what happens when a worker dies.
"""

import os
from typing import TYPE_CHECKING, Any, Unpack

from fetchmill._options.get import GetOptions
from fetchmill._ray.ray_job import RayJob, check_installed
from fetchmill._ray.settings import Ray
from fetchmill._shared.creation import LEASE_SECONDS, create_or_join, join_job, own_values
from fetchmill._shared.job_directory import JobDirectory
from fetchmill._shared.status import SharedStatus, WorkerStatus
from fetchmill._shared.status import shared_status as _status
from fetchmill._shared.worker import RangeWorker
from fetchmill.errors import UsageError

__all__ = ["SharedStatus", "WorkerStatus", "get", "join", "resume", "set_rate", "status", "stop"]

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fetchmill._options.keywords import GetKeywords


def get(
    source: str | os.PathLike[str],
    dest: str | os.PathLike[str],
    *,
    lease: float = LEASE_SECONDS,
    on: Ray | None = None,
    **options: Unpack["GetKeywords"],
) -> SharedStatus:
    """Fetches a source together with other processes, on any machines that share a folder.

    Creates the job directory or joins the job that is there, and works until every range has a commit record or
    somebody stops the job. Any number of processes may call this or `join` with the same directory, at any time.
    On KeyboardInterrupt what is fed is fetched and made final, 20 s at most; the rest of the range is given back.

    Args:
        source: a list of URLs in a file, a folder or a glob, at the same path on every machine; or a server that lists
            its objects, or a bucket, which one of the processes lists before the job is created.
        dest: the job directory: a missing or empty folder, a prefix of a bucket that no key has, or that of the same
            job.
        lease: seconds after which the ranges of a worker that writes no heartbeat are free for others. More is better
            where a file system shows changes late.
        on: a Ray cluster that runs the workers. This process only watches the job, and fetches nothing itself.
        **options: the fields of `GetOptions`, without those that hold for one process only.

    Returns:
        How far the whole job is.

    Raises:
        UsageError: an option cannot be used for a shared job, or differs from that of the job that is there.
        SecurityError: the job directory belongs to another user.
        FetchmillError: whatever ends a job on one machine; the range is given back.
    """
    if on is not None:
        check_installed()
    checked = GetOptions(source=source, dest=dest, **options)
    return _run(create_or_join(checked, lease, _silent), own_values(checked), on)


def join(  # noqa: PLR0913 - options of a process, all by name
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
    """Works at a shared job that another process has created.

    Args:
        job: the job directory.
        headers: header fields whose values the job directory does not have, because they may be secret.
        auth: user and password, if the job was created with some.
        bearer: a token, if the job was created with one.
        bearer_command: the command that prints one.
        proxy: the proxy of this process.
        state: a folder on this machine for journals; one in the folder for temporary files if not given.
        concurrency: requests in flight of this process at most; with `on` of each worker.
        endpoint_url: the store of a job directory in a bucket; as the environment says if not given.
        region: the region of that bucket.
        profile: the profile with the credentials for it.
        on: a Ray cluster that runs workers, as for `get`.

    Returns:
        How far the whole job is.

    Raises:
        UsageError: there is no job, or a secret that it needs is missing.
        SecurityError: the job directory belongs to another user.
        FetchmillError: whatever ends a job on one machine; the range is given back.
    """
    own = {
        "headers": headers,
        "auth": auth,
        "bearer": bearer,
        "bearer_command": bearer_command,
        "proxy": proxy,
        "state": state,
        "concurrency": concurrency,
        **_reach(endpoint_url, region, profile),
    }
    given = {name: value for name, value in own.items() if value is not None}
    return _run(join_job(os.fspath(job), own, _silent), given, on)


def stop(
    job: str | os.PathLike[str],
    *,
    now: bool = False,
    endpoint_url: str | None = None,
    region: str | None = None,
    profile: str | None = None,
) -> None:
    """Stops a shared job: each worker fetches what it has fed, makes that final and ends.

    Args:
        job: the job directory.
        now: whether workers end at once, and give back the ranges that they have.
        endpoint_url: as for `join`.
        region: as for `join`.
        profile: as for `join`.

    Raises:
        UsageError: there is no job.
    """
    directory = JobDirectory.at(job, _reach(endpoint_url, region, profile))
    directory.job()
    directory.stop(now=now)


def resume(
    job: str | os.PathLike[str],
    *,
    endpoint_url: str | None = None,
    region: str | None = None,
    profile: str | None = None,
) -> None:
    """Takes `stop` back. Workers that join go on with the job.

    Args:
        job: the job directory.
        endpoint_url: as for `join`.
        region: as for `join`.
        profile: as for `join`.

    Raises:
        UsageError: there is no job.
    """
    directory = JobDirectory.at(job, _reach(endpoint_url, region, profile))
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
    """Changes how many requests a second all workers of a shared job make together, also while they run.

    Args:
        job: the job directory.
        rate: requests a second; a number above 0.
        endpoint_url: as for `join`.
        region: as for `join`.
        profile: as for `join`.

    Raises:
        UsageError: there is no job, or the rate is not above 0.
    """
    if not 0 < rate < float("inf"):
        raise UsageError(f"rate must be a number above 0, not {rate}")
    directory = JobDirectory.at(job, _reach(endpoint_url, region, profile))
    directory.job()
    directory.set_rate(rate)


def status(
    job: str | os.PathLike[str],
    *,
    endpoint_url: str | None = None,
    region: str | None = None,
    profile: str | None = None,
) -> SharedStatus:
    """How far a shared job is, and what its workers do.

    Args:
        job: the job directory.
        endpoint_url: as for `join`.
        region: as for `join`.
        profile: as for `join`.

    Returns:
        The sum of what is final, and the last heartbeat of each worker.

    Raises:
        UsageError: there is no job.
        JournalError: a file of the job directory is damaged.
        StorageError: the file system failed.
        TemporaryError: the bucket does not answer.
    """
    return _status(JobDirectory.at(job, _reach(endpoint_url, region, profile)))


def _run(worker: RangeWorker, own: "Mapping[str, Any]", on: Ray | None) -> SharedStatus:
    if on is None:
        worker.run()
    else:
        RayJob(worker, own, on, say=_silent).run()
    return _status(JobDirectory(worker.store))


def _reach(endpoint_url: str | None, region: str | None, profile: str | None) -> dict[str, Any]:
    """How a bucket is reached, as far as the caller says."""
    named = {"endpoint_url": endpoint_url, "region": region, "profile": profile}
    return {name: value for name, value in named.items() if value is not None}


def _silent(_line: str) -> None:
    pass
