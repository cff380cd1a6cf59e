"""`progress=`: shows a running job in a program, a terminal or a notebook.

This code runs several times per second, on the thread that waits for the job. No objects pass through it.
"""

import contextlib
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from html import escape
from typing import Any, Protocol, TextIO

from fetchmill._job.progress_texts import Meter, Rates, describe, describe_done
from fetchmill._job.report import Snapshot

OnProgress = Callable[[Snapshot], object]
"""A function that is called with a job's progress."""

ProgressChoice = bool | OnProgress | None
"""Whether to show a job's progress in a terminal or notebook, or a function to call. None means only in a notebook."""

# Interval between snapshots for a function or a display, and between lines on a stream that is not a terminal.
_STEP_SECONDS = 0.25
_LINE_SECONDS = 10.0


class Show(Protocol):
    """Shows the progress of a job."""

    def __call__(self, snapshot: dict[str, Any], *, is_last: bool = False) -> None:
        """Show the counters of the native module."""


@contextlib.contextmanager
def shown(progress: ProgressChoice) -> Iterator[Show | None]:
    """Yield a function that shows a job's progress as `progress` requests; None if no progress is shown."""
    if progress is None:
        progress = is_notebook()
    if progress is False:
        yield None
    elif callable(progress):
        yield _Paced(progress)
    else:
        display = _NotebookDisplay() if is_notebook() else _StreamDisplay(sys.stderr)
        try:
            yield _Paced(display.update)
        finally:
            display.close()


def is_notebook() -> bool:
    """Return whether this process is the kernel of a notebook."""
    if "ipykernel" not in sys.modules:
        return False
    from IPython.core.getipython import get_ipython

    shell = get_ipython()
    return shell is not None and hasattr(shell, "kernel")


class _Paced:
    """Calls a function with a snapshot a few times per second, and always with the last snapshot."""

    def __init__(self, on_progress: OnProgress) -> None:
        self._on_progress = on_progress
        self._next = time.monotonic() + _STEP_SECONDS

    def __call__(self, snapshot: dict[str, Any], *, is_last: bool = False) -> None:
        now = time.monotonic()
        if is_last or now >= self._next:
            self._next = now + _STEP_SECONDS
            self._on_progress(Snapshot.from_native(snapshot))


class _StreamDisplay:
    """A line that is overwritten on a terminal. Other streams get a new line every ten seconds."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream
        self._is_terminal = stream is not None and stream.isatty()
        self._meter = Meter()
        self._written = 0.0

    def update(self, snapshot: Snapshot) -> None:
        """Write a line if one is due."""
        rates = self._meter.add(snapshot)
        text = "; ".join(describe(snapshot, rates))
        if self._is_terminal:
            columns = shutil.get_terminal_size().columns
            # A terminal interprets control characters, and host names are untrusted.
            shown = "".join(char if char.isprintable() else "?" for char in text[: columns - 1])
            self._write(f"\r\x1b[2K{shown}")
        elif not 0 <= snapshot.seconds - self._written < _LINE_SECONDS:
            self._written = snapshot.seconds
            self._write(f"fetchmill: {text}\n")

    def close(self) -> None:
        """Remove the line from a terminal."""
        if self._is_terminal:
            self._write("\r\x1b[2K")

    def _write(self, text: str) -> None:
        if self._stream is not None:
            with contextlib.suppress(OSError, ValueError):  # the stream is closed
                self._stream.write(text)
                self._stream.flush()


class _NotebookDisplay:
    """A progress bar and a line of text, below a notebook cell."""

    def __init__(self) -> None:
        self._meter = Meter()
        self._handle: Any = None
        self._done = ""

    def update(self, snapshot: Snapshot) -> None:
        """Show a snapshot in place of the previous one."""
        rates = self._meter.add(snapshot)
        self._done = f"{describe_done(snapshot)}, {snapshot.seconds:.1f} s"
        self._show(_as_mime(snapshot, rates))

    def close(self) -> None:
        """Replace the bar with a final line."""
        if self._handle is not None:
            self._show({"text/plain": self._done, "text/html": escape(self._done)})

    def _show(self, data: dict[str, str]) -> None:
        from IPython.display import display

        if self._handle is None:
            self._handle = display(data, raw=True, display_id=True)  # type: ignore[no-untyped-call]
        else:
            self._handle.update(data, raw=True)


def _as_mime(snapshot: Snapshot, rates: Rates) -> dict[str, str]:
    """Return a snapshot as text and as HTML."""
    lines = describe(snapshot, rates)
    total = snapshot.expected
    bar = f"<progress value='{snapshot.settled}' max='{total}'></progress> " if total else ""
    return {"text/plain": "\n".join(lines), "text/html": bar + "<br>".join(map(escape, lines))}
