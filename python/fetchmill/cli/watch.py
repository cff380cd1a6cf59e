"""What `get` and `export` have in common: signals, progress, and waiting for the end."""

import contextlib
import os
import signal
import sys
import time
from types import FrameType
from typing import TYPE_CHECKING, Protocol

from fetchmill._job.report import FIRST, Snapshot
from fetchmill.cli.progress import Display, JsonDisplay, LiveDisplay, PlainDisplay, QuietDisplay
from fetchmill.cli.streams import flush_or_silence, say, write_event

if TYPE_CHECKING:
    from fetchmill._job.run import RunningJob

# How often the job is looked at: a signal and its end are noticed within this, a terminal is redrawn each time.
STEP_SECONDS = 0.1
# As in `fetchmill.get`: the core drains for 3 s and then writes a last checkpoint.
DRAIN_SECONDS_MAX = 5.0
# What hangs in the operating system by then, a dead disk for one, is left behind.
ABORT_SECONDS_MAX = 5.0
# The exit code of a run that --max-failed, --max-duration or --max-bytes has ended.
STOPPED_BY_A_RULE = 8


class Stoppable(Protocol):
    """What a signal reaches: a job, an export, or a sync between two jobs."""

    def stop(self) -> None:
        """Asks for an end with a checkpoint."""

    def abort(self) -> None:
        """Ends without one."""


class Signals:
    """SIGINT and SIGTERM: the first asks the job to stop, the second ends the process at once."""

    def __init__(self) -> None:
        self.number: int | None = None
        self.job: Stoppable | None = None
        self._count = 0
        # Two of a kind within a step are one call of the handler: the bytes say how many there were.
        self._arrived, wakeup = os.pipe()
        os.set_blocking(self._arrived, False)
        os.set_blocking(wakeup, False)
        signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._handle)

    @property
    def exit_code(self) -> int | None:
        """Of a command that a signal has ended; None while none has come."""
        return None if self.number is None else 128 + self.number

    def _count_arrived(self) -> int:
        with contextlib.suppress(BlockingIOError):
            numbers = os.read(self._arrived, 64)
            self._count += sum(number in (signal.SIGINT, signal.SIGTERM) for number in numbers)
        return self._count

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        count = self._count_arrived()
        if self.number is None:
            self.number = number
            if self.job is not None:
                self.job.stop()
            else:  # it may never start: its list may be a pipe that nobody writes to
                signal.signal(signal.SIGALRM, self._give_up)
                signal.setitimer(signal.ITIMER_REAL, DRAIN_SECONDS_MAX)
            if count < 2:  # noqa: PLR2004 - the second
                return
        if self.job is not None:
            self.job.abort()
        os._exit(128 + number)

    def _give_up(self, _number: int, _frame: FrameType | None) -> None:
        if self.number is not None and self.job is None:
            os.write(2, b"fetchmill: stopped before the job had begun\n")
            os._exit(128 + self.number)

    def attach(self, job: Stoppable) -> None:
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


def announce_dashboard(url: str | None, as_json: bool, quiet: bool, log: Display) -> None:
    """Says where a job's dashboard is, before anything else is shown of the job."""
    if url is None:
        return
    log.notice(f"dashboard: {url}")
    if as_json:
        write_event("dashboard", {"url": url})
    elif not quiet:
        say(f"dashboard: {url}")


def watch(job: "RunningJob", signals: Signals, display: Display, *, is_resumable: bool = True) -> Snapshot:
    """Shows the job until it ends; gives the first snapshot."""
    again = "; run the same command again to resume" if is_resumable else ""
    first = Snapshot.from_native(job.snapshot())
    says_resuming = first.resumed and first.start_settled > 0
    deadline = None
    while not job.wait(STEP_SECONDS):
        if says_resuming:  # not at once: a finished job has ended by now
            says_resuming = False
            many = "1 target is" if first.start_settled == 1 else f"{first.start_settled:,} targets are"
            display.notice(f"resuming: {many} already done")
        snapshot = Snapshot.from_native(job.snapshot())
        code = signals.exit_code or (snapshot.stopped_by and STOPPED_BY_A_RULE)
        if code and deadline is None:
            deadline = time.monotonic() + DRAIN_SECONDS_MAX
            why = "" if signals.exit_code else f" by --{snapshot.stopped_by}".replace("_", "-")
            if why != f" by --{FIRST}":  # it was asked for, and nothing is in flight
                display.notice(f"stopping{why}; finishing requests in flight{again}")
        if code and deadline is not None and time.monotonic() > deadline:
            job.abort()
            display.notice(f"stopped without a last checkpoint{again}")
            if not job.wait(ABORT_SECONDS_MAX):
                flush_or_silence()
                os._exit(code)
            sys.exit(code)
        display.update(snapshot)
    return first
