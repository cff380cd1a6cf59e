"""Standard streams that may go away: `fetchmill ... | head` must not end a job.

A stream that cannot be written to is pointed at /dev/null, so that neither this process nor the interpreter's own flush
at exit trips over it. That nobody reads any more is no error. Anything else, such as a full disk, has cut the output:
`output_error` tells it when the command is done.
"""

import contextlib
import os
import select
import sys
from typing import Any, BinaryIO, TextIO


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
    """Writes a line and flushes it; False when nobody reads any more, or it cannot be written."""
    line = text + "\n"
    try:
        data = line.encode(stream.encoding or "utf-8", stream.errors or "strict")
    except UnicodeEncodeError:
        data = line.encode("ascii", "backslashreplace")
    return write_bytes(stream, data)


def write_bytes(stream: TextIO, data: bytes) -> bool:
    """Writes bytes as they are; False when nobody reads any more, or they cannot be written."""
    try:
        stream.flush()
        _write_all(stream.buffer, memoryview(data))
    except (OSError, ValueError) as error:
        give_up(stream, error)
        return False
    return True


def _write_all(stream: BinaryIO, rest: memoryview) -> None:
    """All of it: without a buffer (PYTHONUNBUFFERED) a write may take a part, a pipe that does not block nothing."""
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
    """Text without tabs, line ends and terminal sequences."""
    if text.isprintable() and "\\" not in text:
        return text
    return "".join(
        char if char.isprintable() and char != "\\" else char.encode("unicode_escape").decode() for char in text
    )


def without_secrets(text: str) -> str:
    """A text for people: signatures, tokens and passwords that URLs have in it are hidden."""
    if "=" not in text and "@" not in text:
        return text
    from fetchmill._destination.status import without_secrets as hide

    return hide(text)


def say(text: str) -> None:
    """Talk: a line on standard error."""
    write_line(sys.stderr, without_secrets(text))


def json_line(values: dict[str, Any]) -> str:
    """A JSON object in one line."""
    import json

    return json.dumps(values)


def write_event(event: str, values: dict[str, Any]) -> bool:
    """Data: a JSON object on a line of standard output."""
    return write_line(sys.stdout, json_line({"event": event, **values}))


def flush_or_silence() -> None:
    """Before the interpreter's own flush, which would complain."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError) as error:
            give_up(stream, error)


def output_error() -> str | None:
    """Why standard output is cut short, in one line; None when all of it was written, or nobody read it any more."""
    flush_or_silence()
    try:
        # Some file systems tell only then that what they took is lost.
        os.close(os.dup(sys.stdout.fileno()))
    except (OSError, ValueError) as error:
        give_up(sys.stdout, error)
    if not _failures:
        return None
    reason = _failures[0].strerror or str(_failures[0])
    return f"standard output: cut short ({reason}); free disk space or write elsewhere, and run the command again"


# What has cut standard output short; the first one is told.
_failures: list[OSError] = []


def give_up(stream: TextIO, error: OSError | ValueError) -> None:
    """Points a stream that cannot be written to at /dev/null, and remembers why."""
    if stream is sys.stdout and isinstance(error, OSError) and not isinstance(error, ConnectionError):
        _failures.append(error)
    with contextlib.suppress(OSError, ValueError):
        devnull = os.open(os.devnull, os.O_WRONLY)
        os.dup2(devnull, stream.fileno())
        os.close(devnull)
