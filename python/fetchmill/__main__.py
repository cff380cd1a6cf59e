"""The `fetchmill` command (also `python -m fetchmill`): startup, signals and exit.

Signals can arrive at any moment. While modules are being imported, a signal ends the command immediately and prints one
line. An exception raised at that point could be swallowed by the module being imported. Commands that run a job install
their own handlers. In other commands, the first SIGINT raises KeyboardInterrupt. Once the command has ended, signals
are ignored so that they cannot change the exit code.
"""

import atexit
import contextlib
import gc
import os
import signal
import sys

# Defined here because importing `typing` takes as long as all other imports of this module.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import NoReturn

_NUMBERS = (signal.SIGINT, signal.SIGTERM)
# These commands handle signals themselves.
_WITH_JOBS = ("check", "export", "get", "list", "serve")


class _Interrupt(KeyboardInterrupt):
    """Raised by SIGINT.

    If a bare KeyboardInterrupt passes through `exec`, Python kills itself with the signal and ignores the exit code.
    Importing a module that defines dataclasses calls `exec`.
    """


def main() -> "NoReturn":
    """Run the command line and exit."""
    for number in _NUMBERS:
        signal.signal(number, _leave)
    code = 130
    # Objects created during imports are not garbage, so collecting garbage would only waste time.
    gc.disable()
    try:
        try:
            from fetchmill.cli import main as run

            run(on_command=_release)
        except ImportError as error:
            from fetchmill._platform import explain

            explained = explain(error)
            if explained is error:
                raise
            sys.stderr.write(f"fetchmill: error: {explained}\n")
            code = 1
        finally:
            # A signal that arrives now raises KeyboardInterrupt here, where it is caught.
            for number in _NUMBERS:
                signal.signal(number, signal.SIG_IGN)
    except KeyboardInterrupt:
        pass
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 0
    _exit(code)


def _exit(code: int) -> "NoReturn":
    """End the process without finalizing the interpreter, which would take a tenth of a short command's time.

    If Python threads or processes may still be running, exit normally so that the interpreter ends them.
    """
    if "multiprocessing" in sys.modules or len(sys._current_frames()) > 1:  # noqa: SLF001 - avoids `threading`
        sys.exit(code)
    atexit._run_exitfuncs()  # noqa: SLF001 - also called by `sys.exit`
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # `output_error` has reported it
            stream.flush()
    os._exit(code)


def _leave(number: int, _frame: "FrameType | None") -> None:
    """End the process before the command has started."""
    os.write(2, b"fetchmill: stopped before anything was begun\n")
    os._exit(128 + number)


def _release(command: str) -> None:
    """Install the signal handlers for a command that is about to run."""
    gc.enable()
    if command not in _WITH_JOBS:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, _interrupt)


def _interrupt(number: int, _frame: "FrameType | None") -> None:
    signal.signal(number, lambda number, _frame: os._exit(128 + number))
    raise _Interrupt


if __name__ == "__main__":
    main()
