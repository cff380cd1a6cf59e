"""Handles signals, shows progress and waits for the end of a job, for commands such as `get` and `export`."""

import contextlib
import os
import signal
import sys
import time
from types import FrameType
from typing import TYPE_CHECKING, NoReturn, Protocol

from fetchmill._job.report import FIRST, Snapshot
from fetchmill.cli.progress import Display, JsonDisplay, LiveDisplay, PlainDisplay, QuietDisplay
from fetchmill.cli.streams import flush_or_silence, say, write_event

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fetchmill._job.run import RunningJob

# Interval for polling the job, checking for signals, and redrawing a terminal.
STEP_SECONDS = 0.1
# The same limit as in `fetchmill.get`: the core drains for 3 s, then writes a last checkpoint.
DRAIN_SECONDS_MAX = 5.0
# Time limit for an aborted job to end. The job may hang in the operating system, for example on a dead disk.
ABORT_SECONDS_MAX = 5.0
_STOPPED_EARLY = b"fetchmill: stopped before the job began\n"
# Exit code of a run that was ended by --max-failed, --max-duration or --max-bytes.
STOPPED_BY_A_RULE = 8


class Stoppable(Protocol):
    """Work that signals can stop: a job, an export, or a sync between two jobs."""

    def stop(self) -> None:
        """Request a stop at a checkpoint."""

    def abort(self) -> None:
        """Stop without a checkpoint."""


class Signals:
    """Handles SIGINT and SIGTERM. The first signal stops the job; the second ends the process immediately."""

    def __init__(self) -> None:
        self.number: int | None = None
        self.job: Stoppable | None = None
        self._count = 0
        self._interrupts = False
        # If the same signal arrives twice in quick succession, Python may call the handler only once, but the pipe
        # receives a byte for each signal.
        self._arrived, wakeup = os.pipe()
        os.set_blocking(self._arrived, False)
        os.set_blocking(wakeup, False)
        signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._handle)

    @property
    def exit_code(self) -> int | None:
        """Exit code of a command that was ended by a signal, or None if no signal has arrived."""
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
            else:  # the job may never start, for example if its list is a pipe without a writer
                signal.signal(signal.SIGALRM, self._give_up)
                signal.setitimer(signal.ITIMER_REAL, DRAIN_SECONDS_MAX)
            if count < 2:  # noqa: PLR2004 - the second signal
                if self._interrupts and self.job is None:
                    self._exit_early(number)
                return
        if self.job is not None:
            self.job.abort()
        os._exit(128 + number)

    def _exit_early(self, number: int) -> NoReturn:
        os.write(2, _STOPPED_EARLY)
        raise SystemExit(128 + number)

    def _give_up(self, _number: int, _frame: FrameType | None) -> None:
        if self.number is not None and self.job is None:
            os.write(2, _STOPPED_EARLY)
            os._exit(128 + self.number)

    @contextlib.contextmanager
    def interrupting(self) -> "Iterator[None]":
        """Make the first signal raise SystemExit in a block that has not started a job yet but must clean up.

        The process ends after a few seconds even if the clean-up hangs.
        """
        self._interrupts = True
        try:
            if self.number is not None:
                self._exit_early(self.number)
            yield
        finally:
            self._interrupts = False

    def attach(self, job: Stoppable) -> None:
        """Let signals stop a job, and pass on any signal that arrived earlier."""
        self.job = job
        if self.number is not None:
            job.stop()


def choose_display(as_json: bool, quiet: bool) -> Display:
    """Return the progress display."""
    if as_json:
        return JsonDisplay(write_event)
    if quiet:
        return QuietDisplay()
    if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        return LiveDisplay(sys.stderr)
    return PlainDisplay(say)


def announce_dashboard(url: str | None, as_json: bool, quiet: bool, log: Display) -> None:
    """Show the URL of a job's dashboard, before any other output about the job."""
    if url is None:
        return
    log.notice(f"dashboard: {url}")
    if as_json:
        write_event("dashboard", {"url": url})
    elif not quiet:
        say(f"dashboard: {url}")


def watch(job: "RunningJob", signals: Signals, display: Display, *, is_resumable: bool = True) -> Snapshot:
    """Show the job's progress until it ends, and return the first snapshot."""
    again = "; run the same command again to resume" if is_resumable else ""
    first = Snapshot.from_native(job.snapshot())
    says_resuming = first.resumed and first.start_settled > 0
    deadline = None
    while not job.wait(STEP_SECONDS):
        if says_resuming:  # only after the first wait, during which a finished job would have ended
            says_resuming = False
            many = "1 target is" if first.start_settled == 1 else f"{first.start_settled:,} targets are"
            display.notice(f"resuming: {many} already done")
        snapshot = Snapshot.from_native(job.snapshot())
        code = signals.exit_code or (snapshot.stopped_by and STOPPED_BY_A_RULE)
        if code and deadline is None:
            deadline = time.monotonic() + DRAIN_SECONDS_MAX
            why = "" if signals.exit_code else f" by --{snapshot.stopped_by}".replace("_", "-")
            if why != f" by --{FIRST}":  # the user requested this, and nothing is in flight
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
