"""Makes worker processes ignore Ctrl-C. The terminal sends SIGINT to all processes, but only the parent handles it."""

import signal
from multiprocessing import resource_tracker
from multiprocessing.process import BaseProcess


def start_without_interrupts(process: BaseProcess) -> None:
    """Start a process with SIGINT blocked, so that Ctrl-C during startup does not print a traceback.

    The new process must first call `ignore_interrupts`. Any thread can call this function, because each thread has its
    own signal mask.
    """
    # Starting the tracker unblocks SIGINT, so it must start before the mask is set.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def ignore_interrupts() -> None:
    """Ignore SIGINT from now on, including pending signals. Called by the worker process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
