"""Waits for what the native module does on its own threads, in steps short enough for signals.

Python handles signals between two steps. No call is made for an object.
"""

import time
from collections.abc import Callable
from typing import Any, Protocol

from fetchmill._job.progress import Show

# A signal is answered within this.
STEP_SECONDS = 0.05
# The core drains for 3 s and then writes a last checkpoint; after this it is ended without one.
DRAIN_SECONDS_MAX = 5.0


class RunningJob(Protocol):
    """A job or an export."""

    def wait(self, seconds: float) -> bool:
        """Waits for the end; whether it has come."""

    def snapshot(self) -> dict[str, Any]:
        """How it stands."""

    def stop(self) -> None:
        """Asks for an end with a checkpoint."""

    def abort(self) -> None:
        """Ends without one."""

    def report(self) -> dict[str, Any]:
        """What came of it."""


def run_to_end(start: Callable[[], RunningJob], show: Show | None = None) -> dict[str, Any]:
    """Starts it, waits for its end and gives its report; an exception drains it first and goes on then.

    Args:
        start: starts it.
        show: takes how it is getting on, now and then and at the end; what it raises ends the job.
    """
    running = None
    try:
        # Inside, so that no moment is left in which it runs and a signal would not end it.
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
    """Until its end. One that a rule has stopped has as long to drain as one that is interrupted."""
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
    """Ends it with a checkpoint; without one when that takes too long or is interrupted too."""
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
