"""Displays that show a job's progress to people and programs.

The command takes a snapshot several times per second and passes it to a display. The display updates a block of lines
on a terminal, writes plain lines otherwise, writes JSON lines for programs, or shows nothing with --quiet.
"""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TextIO

from fetchmill._job.progress_texts import Meter, describe, progress_event

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import RenderableType
    from rich.live import Live

    from fetchmill._job.report import Snapshot

PLAIN_SECONDS = 10.0
JSON_SECONDS = 1.0
# Maximum width of the bar in columns. On a narrower terminal, the bar is as wide as the terminal.
BAR_WIDTH = 40


class Display:
    """The base class of displays. Only one thread calls a display. A closed stream does not raise an error."""

    def update(self, snapshot: "Snapshot") -> None:
        """Show a snapshot, unless it is too early for the next one."""

    def notice(self, text: str) -> None:
        """Show a permanent line."""

    def close(self) -> None:
        """Remove temporary output."""


class QuietDisplay(Display):
    """Shows nothing."""


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class PlainDisplay(Display):
    """Writes a line with the UTC time every ten seconds, for use in logs."""

    def __init__(self, write_line: "Callable[[str], object]", now: "Callable[[], str]" = _now) -> None:
        self._write_line = write_line
        self._now = now
        self._meter = Meter()
        self._next = PLAIN_SECONDS

    def update(self, snapshot: "Snapshot") -> None:
        """Write a line if one is due."""
        rates = self._meter.add(snapshot)
        if snapshot.seconds >= self._next:
            self._next = snapshot.seconds + PLAIN_SECONDS
            self._write_line(f"{self._now()} " + "; ".join(describe(snapshot, rates)))

    def notice(self, text: str) -> None:
        """Write a line."""
        self._write_line(text)


class JsonDisplay(Display):
    """Writes events as JSON lines for programs: `progress` at most once per second, and `notice`."""

    def __init__(self, write_event: "Callable[[str, dict[str, Any]], object]", seconds: float = JSON_SECONDS) -> None:
        self._write_event = write_event
        self._seconds = seconds
        self._meter = Meter()
        self._next = 0.0

    def update(self, snapshot: "Snapshot") -> None:
        """Write an event if one is due."""
        rates = self._meter.add(snapshot)
        if snapshot.seconds >= self._next:
            self._next = snapshot.seconds + self._seconds
            self._write_event("progress", progress_event(snapshot, rates))

    def notice(self, text: str) -> None:
        """Write an event."""
        self._write_event("notice", {"message": text})


def _bar(snapshot: "Snapshot") -> "list[RenderableType]":
    """Return a progress bar, or nothing while the total is unknown."""
    from rich.padding import Padding
    from rich.progress_bar import ProgressBar

    if snapshot.expected is None:
        return []
    # `Padding` ends the line, which a bar does not do itself.
    return [Padding(ProgressBar(total=snapshot.expected, completed=snapshot.settled, width=BAR_WIDTH))]


def _lines(lines: list[str]) -> "RenderableType":
    """Return the lines, truncated to the width of the terminal, because a line that wraps would move the block."""
    from rich.text import Text

    return Text("\n".join(lines), overflow="ellipsis", no_wrap=True)


class LiveDisplay(Display):
    """Shows a block on a terminal and rewrites it with each snapshot."""

    def __init__(self, stream: TextIO) -> None:
        # Imported here because importing rich takes as long as all other startup work.
        from rich.console import Console
        from rich.live import Live

        self._meter = Meter()
        self._console = Console(file=stream, highlight=False)
        # The display does not use a thread, and does not leave anything on the terminal.
        self._live: Live | None = Live(console=self._console, auto_refresh=False, transient=True)
        self._live.start()

    def update(self, snapshot: "Snapshot") -> None:
        """Rewrite the block."""
        from rich.console import Group

        parts = [*_bar(snapshot), _lines(describe(snapshot, self._meter.add(snapshot)))]
        self._update_live(lambda live: live.update(Group(*parts), refresh=True))

    def notice(self, text: str) -> None:
        """Write a line above the block."""
        self._update_live(lambda live: live.console.print(text, markup=False, soft_wrap=True))

    def close(self) -> None:
        """Remove the block."""
        self._update_live(lambda live: live.stop())
        self._live = None

    def _update_live(self, act: "Callable[[Live], None]") -> None:
        """Update the block. A closed terminal does not end the job, although rich raises SystemExit in that case."""
        if self._live is None:
            return
        try:
            act(self._live)
        except (OSError, SystemExit):
            self._live = None
