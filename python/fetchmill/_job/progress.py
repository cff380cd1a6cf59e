"""`progress=`: how a program, a terminal or a notebook sees a job that runs.

Everything happens on the thread that waits for the job, some times a second: nothing is on the way of an object.
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
"""Takes how a job is getting on."""

ProgressChoice = bool | OnProgress | None
"""Who is shown how a job is getting on: nobody, a terminal or notebook, or a function. None: a notebook only."""

# A function or a display gets a snapshot this often, a stream that is no terminal a line so often.
_STEP_SECONDS = 0.25
_LINE_SECONDS = 10.0


class Show(Protocol):
    """Shows how a job is getting on."""

    def __call__(self, snapshot: dict[str, Any], *, is_last: bool = False) -> None:
        """Takes what the native module counts."""


@contextlib.contextmanager
def shown(progress: ProgressChoice) -> Iterator[Show | None]:
    """What shows a job, as `progress` asks for it; None if nobody sees it."""
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
    """Whether this process is the kernel of a notebook."""
    if "ipykernel" not in sys.modules:
        return False
    from IPython.core.getipython import get_ipython

    shell = get_ipython()
    return shell is not None and hasattr(shell, "kernel")


class _Paced:
    """Gives a function a snapshot a few times a second, and the last one always."""

    def __init__(self, on_progress: OnProgress) -> None:
        self._on_progress = on_progress
        self._next = time.monotonic() + _STEP_SECONDS

    def __call__(self, snapshot: dict[str, Any], *, is_last: bool = False) -> None:
        now = time.monotonic()
        if is_last or now >= self._next:
            self._next = now + _STEP_SECONDS
            self._on_progress(Snapshot.from_native(snapshot))


class _StreamDisplay:
    """A line that is written over and over on a terminal; elsewhere a line every ten seconds."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream
        self._is_terminal = stream is not None and stream.isatty()
        self._meter = Meter()
        self._written = 0.0

    def update(self, snapshot: Snapshot) -> None:
        """Writes a line, if it is time."""
        rates = self._meter.add(snapshot)
        text = "; ".join(describe(snapshot, rates))
        if self._is_terminal:
            columns = shutil.get_terminal_size().columns
            # A terminal obeys control characters, and names of hosts come from elsewhere.
            shown = "".join(char if char.isprintable() else "?" for char in text[: columns - 1])
            self._write(f"\r\x1b[2K{shown}")
        elif not 0 <= snapshot.seconds - self._written < _LINE_SECONDS:
            self._written = snapshot.seconds
            self._write(f"fetchmill: {text}\n")

    def close(self) -> None:
        """Takes the line of a terminal away."""
        if self._is_terminal:
            self._write("\r\x1b[2K")

    def _write(self, text: str) -> None:
        if self._stream is not None:
            with contextlib.suppress(OSError, ValueError):  # nobody reads it
                self._stream.write(text)
                self._stream.flush()


class _NotebookDisplay:
    """A bar with a line below a cell."""

    def __init__(self) -> None:
        self._meter = Meter()
        self._handle: Any = None
        self._done = ""

    def update(self, snapshot: Snapshot) -> None:
        """Shows it in the place of the one before."""
        rates = self._meter.add(snapshot)
        self._done = f"{describe_done(snapshot)}, {snapshot.seconds:.1f} s"
        self._show(_as_mime(snapshot, rates))

    def close(self) -> None:
        """Leaves one line."""
        if self._handle is not None:
            self._show({"text/plain": self._done, "text/html": escape(self._done)})

    def _show(self, data: dict[str, str]) -> None:
        from IPython.display import display

        if self._handle is None:
            self._handle = display(data, raw=True, display_id=True)  # type: ignore[no-untyped-call]
        else:
            self._handle.update(data, raw=True)


def _as_mime(snapshot: Snapshot, rates: Rates) -> dict[str, str]:
    """A snapshot as text and as HTML."""
    lines = describe(snapshot, rates)
    total = snapshot.expected
    bar = f"<progress value='{snapshot.settled}' max='{total}'></progress> " if total else ""
    return {"text/plain": "\n".join(lines), "text/html": bar + "<br>".join(map(escape, lines))}
