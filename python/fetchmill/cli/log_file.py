"""Progress and notices in a file, beside what a terminal or a machine is shown.

A line is appended with one write and has its time in UTC, so that several jobs may share a file. Rotating it is up to
whoever keeps logs, by copying and truncating: it stays open as long as its job runs.
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
    """The options of commands that can write a log."""
    return [
        click.Option(
            ["--log-file"],
            type=click.Path(),
            help="Append progress, notices and the summary to this file, too, each line with its time in UTC.",
        ),
        click.Option(
            ["--log-format"],
            type=Choice(("text", "json")),
            help="How lines of the log file are written: `json` is an event a line, as --json has them.  "
            "[default: text]",
        ),
    ]


class LogFile(Display):
    """A file that lines are appended to; without a path nothing is written.

    A file that cannot be written any more does not end the job: that is said once, and the job goes on without it.

    Args:
        path: the file, made if it is missing.
        format: `text`, if not given, or `json`.

    Raises:
        StorageError: the file cannot be opened.
        UsageError: a format without a file.
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
        """A line when it is time."""
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
        """A line."""
        if self._events is not None:
            self._events.notice(text)
        else:
            self._write_text(text)

    def conclude(self, lines: Sequence[str], report: Mapping[str, Any]) -> None:
        """The summary: lines for people, the report for machines."""
        if self._events is not None:
            self._write_event("report", report)
        else:
            for line in lines:
                self._write_text(line)

    def close(self) -> None:
        """Closes the file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        if error is not None and not isinstance(error, SystemExit):  # that is how a run ends that was stopped
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
            say(f"cannot write the log file {self._path} ({error.strerror}); the job continues without a log file")


class BothDisplays(Display):
    """Shows everything in two places."""

    def __init__(self, first: Display, second: Display) -> None:
        self._both = (first, second)

    def update(self, snapshot: "Snapshot") -> None:
        """Hands a snapshot on."""
        for display in self._both:
            display.update(snapshot)

    def notice(self, text: str) -> None:
        """Hands a line on."""
        for display in self._both:
            display.notice(text)


def _open(path: str) -> int:
    try:
        return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOCTTY, 0o666)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise StorageError(f"cannot write the log file {path}: {reason}; choose another --log-file") from None


def _now() -> str:
    """As 2026-11-23T08:30:00.123Z."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _hidden(value: Any) -> Any:  # noqa: ANN401 - what JSON has
    """A value of JSON without what URLs have in them that is secret."""
    if isinstance(value, str):
        return without_secrets(value)
    if isinstance(value, Mapping):
        return {name: _hidden(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_hidden(inner) for inner in value]
    return value
