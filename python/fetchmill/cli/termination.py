"""Handles SIGTERM for commands that do not run a job. Such commands clean up and end immediately."""

import signal
from types import FrameType


def exit_on_sigterm() -> None:
    """Make SIGTERM raise SystemExit with exit code 143, so that `finally` blocks run."""
    signal.signal(signal.SIGTERM, _exit)


def _exit(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)
