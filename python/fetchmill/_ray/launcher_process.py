"""The launcher as a child process, which receives commands and sends events. It can always be ended quickly."""

import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import IO, Any, Self

from fetchmill._ray.failures import error_of
from fetchmill.errors import TemporaryError

# Time until the launcher is killed. It allows 1.5 s for the workers to end, and 1 s for Ray.
_END_SECONDS = 3.0
# Time until the launcher is killed if it does not even receive the command, for example because it is frozen.
_RECEIVE_SECONDS = 1.0
_REASON_BYTES = 4096


class LauncherProcess:
    """See the module docstring. As a context manager, it ends the launcher on exit.

    Args:
        order: the first line of the launcher's input.
    """

    def __init__(self, order: Mapping[str, Any]) -> None:
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `close`
        # Start the launcher in its own session, so that Ctrl-C in a terminal only reaches this process. This process
        # then sends `drain`.
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "fetchmill._ray.launcher"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            start_new_session=True,
        )
        self._events: SimpleQueue[dict[str, Any]] = SimpleQueue()
        # Set when the launcher has received `end` or has ended.
        self._is_ending = threading.Event()
        self._reader = threading.Thread(target=self._read, name="fetchmill-ray", daemon=True)
        self._reader.start()
        self._ended_at: float | None = None
        self.command(json.dumps(order))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close("end")

    def command(self, line: str) -> None:
        """Send a command to the launcher."""
        if self._process.stdin is not None:
            with suppress(OSError, ValueError):  # the launcher has ended
                self._process.stdin.write(line + "\n")
                self._process.stdin.flush()

    def pass_on(self, say: Callable[[str], None]) -> None:
        """Pass on the launcher's messages for the user.

        Raises:
            FetchmillError: the launcher has failed.
        """
        self._note_end()
        with suppress(Empty):
            while True:
                event = self._events.get_nowait()
                if "error" in event:
                    raise error_of(event["kind"], event["error"])
                say(event["say"])
        if self._process.returncode not in (None, 0):
            raise TemporaryError(f"the connection to Ray ended ({self._reason()}); run the same command again")

    @property
    def ended_for(self) -> float | None:
        """Seconds since the launcher ended without an error; None while it runs."""
        return None if self._ended_at is None else time.monotonic() - self._ended_at

    def close(self, command: str, seconds: float = _END_SECONDS) -> None:
        """Send a last command, wait up to `seconds` for the end, and then kill the launcher."""
        self.command(command)
        if command == "end" and not self._is_ending.wait(_RECEIVE_SECONDS):
            seconds = 0.0
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            if stream is not None:
                with suppress(OSError, ValueError):
                    stream.close()

    def _note_end(self) -> None:
        if self._ended_at is None and self._process.poll() is not None:
            self._reader.join(_END_SECONDS)
            self._ended_at = time.monotonic()

    def _read(self) -> None:
        with suppress(ValueError, OSError):  # closed by `close`
            for line in self._process.stdout or ():
                with suppress(ValueError):
                    event = json.loads(line)
                    if "received" not in event:
                        self._events.put(event)
                    elif event["received"] == "end":
                        self._is_ending.set()
        self._is_ending.set()

    def _reason(self) -> str:
        """Return the last line that the launcher wrote before it failed."""
        self._errors.seek(0, 2)
        self._errors.seek(max(self._errors.tell() - _REASON_BYTES, 0))
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return lines[-1].strip()[:300] if lines else f"exit code {self._process.returncode}"
