"""Measures the peak anonymous memory of a command, which excludes mapped files."""

import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

EVERY_SECONDS = 0.01


def anonymous_peak(command: Sequence[str]) -> tuple[int, float]:
    """Runs a command. Returns its exit code, and the highest peak of anonymous memory among its processes, in MiB."""
    client = subprocess.Popen(command)
    most = 0
    while client.poll() is None:
        for process in _processes(client.pid):
            with suppress(OSError):
                status_text = Path(f"/proc/{process}/status").read_text("ascii", "replace")
                most = max([most, *(int(line.split()[1]) for line in status_text.splitlines() if "RssAnon" in line)])
        time.sleep(EVERY_SECONDS)
    return client.returncode, most / 1024


def _processes(parent: int) -> list[int]:
    """Yields a process and all its descendants."""
    found = [parent]
    for process in found:
        with suppress(OSError):
            for children in Path(f"/proc/{process}/task").glob("*/children"):
                found += map(int, children.read_text().split())
    return found
