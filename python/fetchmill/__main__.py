"""The command `fetchmill`, which is also `python -m fetchmill`: what holds from its first moment to its last.

A signal may come at any of them. While modules are loaded it ends the command at once, in one line: as an exception it
would come up in the middle of an import, which says what it likes about it. Commands that run a job handle signals
themselves once they do; in the others SIGINT raises KeyboardInterrupt, once. When all is said, signals are passed over:
the exit code stands.
"""

import atexit
import contextlib
import gc
import os
import signal
import sys

# As in `typing`, which takes as long to load as all else here.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import NoReturn

_NUMBERS = (signal.SIGINT, signal.SIGTERM)
# They say themselves what a signal means.
_WITH_JOBS = ("check", "export", "get", "list", "serve")


class _Interrupt(KeyboardInterrupt):
    """Raised by SIGINT.

    Once a bare KeyboardInterrupt came up in `exec`, which modules with dataclasses use while they are loaded, Python
    ends by the signal itself, whatever the exit code was to be.
    """


def main() -> "NoReturn":
    """Runs the command line and exits."""
    for number in _NUMBERS:
        signal.signal(number, _leave)
    code = 130
    # Of what modules make while they are loaded nothing is garbage.
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
            # One that comes right now raises KeyboardInterrupt here, where it is caught.
            for number in _NUMBERS:
                signal.signal(number, signal.SIG_IGN)
    except KeyboardInterrupt:
        pass
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 0
    _exit(code)


def _exit(code: int) -> "NoReturn":
    """Ends the process, without taking the interpreter apart: of a short command that is a tenth of its time.

    Where threads or processes of Python may still be there, the interpreter knows how to end them.
    """
    if "multiprocessing" in sys.modules or len(sys._current_frames()) > 1:  # noqa: SLF001 - threads, without `threading`
        sys.exit(code)
    atexit._run_exitfuncs()  # noqa: SLF001 - what `sys.exit` calls, too
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # `output_error` has reported it
            stream.flush()
    os._exit(code)


def _leave(number: int, _frame: "FrameType | None") -> None:
    """Ends the process; nothing has begun."""
    os.write(2, b"fetchmill: stopped before anything was begun\n")
    os._exit(128 + number)


def _release(command: str) -> None:
    """A command is about to run: from now on a signal means what it means to that."""
    gc.enable()
    if command not in _WITH_JOBS:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, _interrupt)


def _interrupt(number: int, _frame: "FrameType | None") -> None:
    signal.signal(number, lambda number, _frame: os._exit(128 + number))
    raise _Interrupt


if __name__ == "__main__":
    main()
