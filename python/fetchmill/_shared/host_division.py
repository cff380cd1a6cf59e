"""Divides the list of a shared job by host, before the job exists.

All rows of a host are in one part, and only one worker at a time works on a part. Each worker can therefore use the
full limit for each of its hosts (docs/internals/decisions/0089).
"""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from fetchmill._options.units import format_bytes, format_count_of
from fetchmill._shared.host_parts import HostParts
from fetchmill._shared.job_directory import JobDirectory
from fetchmill._shared.list_claim import ListClaim
from fetchmill._shared.list_rows import NotByHostError
from fetchmill._shared.local_lists import copy_into_job, parts_in
from fetchmill._shared.local_state import make_folder, remove_folder
from fetchmill._shared.ranges import GROUPS
from fetchmill._shared.records import JobRecord
from fetchmill._shared.store import STORE_ERRORS
from fetchmill.errors import StorageError

# Default number of requests in flight for a job with many hosts.
_CONCURRENCY = 64
# Minimum mean number of hosts in a part for each request that a worker may have in flight. One host is not enough,
# because hosts with few rows finish before other hosts.
_HOSTS_PER_REQUEST = 2
# Minimum mean number of rows in a part for each of these hosts, because starting and ending a part's job takes time.
_ROWS_PER_HOST = 8
# Default maximum number of requests in flight to a host.
_LIMIT = 4
_LIMITS = ("limit_per_host", "rate_per_host")


class HostDivision:
    """See the module docstring.

    Args:
        directory: the job directory.
        worker: the name of this process.
        concurrency: the option `concurrency` of this process.
        parent: the folder in which listing processes on this machine create their own folders.
        lease: seconds after which a process without a heartbeat counts as dead.
        say: called with each message for the user.
        is_here: whether only this machine has the list. An undivided list is then copied into the job directory.
    """

    def __init__(
        self,
        directory: JobDirectory,
        worker: str,
        concurrency: object,
        parent: Path,
        lease: float,
        say: Callable[[str], None],
        *,
        is_here: bool = False,
    ) -> None:
        self._directory = directory
        self._worker = worker
        self._concurrency = concurrency if isinstance(concurrency, int) else _CONCURRENCY
        self._parent = parent
        self._say = say
        self._is_here = is_here
        self._claims = ListClaim(directory, worker, lease, say)

    def create(self, job: JobRecord) -> None:
        """Create the job, or wait until another process has created it.

        Args:
            job: the job with its list undivided. If dividing gains nothing, the job is created with this list.

        Raises:
            UsageError: the list has changed or cannot be read, or the directory contains unrelated files.
            StorageError: the parts cannot be written.
        """
        claim = self._claims.take(f"waits until another process has divided {job.source} by host")
        if claim is None:
            return
        try:
            with self._claims.beating():
                self._create(job)
        except BaseException:
            self._claims.leave()
            raise
        finally:
            self._remove([claim])

    def _create(self, job: JobRecord) -> None:
        """Divide the list, and create the job unless another process has created it in the meantime."""
        folder = make_folder(self._parent, self._worker)
        parts = HostParts(self._directory.store, job.list_format, job.options)
        try:
            record = self._divided(job, parts, folder)
        except NotByHostError as error:
            record = self._undivided(job, parts)
            self._say(
                f"does not divide {job.source} by host, because {error}; {_limits(job.options)} will be divided among "
                "the workers"
            )
        except BaseException as error:
            parts.remove()
            if isinstance(error, OSError):
                raise StorageError(f"cannot divide the list {job.source} in {folder}: {error}") from error
            raise
        finally:
            remove_folder(folder)
        # Remove the parts of processes that have died. No process adds another list before the job exists.
        left = parts_in(self._directory.store)
        if self._directory.create(record).id == record.id:
            self._remove([name for name in left if name not in parts.added])
        else:
            parts.remove()

    def _undivided(self, job: JobRecord, parts: HostParts) -> JobRecord:
        """Return the job with a list that all machines can read."""
        if not self._is_here:
            return job
        name, file = copy_into_job(self._directory.store, job.files[0])
        parts.added.append(name)
        return replace(job, files=(file,))

    def _divided(self, job: JobRecord, parts: HostParts, folder: Path) -> JobRecord:
        started = time.monotonic()
        found = parts.divide(
            job.files, folder, lambda rows, hosts: count_of_parts(rows, hosts, self._concurrency, job.options)
        )
        rows, seconds = format_count_of(found.rows, "URL"), time.monotonic() - started
        verb = "hold" if all(map(job.options.get, _LIMITS)) else "holds"
        self._say(
            f"divided {rows} ({format_bytes(found.bytes)}) of {found.hosts} into {len(found.files)} parts in "
            f"{seconds:.1f} s, because {_limits(job.options)} {verb} for all workers"
        )
        # A list from a program or standard input cannot be added a second time by another process.
        divided = () if self._is_here else tuple(file.path for file in job.files)
        return replace(
            job,
            files=found.files,
            ranges=found.ranges,
            is_by_host=True,
            divided=divided,
            divided_for=self._concurrency,
        )

    def _remove(self, names: list[str]) -> None:
        for name in names:
            with suppress(*STORE_ERRORS):
                self._directory.store.remove(name)


def has_host_limits(options: Mapping[str, Any]) -> bool:
    """Return whether the user has limited the requests per host."""
    return any(options.get(name) for name in _LIMITS)


def count_of_parts(rows: int, hosts: int, concurrency: int, options: Mapping[str, Any]) -> int:
    """Return the number of parts of a job's first list, a power of two; 0 if dividing the list gains nothing.

    Args:
        rows: number of rows.
        hosts: number of hosts.
        concurrency: number of requests that a worker has in flight.
        options: the options of the job.
    """
    parts = full_parts(rows, hosts, concurrency)
    # If the list is undivided, at most `limit_per_host` workers fetch at the same time.
    return parts if parts >= 2 * int(options.get("limit_per_host") or _LIMIT) else 0


def full_parts(rows: int, hosts: int, concurrency: int) -> int:
    """Return the number of parts that can each keep a worker busy, a power of two; 0 if no part can."""
    of_part = _HOSTS_PER_REQUEST * max(concurrency, 1)
    most = min(hosts // of_part, rows // (of_part * _ROWS_PER_HOST), GROUPS)
    return 1 << most.bit_length() >> 1


def _limits(options: Mapping[str, Any]) -> str:
    return " and ".join(f"--{name.replace('_', '-')}" for name in _LIMITS if options.get(name))
