"""What `get` and `export` have in common: signals, progress, and waiting for the end."""

import os
import signal
import sys
import time
from types import FrameType
from typing import TYPE_CHECKING

from fetchmill.cli.streams import say, write_event
from fetchmill.progress import Display, JsonDisplay, LiveDisplay, PlainDisplay, QuietDisplay
from fetchmill.report import Snapshot

if TYPE_CHECKING:
    from fetchmill._native import Export, Job
    from fetchmill.engines.running import EngineJob
    from fetchmill.listing import GivenRows

# How often the job is looked at: a signal and its end are noticed within this, a terminal is redrawn each time.
STEP_SECONDS = 0.1
# As in `fetchmill.get`: the core drains for 3 s and then writes a last checkpoint.
DRAIN_SECONDS_MAX = 5.0


class Signals:
    """SIGINT and SIGTERM: the first asks the job to stop, the second ends the process at once."""

    def __init__(self) -> None:
        self.number: int | None = None
        self.job: Job | EngineJob | Export | GivenRows | None = None
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._handle)

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        if self.number is None:
            self.number = number
            if self.job is not None:
                self.job.stop()
            return
        if self.job is not None:
            self.job.abort()
        os._exit(128 + number)

    def attach(self, job: "Job | EngineJob | Export | GivenRows") -> None:
        """Makes a job reachable; a signal that came before is passed on."""
        self.job = job
        if self.number is not None:
            job.stop()


def choose_display(as_json: bool, quiet: bool) -> Display:
    """Where progress is shown."""
    if as_json:
        return JsonDisplay(write_event)
    if quiet:
        return QuietDisplay()
    if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        return LiveDisplay(sys.stderr)
    return PlainDisplay(say)


def watch(job: "Job | EngineJob | Export | GivenRows", signals: Signals, display: Display) -> Snapshot:
    """Shows the job until it ends; gives the first snapshot."""
    first = Snapshot.from_native(job.snapshot())
    says_resuming = first.resumed and first.start_settled > 0
    deadline = None
    while not job.wait(STEP_SECONDS):
        if says_resuming:  # not at once: a finished job has ended by now
            says_resuming = False
            display.notice(f"resuming: {first.start_settled:,} targets are done already")
        if signals.number is not None and deadline is None:
            deadline = time.monotonic() + DRAIN_SECONDS_MAX
            display.notice("stopping: what is in flight is finished; run the same command again to resume")
        if signals.number is not None and deadline is not None and time.monotonic() > deadline:
            job.abort()
            display.notice("stopped without a last checkpoint: run the same command again to resume")
            sys.exit(128 + signals.number)
        display.update(Snapshot.from_native(job.snapshot()))
    return first
