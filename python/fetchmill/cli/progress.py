"""What a person or a machine sees while a job runs.

The command takes a snapshot a few times a second and shows it to a display: a live block on a terminal, plain lines
otherwise, JSON lines for machines, nothing when quiet.
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
# Of the bar, in columns; on a narrower terminal it is as wide as that.
BAR_WIDTH = 40


class Display:
    """Where snapshots are shown; this one shows nothing. One thread calls it; a closed stream raises nothing."""

    def update(self, snapshot: "Snapshot") -> None:
        """Shows a snapshot, or leaves it out when it is too early for the next."""

    def notice(self, text: str) -> None:
        """Shows a line that stays."""

    def close(self) -> None:
        """Takes away what does not stay."""


class QuietDisplay(Display):
    """Shows nothing."""


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class PlainDisplay(Display):
    """A line every ten seconds, for logs: with the time, UTC."""

    def __init__(self, write_line: "Callable[[str], object]", now: "Callable[[], str]" = _now) -> None:
        self._write_line = write_line
        self._now = now
        self._meter = Meter()
        self._next = PLAIN_SECONDS

    def update(self, snapshot: "Snapshot") -> None:
        """A line when it is time."""
        rates = self._meter.add(snapshot)
        if snapshot.seconds >= self._next:
            self._next = snapshot.seconds + PLAIN_SECONDS
            self._write_line(f"{self._now()} " + "; ".join(describe(snapshot, rates)))

    def notice(self, text: str) -> None:
        """A line."""
        self._write_line(text)


class JsonDisplay(Display):
    """An object a line, for machines: an event `progress` each second, or less often, and an event `notice`."""

    def __init__(self, write_event: "Callable[[str, dict[str, Any]], object]", seconds: float = JSON_SECONDS) -> None:
        self._write_event = write_event
        self._seconds = seconds
        self._meter = Meter()
        self._next = 0.0

    def update(self, snapshot: "Snapshot") -> None:
        """An event when it is time."""
        rates = self._meter.add(snapshot)
        if snapshot.seconds >= self._next:
            self._next = snapshot.seconds + self._seconds
            self._write_event("progress", progress_event(snapshot, rates))

    def notice(self, text: str) -> None:
        """An event."""
        self._write_event("notice", {"message": text})


def _bar(snapshot: "Snapshot") -> "list[RenderableType]":
    """How much is done; none while nobody knows how much there is."""
    from rich.padding import Padding
    from rich.progress_bar import ProgressBar

    if snapshot.expected is None:
        return []
    # A bar does not end its line itself.
    return [Padding(ProgressBar(total=snapshot.expected, completed=snapshot.settled, width=BAR_WIDTH))]


def _lines(lines: list[str]) -> "RenderableType":
    """Cut where the terminal ends: a line that wraps would move the block."""
    from rich.text import Text

    return Text("\n".join(lines), overflow="ellipsis", no_wrap=True)


class LiveDisplay(Display):
    """One block on a terminal that is written over and over."""

    def __init__(self, stream: TextIO) -> None:
        # Imported late: rich takes as long as everything else at start.
        from rich.console import Console
        from rich.live import Live

        self._meter = Meter()
        self._console = Console(file=stream, highlight=False)
        # No thread of its own, and nothing left behind.
        self._live: Live | None = Live(console=self._console, auto_refresh=False, transient=True)
        self._live.start()

    def update(self, snapshot: "Snapshot") -> None:
        """Writes the block again."""
        from rich.console import Group

        parts = [*_bar(snapshot), _lines(describe(snapshot, self._meter.add(snapshot)))]
        self._update_live(lambda live: live.update(Group(*parts), refresh=True))

    def notice(self, text: str) -> None:
        """A line above the block."""
        self._update_live(lambda live: live.console.print(text, markup=False, soft_wrap=True))

    def close(self) -> None:
        """Takes the block away."""
        self._update_live(lambda live: live.stop())
        self._live = None

    def _update_live(self, act: "Callable[[Live], None]") -> None:
        """A terminal that has gone must not end the job; rich answers a closed pipe with SystemExit."""
        if self._live is None:
            return
        try:
            act(self._live)
        except (OSError, SystemExit):
            self._live = None
