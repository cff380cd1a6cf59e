"""Standard streams that may go away: `fetchmill ... | head` must not end a job.

A stream whose reader has gone is pointed at /dev/null, so that neither this process nor the interpreter's own flush
at exit trips over it.
"""

import contextlib
import json
import os
import sys
from typing import Any, TextIO


def open_missing() -> None:
    """Opens descriptors 0 to 2 on /dev/null where a parent left them closed.

    Otherwise the next file that is opened, such as the journal, would be standard error.
    """
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
    if sys.stdout is None:
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115


def write_line(stream: TextIO, text: str) -> bool:
    """Writes a line and flushes it; False when nobody reads any more."""
    try:
        stream.write(text + "\n")
        stream.flush()
    except (OSError, ValueError):
        _silence(stream)
        return False
    except UnicodeEncodeError:
        return write_line(stream, text.encode("ascii", "backslashreplace").decode())
    return True


def write_bytes(stream: TextIO, data: bytes) -> bool:
    """Writes bytes as they are; False when nobody reads any more."""
    try:
        stream.flush()
        stream.buffer.write(data)
        stream.buffer.flush()
    except (OSError, ValueError):
        _silence(stream)
        return False
    return True


def escaped(text: str) -> str:
    """Text without tabs, line ends and terminal sequences."""
    if text.isprintable() and "\\" not in text:
        return text
    return "".join(
        char if char.isprintable() and char != "\\" else char.encode("unicode_escape").decode() for char in text
    )


def say(text: str) -> None:
    """Talk: a line on standard error."""
    write_line(sys.stderr, text)


def write_event(event: str, values: dict[str, Any]) -> bool:
    """Data: a JSON object on a line of standard output."""
    return write_line(sys.stdout, json.dumps({"event": event, **values}))


def flush_or_silence() -> None:
    """Before the interpreter's own flush, which would complain."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            _silence(stream)


def _silence(stream: TextIO) -> None:
    """Points a stream whose reader has gone at /dev/null."""
    with contextlib.suppress(OSError, ValueError):
        devnull = os.open(os.devnull, os.O_WRONLY)
        os.dup2(devnull, stream.fileno())
        os.close(devnull)
