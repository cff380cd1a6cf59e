"""A job with an engine in Python: started, waited for and ended together."""

import contextlib
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fetchmill.engines.process_pool import ProcessPool

if TYPE_CHECKING:
    from fetchmill._native import Dispatcher, Job

# How long the dispatcher is waited for before the job is looked at.
POLL_SECONDS = 0.05
# The engine ends soon after its job: its own threads end with their requests.
JOIN_SECONDS = 5.0

EngineFunction = Callable[["Dispatcher"], None]


class EngineJob:
    """What `fetchmill._native.Job` is, with an engine beside it: its thread, and its processes if it has some.

    Args:
        job: the job, that waits for the engine.
        work: what the engine's thread does.
        kill: ends what that has started, at once.
    """

    def __init__(self, job: "Job", work: Callable[[], None], kill: Callable[[], None]) -> None:
        self._job = job
        self._work = work
        self._kill = kill
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="fetchmill-engine", daemon=True)
        self._thread.start()

    def wait(self, seconds: float) -> bool:
        """Waits for the end of both, at most so many seconds for the job's."""
        has_ended = self._job.wait(seconds)
        if has_ended:
            self._thread.join(JOIN_SECONDS)
        return has_ended

    def snapshot(self) -> dict[str, Any]:
        """How it stands."""
        return self._job.snapshot()

    def samples(self, after: float = 0.0) -> list[dict[str, Any]]:
        """What was sampled behind a moment, seconds since 1970 UTC."""
        return self._job.samples(after)

    def stop(self) -> None:
        """Asks for an end with a checkpoint."""
        self._job.stop()

    def abort(self) -> None:
        """Ends without one."""
        self._job.abort()
        self._kill()

    def report(self) -> dict[str, Any]:
        """What came of it; raises what the engine has raised."""
        if self._error is not None:
            with contextlib.suppress(Exception):
                self._job.report()
            raise self._error
        return self._job.report()

    def _run(self) -> None:
        try:
            self._work()
        except BaseException as error:  # noqa: BLE001 - raised by `report`
            self._error = error
            self._job.fail(f"the engine has ended: {error}")


def start_in_process(job: "Job", run: EngineFunction) -> EngineJob:
    """An engine in this process, which has the job's dispatcher."""

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
    """An engine of processes; `worker_mains` are pickled."""
    pool = ProcessPool(job, options, worker_mains)
    return EngineJob(job, pool.run, pool.kill)
