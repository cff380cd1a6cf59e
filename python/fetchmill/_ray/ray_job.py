"""A shared job whose workers run in a Ray cluster, as seen by the process that the user started.

Commit records show whether the job is finished. Ray is imported only in another process (`launcher`), so that it cannot
block this one.
"""

import os
import time
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from fetchmill._ray.launcher_process import LauncherProcess
from fetchmill._ray.settings import Ray
from fetchmill._shared.job_directory import JobDirectory
from fetchmill._shared.status import SharedStatus, shared_status
from fetchmill._shared.store import is_bucket
from fetchmill._shared.worker import RangeWorker
from fetchmill.errors import TemporaryError, UsageError

_STEP_SECONDS = 0.2
_SHOW_SECONDS = 1.0
# Reading the status reads all records. Afterwards, wait at least `_SHOW_SHARE` times as long as that took.
_SHOW_SHARE = 10
# Maximum wait for commit records after all workers have ended. NFS may delay the last record for this long.
_LAG_SECONDS = 60.0
# Time limit for a drain. Workers end within 25 s after the request, and the launcher waits 27 s for them.
_DRAIN_SECONDS = 30.0


class RayJob:
    """See the module docstring.

    Args:
        worker: a worker in this process. It fetches nothing, and concludes the job when every range is final.
        own: per-worker options. They may be secret, so they are sent in a call and never stored.
        ray: settings for the workers in the cluster.
        say: called with each message for the user.
        show: called with the status about once a second.
    """

    def __init__(
        self,
        worker: RangeWorker,
        own: Mapping[str, Any],
        ray: Ray,
        *,
        say: Callable[[str], None],
        show: Callable[[SharedStatus], None] | None = None,
    ) -> None:
        self._directory = JobDirectory(worker.store)
        self._job = self._directory.job()
        self._worker = worker
        self._own = own
        self._ray = ray
        self._say = say
        self._show = show
        self._shown_at = 0.0
        self._is_asked = False
        self._launcher: LauncherProcess | None = None

    def stop(self) -> None:
        """Ask all workers to fetch the targets already handed out, commit the results, and end."""
        self._is_asked = True
        if self._launcher is not None:
            self._launcher.command("drain")

    def abort(self) -> None:
        """Ask all workers to release their ranges, then stop the launcher."""
        self._is_asked = True
        if self._launcher is not None:
            self._launcher.close("abort")

    def run(self) -> str:
        """Work until the job is finished or stopped, or this process is asked to end.

        Returns:
            `finished`, `stopped` or `asked`.

        Raises:
            TemporaryError: no cluster answers, or the cluster has ended.
            FetchmillError: an error occurred that would end any worker.
        """
        self._worker.leave_listing()
        if self._is_open():
            if self._directory.is_stopped():
                return "stopped"
            reason = self._run_workers()
            if reason != "finished":
                return reason
        # The worker that made the last range final may have been killed before it finished the job.
        self._worker.run()
        return "finished"

    def _is_open(self) -> bool:
        # The list may grow while workers run.
        return not self._directory.is_complete(self._directory.job())

    def _run_workers(self) -> str:
        with LauncherProcess(self._order()) as launcher:
            self._launcher = launcher
            if self._is_asked:  # a signal arrived while the process started
                launcher.command("drain")
            try:
                reason = self._watch(launcher)
            except KeyboardInterrupt:
                launcher.close("drain", _DRAIN_SECONDS)
                raise
            finally:
                self._launcher = None
        return reason

    def _watch(self, launcher: LauncherProcess) -> str:
        while self._is_open():
            launcher.pass_on(self._say)
            if launcher.ended_for is not None:
                if self._is_asked:
                    return "asked"
                if self._directory.is_stopped():
                    return "stopped"
                if launcher.ended_for > _LAG_SECONDS:
                    raise TemporaryError(
                        f"{self._directory.text} has open ranges, but all Ray "
                        "workers have ended; run the same command again"
                    )
            self._show_status()
            time.sleep(_STEP_SECONDS)
        return "finished"

    def _order(self) -> dict[str, Any]:
        own = dict(self._own)
        if is_bucket(self._directory.text):
            own = _endpoint() | own
        if self._worker.source is not None:
            own["source"] = self._worker.source
        if own.get("state") is not None:
            own["state"] = str(Path(own["state"]).absolute())
        cpus = own.setdefault("threads", 1)
        return {
            "job": self._directory.text,
            "id": self._job.id,
            "own": own,
            "workers": self._ray.workers,
            "cpus": cpus,
        }

    def _show_status(self) -> None:
        began = time.monotonic()
        if self._show is None or began < self._shown_at:
            return
        self._show(shared_status(self._directory))
        ended = time.monotonic()
        self._shown_at = ended + max(_SHOW_SECONDS, _SHOW_SHARE * (ended - began))


def _endpoint() -> dict[str, str]:
    """Return endpoint and region from this process's environment. Nodes have their own environment and credentials."""
    named = {
        "endpoint_url": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
        "region": ("AWS_REGION", "AWS_DEFAULT_REGION"),
    }
    found = {name: next(filter(None, map(os.environ.get, variables)), None) for name, variables in named.items()}
    return {name: value for name, value in found.items() if value is not None}


def check_installed() -> None:
    """Refuse to run if Ray is not installed.

    Raises:
        UsageError: Ray is not installed.
    """
    if find_spec("ray") is None:
        raise UsageError("Ray is not installed; run pip install 'fetchmill[ray]' here and on the nodes of the cluster")
