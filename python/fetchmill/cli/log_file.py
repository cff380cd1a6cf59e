"""Writes progress and notices to a file, in addition to the display.

Each line starts with a UTC time and is appended in a single write, so several jobs can share a file. The file stays
open while the job runs, so log rotation must copy and truncate it.
"""

import json
import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self

import click

from fetchmill._job.progress_texts import Meter, describe
from fetchmill.cli.parameter_types import Choice
from fetchmill.cli.progress import Display, JsonDisplay
from fetchmill.cli.streams import say, without_secrets
from fetchmill.errors import StorageError, UsageError

if TYPE_CHECKING:
    from fetchmill._job.report import Snapshot

# Seconds between two lines of progress.
PROGRESS_SECONDS = 10.0


def log_options() -> list[click.Parameter]:
    """Return the options for writing a log file."""
    return [
        click.Option(
            ["--log-file"],
            type=click.Path(),
            help="Also append progress, notices and the summary, with UTC timestamps, to this file.",
        ),
        click.Option(
            ["--log-format"],
            type=Choice(("text", "json")),
            help="Format of the log file; `json` writes one event per line, like --json.  [default: text]",
        ),
    ]


class LogFile(Display):
    """A file to which lines are appended. Without a path, nothing is written.

    If the file can no longer be written to, the error is reported once, and the job continues without the file.

    Args:
        path: the file, which is created if it does not exist.
        format: `text` (the default) or `json`.

    Raises:
        StorageError: the file cannot be opened.
        UsageError: a format is given without a file.
    """

    def __init__(self, path: str | None, format: str | None) -> None:
        if path is None and format is not None:
            raise UsageError("--log-format needs --log-file FILE")
        self._path = path
        self._events = JsonDisplay(self._write_event, PROGRESS_SECONDS) if format == "json" else None
        self._meter = Meter()
        self._next = PROGRESS_SECONDS
        self._descriptor = None if path is None else _open(path)

    def update(self, snapshot: "Snapshot") -> None:
        """Write a line if one is due."""
        if self._descriptor is None:
            return
        if self._events is not None:
            self._events.update(snapshot)
            return
        rates = self._meter.add(snapshot)
        if snapshot.seconds >= self._next:
            self._next = snapshot.seconds + PROGRESS_SECONDS
            self._write_text("; ".join(describe(snapshot, rates)))

    def notice(self, text: str) -> None:
        """Write a line."""
        if self._events is not None:
            self._events.notice(text)
        else:
            self._write_text(text)

    def conclude(self, lines: Sequence[str], report: Mapping[str, Any]) -> None:
        """Write the summary: lines of text, or the report as JSON."""
        if self._events is not None:
            self._write_event("report", report)
        else:
            for line in lines:
                self._write_text(line)

    def close(self) -> None:
        """Close the file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        if error is not None and not isinstance(error, SystemExit):  # a stopped run raises SystemExit
            message = " ".join((str(error) or type(error).__name__).split())
            if self._events is not None:
                self._write_event("error", {"message": message})
            else:
                self._write_text(f"error: {message}")
        self.close()

    def _write_text(self, text: str) -> None:
        self._write(f"{_now()} {' '.join(without_secrets(text).splitlines())}")

    def _write_event(self, event: str, values: Mapping[str, Any]) -> None:
        self._write(json.dumps({"time": _now(), "event": event, **_hidden(values)}))

    def _write(self, line: str) -> None:
        if self._descriptor is None:
            return
        try:
            os.write(self._descriptor, f"{line}\n".encode(errors="backslashreplace"))
        except OSError as error:
            self.close()
            say(f"cannot write the log file {self._path} ({error.strerror}); the job continues without it")


class BothDisplays(Display):
    """Passes everything to two displays."""

    def __init__(self, first: Display, second: Display) -> None:
        self._both = (first, second)

    def update(self, snapshot: "Snapshot") -> None:
        """Pass on a snapshot."""
        for display in self._both:
            display.update(snapshot)

    def notice(self, text: str) -> None:
        """Pass on a line."""
        for display in self._both:
            display.notice(text)


def _open(path: str) -> int:
    try:
        return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOCTTY, 0o666)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise StorageError(f"cannot write the log file {path}: {reason}; choose another --log-file") from None


def _now() -> str:
    """Return the current time, such as 2026-11-23T08:30:00.123Z."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _hidden(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Return a JSON value with the secrets in its URLs redacted."""
    if isinstance(value, str):
        return without_secrets(value)
    if isinstance(value, Mapping):
        return {name: _hidden(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_hidden(inner) for inner in value]
    return value
