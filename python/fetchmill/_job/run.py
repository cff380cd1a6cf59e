"""Waits for jobs of the native module, which run on the module's own threads.

The wait is divided into short steps, because Python handles signals only between them. No Python code runs per object.
"""

import time
from collections.abc import Callable
from typing import Any, Protocol

from fetchmill._job.progress import Show

# Signals are handled within this time.
STEP_SECONDS = 0.05
# The core drains for 3 s and then writes a last checkpoint. After this time, the job is aborted without a checkpoint.
DRAIN_SECONDS_MAX = 5.0


class RunningJob(Protocol):
    """A job or an export."""

    def wait(self, seconds: float) -> bool:
        """Wait up to `seconds` for the job to end. Return whether it has ended."""

    def snapshot(self) -> dict[str, Any]:
        """Return the current counters."""

    def stop(self) -> None:
        """Signal the job to end with a checkpoint."""

    def abort(self) -> None:
        """End the job without a checkpoint."""

    def report(self) -> dict[str, Any]:
        """Return the report after the job has ended."""


def run_to_end(start: Callable[[], RunningJob], show: Show | None = None) -> dict[str, Any]:
    """Start a job, wait for it to end, and return its report. On an exception, drain the job and re-raise.

    Args:
        start: starts the job.
        show: called with snapshots regularly and at the end. If it raises, the job ends.
    """
    running = None
    try:
        # Start inside `try`, so that a signal ends the job even if it arrives immediately after the start.
        running = start()
        _wait(running, show)
        if show is not None:
            show(running.snapshot(), is_last=True)
    except BaseException:
        if running is not None:
            _drain(running)
        raise
    return running.report()


def _wait(running: RunningJob, show: Show | None) -> None:
    """Wait for a job to end. A job that a rule stops may drain for as long as an interrupted job."""
    deadline = None
    while not running.wait(STEP_SECONDS):
        snapshot = running.snapshot()
        if show is not None:
            show(snapshot)
        if deadline is None and snapshot["stopped_by"]:
            deadline = time.monotonic() + DRAIN_SECONDS_MAX
        if deadline is not None and time.monotonic() > deadline:
            running.abort()
            if running.wait(DRAIN_SECONDS_MAX):
                return


def _drain(running: RunningJob) -> None:
    """End a job with a checkpoint, or without one if draining takes too long or is itself interrupted."""
    try:
        running.stop()
        deadline = time.monotonic() + DRAIN_SECONDS_MAX
        while not running.wait(STEP_SECONDS):
            if time.monotonic() > deadline:
                running.abort()
                return
    except BaseException:
        running.abort()
        raise
