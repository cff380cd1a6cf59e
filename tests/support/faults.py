"""Faults that a second run does not excuse: wrong bytes, a lost or doubled object, a crash, a hang.

A test that failed next to others may run once more, alone (`scripts/judge-tests`). A test that saw a fault never does:
a rare fault is still a fault.
"""

import signal
import subprocess

# Signals of a crashed program; tests send none of them.
_CRASHES = {-signal.SIGABRT, -signal.SIGBUS, -signal.SIGFPE, -signal.SIGILL, -signal.SIGSEGV, -signal.SIGSYS}
# Messages of the command line and of Rust.
_SAID_OF_CRASHES = ("internal error", "panicked at", "fatal runtime error")
# Exceptions that a call in this process then raises.
_CRASHES_HERE = {"InternalError", "PanicException"}
_seen: list[str] = []


def begin() -> None:
    """Starts a test without observations."""
    _seen.clear()


def note(fault: str) -> None:
    """Notes a helper's observation. It counts only if the test fails, because a test may expect a crash."""
    _seen.append(fault)


def note_end(code: int, said: str) -> None:
    """Checks how a command ended."""
    if code in _CRASHES or any(words in said for words in _SAID_OF_CRASHES):
        note("crash")


def note_problems(problems: list[str]) -> list[str]:
    """Notes objects that are not as expected. Returns them."""
    if problems:
        note("wrong, lost or doubled object")
    return problems


def fault_of(error: BaseException) -> str | None:
    """Returns the fault that the running test saw, with the exception that ended it.

    None if a second run may excuse it.
    """
    if type(error).__name__ in _CRASHES_HERE:
        return "crash"
    is_hang = isinstance(error, subprocess.TimeoutExpired) or "from pytest-timeout" in str(error)
    return "hang" if is_hang else next(iter(_seen), None)
