"""The Ray actor for one worker of a shared job. The nodes of the cluster import its class.

Failures are returned, not raised. An exception that reaches the launcher means that Ray or the process failed.
"""

import signal
import socket
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any

from fetchmill._shared.creation import join_job
from fetchmill._shared.job_directory import JobDirectory
from fetchmill._shared.store import is_bucket, open_store
from fetchmill._shared.stored_options import reach_of
from fetchmill._shared.worker_log import WorkerLog
from fetchmill.errors import FetchmillError, UsageError

if TYPE_CHECKING:
    from fetchmill._shared.worker import RangeWorker

# Time that an NFS client may need to see a folder that another machine has just created.
_SEEN_SECONDS = 5.0
_STEP_SECONDS = 0.5
_SHARE = "choose a folder that all nodes of the cluster share, at the same path"
_REACH = "all nodes need access to the same bucket and endpoint"


class RayWorker:
    """See the module docstring. Ray creates the actor in the main thread and calls its methods in other threads."""

    def __init__(self) -> None:
        self._worker: RangeWorker | None = None
        self._is_asked = threading.Event()
        # A node that is being removed ends its processes with SIGTERM. Make fetched objects final before that.
        signal.signal(signal.SIGTERM, self._drain)

    def begin(self, job: str, job_id: str, own: dict[str, Any]) -> dict[str, Any]:
        """Join the job.

        Args:
            job: the job directory.
            job_id: the id of the job in that directory.
            own: options of this worker. They may be secret, so they are sent in this call. Arguments for creating the
                actor would remain in the cluster's control store.

        Returns:
            A dict with the `name` of the worker, or with `kind` and `error` if the worker cannot join.
        """
        found = _caught(lambda: self._begin(job, job_id, own))
        if "error" in found:
            found["error"] = f"node {socket.gethostname()}: {found['error']}"
        return found

    def run(self) -> dict[str, Any]:
        """Work until the job is finished or stopped. Return `reason`, or `kind` and `error`."""
        worker = self._worker
        if worker is None:
            raise RuntimeError("the worker has not started")
        return _caught(lambda: {"reason": worker.run().reason})

    def stop(self) -> None:
        """Ask the worker to end. It still fetches targets already handed out and makes them final."""
        self._is_asked.set()
        if self._worker is not None:
            self._worker.stop()

    def abort(self) -> None:
        """Release the ranges and end immediately."""
        self._is_asked.set()
        if self._worker is not None:
            self._worker.abort()

    def _begin(self, job: str, job_id: str, own: dict[str, Any]) -> dict[str, Any]:
        _check_seen(job, job_id, own)
        self._worker = join_job(job, own, WorkerLog(open_store(job, reach_of(own))).write)
        if self._is_asked.is_set():
            self._worker.stop()
        return {"name": self._worker.name}

    def _drain(self, _number: int, _frame: FrameType | None) -> None:
        self.stop()


def _check_seen(job: str, job_id: str, own: dict[str, Any]) -> None:
    """Refuse a node that has no access to the job directory or the list."""
    advice = _REACH if is_bucket(job) else _SHARE
    deadline = time.monotonic() + _SEEN_SECONDS
    while not (directory := JobDirectory.at(job, reach_of(own))).exists():
        if time.monotonic() > deadline:
            raise UsageError(f"{job} has no job on that node; {advice}")
        time.sleep(_STEP_SECONDS)
    record = directory.job()
    if record.id != job_id:
        raise UsageError(f"{job} has a different job on that node; {advice}")
    for file in record.files[:1]:
        if not is_bucket(file.path):
            file.open().close()


def _caught(call: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    try:
        return call()
    except FetchmillError as error:
        return {"kind": type(error).__name__, "error": str(error)}
