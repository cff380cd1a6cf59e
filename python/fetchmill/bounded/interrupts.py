"""Worker processes and Ctrl-C: it reaches every process of a terminal, and only the parent decides what it means."""

import signal
from multiprocessing import resource_tracker
from multiprocessing.process import BaseProcess


def start_without_interrupts(process: BaseProcess) -> None:
    """Starts a process with SIGINT blocked: one that comes while the interpreter starts must not end in a traceback.

    The process calls `ignore_interrupts` first. A mask belongs to a thread, so this is safe in any thread.
    """
    # Starting the tracker later would unblock SIGINT: it does so for itself.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def ignore_interrupts() -> None:
    """In the process: what has come meanwhile and what will come is passed over."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
