"""What the running test saw that no second run excuses: wrong bytes, a lost or doubled object, a crash, a hang.

A test that failed beside others may run once more, alone (`scripts/judge-tests`). One that saw a fault never does: a
fault that comes seldom is still a fault.
"""

import signal
import subprocess

# Signals by which a program ends that has gone wrong; a test sends none of them.
_CRASHES = {-signal.SIGABRT, -signal.SIGBUS, -signal.SIGFPE, -signal.SIGILL, -signal.SIGSEGV, -signal.SIGSYS}
# Said by the command line and by Rust.
_SAID_OF_CRASHES = ("internal error", "panicked at", "fatal runtime error")
# Exceptions that a call in this process raises then.
_CRASHES_HERE = {"InternalError", "PanicException"}
_seen: list[str] = []


def begin() -> None:
    """A test begins: nothing was seen yet."""
    _seen.clear()


def note(fault: str) -> None:
    """What a helper saw. It counts only if the test fails: one may expect a crash."""
    _seen.append(fault)


def note_end(code: int, said: str) -> None:
    """Looks at how a command ended."""
    if code in _CRASHES or any(words in said for words in _SAID_OF_CRASHES):
        note("crash")


def note_problems(problems: list[str]) -> list[str]:
    """Objects that are not as they must be; gives them back."""
    if problems:
        note("wrong, lost or doubled object")
    return problems


def fault_of(error: BaseException) -> str | None:
    """What the running test saw, with the exception that ended it; None if a second run may excuse it."""
    if type(error).__name__ in _CRASHES_HERE:
        return "crash"
    is_hang = isinstance(error, subprocess.TimeoutExpired) or "from pytest-timeout" in str(error)
    return "hang" if is_hang else next(iter(_seen), None)
