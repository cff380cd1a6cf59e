"""Starts, awaits and ends a job together with its Python engine."""

import contextlib
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fetchmill.engines.process_pool import ProcessPool

if TYPE_CHECKING:
    from fetchmill._native import Dispatcher, Job

# Maximum time to wait for the dispatcher before checking the job again.
POLL_SECONDS = 0.05
# Time limit for the engine to end after its job. The engine's threads end when their requests do.
JOIN_SECONDS = 5.0

EngineFunction = Callable[["Dispatcher"], None]


class EngineJob:
    """A `fetchmill._native.Job`, its engine's thread, and the engine's processes, if any.

    Args:
        job: the job, which waits for the engine.
        work: the function that the engine's thread runs.
        kill: function that immediately kills the processes started by `work`.
    """

    def __init__(self, job: "Job", work: Callable[[], None], kill: Callable[[], None]) -> None:
        self._job = job
        self._work = work
        self._kill = kill
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="fetchmill-engine", daemon=True)
        self._thread.start()

    def wait(self, seconds: float) -> bool:
        """Wait up to `seconds` for the job to end, and then for its engine. Return whether the job has ended."""
        has_ended = self._job.wait(seconds)
        if has_ended:
            self._thread.join(JOIN_SECONDS)
        return has_ended

    def snapshot(self) -> dict[str, Any]:
        """Return the counters of the job."""
        return self._job.snapshot()

    def samples(self, after: float = 0.0) -> list[dict[str, Any]]:
        """Return the samples after a time in seconds since 1970 UTC."""
        return self._job.samples(after)

    def stop(self) -> None:
        """Signal the job to end with a checkpoint."""
        self._job.stop()

    def abort(self) -> None:
        """End the job without a checkpoint."""
        self._job.abort()
        self._kill()

    def report(self) -> dict[str, Any]:
        """Return the job's report. If the engine failed, raise its error."""
        if self._error is not None:
            with contextlib.suppress(Exception):
                self._job.report()
            raise self._error
        return self._job.report()

    def _run(self) -> None:
        try:
            self._work()
        except BaseException as error:  # noqa: BLE001 - re-raised by `report`
            self._error = error
            self._job.fail(f"the engine has ended: {error}")


def start_in_process(job: "Job", run: EngineFunction) -> EngineJob:
    """Start an engine in this process, and pass it the job's dispatcher."""

    def work() -> None:
        while (dispatcher := job.take_dispatcher(POLL_SECONDS)) is None:
            if job.wait(0):
                return
        try:
            run(dispatcher)
        finally:
            dispatcher.close()

    return EngineJob(job, work, lambda: None)


def start_processes(job: "Job", options: str, worker_mains: list[bytes]) -> EngineJob:
    """Start an engine that uses processes. `worker_mains` are pickled `WorkerMain` objects."""
    pool = ProcessPool(job, options, worker_mains)
    return EngineJob(job, pool.run, pool.kill)
