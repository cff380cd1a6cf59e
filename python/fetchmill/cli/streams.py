"""Writes to standard streams that may be closed. `fetchmill ... | head` must not end a job.

A stream that cannot be written to is redirected to /dev/null, so that later writes and the interpreter's own flush at
exit succeed. A reader that has closed the stream is not an error. After any other error, such as a full disk, the
output is incomplete, and `output_error` returns the reason at the end of the command.
"""

import contextlib
import os
import select
import sys
from typing import Any, BinaryIO, TextIO


def open_missing() -> None:
    """Open descriptors 0 to 2 on /dev/null if the parent left them closed.

    Otherwise the next opened file, such as the journal, would become standard error.
    """
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # opens the lowest free descriptor, which is this one
    if sys.stdout is None:
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115


def write_line(stream: TextIO, text: str) -> bool:
    """Write a line and flush it. Return False if this fails, for example because the reader has closed the stream."""
    line = text + "\n"
    try:
        data = line.encode(stream.encoding or "utf-8", stream.errors or "strict")
    except UnicodeEncodeError:
        data = line.encode("ascii", "backslashreplace")
    return write_bytes(stream, data)


def write_bytes(stream: TextIO, data: bytes) -> bool:
    """Write bytes unchanged. Return False if this fails, for example because the reader has closed the stream."""
    try:
        stream.flush()
        _write_all(stream.buffer, memoryview(data))
    except (OSError, ValueError) as error:
        give_up(stream, error)
        return False
    return True


def _write_all(stream: BinaryIO, rest: memoryview) -> None:
    """Write all bytes.

    Without a buffer (PYTHONUNBUFFERED), a single write may accept only some of the bytes. A non-blocking pipe may not
    accept any.
    """
    while rest:
        try:
            written = stream.write(rest)
        except BlockingIOError as error:
            written = error.characters_written
        if not written:
            select.select([], [stream], [])
        rest = rest[written or 0 :]
    while True:
        try:
            stream.flush()
        except BlockingIOError:
            select.select([], [stream], [])
        else:
            return


def escape(text: str) -> str:
    """Escape tabs, line endings and terminal sequences in a string."""
    if text.isprintable() and "\\" not in text:
        return text
    return "".join(
        char if char.isprintable() and char != "\\" else char.encode("unicode_escape").decode() for char in text
    )


def without_secrets(text: str) -> str:
    """Redact signatures, tokens and passwords in the URLs of a human-readable text."""
    if "=" not in text and "@" not in text:
        return text
    from fetchmill._destination.status import without_secrets as hide

    return hide(text)


def say(text: str) -> None:
    """Write a human-readable line to standard error."""
    write_line(sys.stderr, without_secrets(text))


def json_line(values: dict[str, Any]) -> str:
    """Return a JSON object on one line."""
    import json

    return json.dumps(values)


def write_event(event: str, values: dict[str, Any]) -> bool:
    """Write an event to standard output, as a JSON object on one line."""
    return write_line(sys.stdout, json_line({"event": event, **values}))


def flush_or_silence() -> None:
    """Flush the standard streams, because the interpreter would report errors when flushing them at exit."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError) as error:
            give_up(stream, error)


def output_error() -> str | None:
    """Return a line that explains why standard output is incomplete.

    Return None if it is complete, or if the reader closed it.
    """
    flush_or_silence()
    try:
        # Some file systems only report lost data when a descriptor is closed.
        os.close(os.dup(sys.stdout.fileno()))
    except (OSError, ValueError) as error:
        give_up(sys.stdout, error)
    if not _failures:
        return None
    reason = _failures[0].strerror or str(_failures[0])
    return f"standard output: cut short ({reason}); free disk space or write elsewhere, and run the command again"


# Errors that made standard output incomplete. Only the first one is reported.
_failures: list[OSError] = []


def give_up(stream: TextIO, error: OSError | ValueError) -> None:
    """Redirect a broken stream to /dev/null, and remember the error."""
    if stream is sys.stdout and isinstance(error, OSError) and not isinstance(error, ConnectionError):
        _failures.append(error)
    with contextlib.suppress(OSError, ValueError):
        devnull = os.open(os.devnull, os.O_WRONLY)
        os.dup2(devnull, stream.fileno())
        os.close(devnull)
