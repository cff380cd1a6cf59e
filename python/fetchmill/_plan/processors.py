"""Measures how busy this process's processors are. Their idle share limits the speed of storing."""

import os
import time
from pathlib import Path
from typing import NamedTuple

_STAT = Path("/proc/stat")
# user, nice, system, irq, softirq, steal: all states except idle and waiting for disks.
_BUSY = (0, 1, 2, 5, 6, 7)


class Processors(NamedTuple):
    """Processor use up to a point in time."""

    clock: float
    busy: float


def count() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0))


def busy_seconds() -> Processors:
    """Return how many seconds this process's processors have been busy since the machine was started.

    This includes the work of all other processes, such as a test server.
    """
    own = {f"cpu{number}" for number in os.sched_getaffinity(0)}
    busy = 0
    for line in _STAT.read_text().splitlines():
        name, *fields = line.split()
        if name in own:
            busy += sum(int(fields[index]) for index in _BUSY)
    return Processors(time.monotonic(), busy / os.sysconf("SC_CLK_TCK"))
