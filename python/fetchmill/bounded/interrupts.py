"""Makes worker processes ignore Ctrl-C. The terminal sends SIGINT to all processes; only the parent handles it."""

import signal
from multiprocessing import resource_tracker
from multiprocessing.process import BaseProcess


def start_without_interrupts(process: BaseProcess) -> None:
    """Start a process with SIGINT blocked, so that Ctrl-C during its start does not print a traceback.

    The process calls `ignore_interrupts` first. A mask belongs to a thread, so this is safe in any thread.
    """
    # The tracker's start unblocks SIGINT, so it must start before the mask is set.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def ignore_interrupts() -> None:
    """Ignore SIGINT from now on, pending signals included. The worker process calls it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
