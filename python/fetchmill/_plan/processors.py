"""How busy the processors are that this process may use: what is left of them bounds what storing may take."""

import os
import time
from pathlib import Path
from typing import NamedTuple

_STAT = Path("/proc/stat")
# user, nice, system, irq, softirq, steal: all but idle and waiting for disks.
_BUSY = (0, 1, 2, 5, 6, 7)


class Processors(NamedTuple):
    """At a moment."""

    clock: float
    busy: float


def count() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0))


def busy_seconds() -> Processors:
    """Seconds that they have worked since the machine was started, for whomever, the server of a test included."""
    own = {f"cpu{number}" for number in os.sched_getaffinity(0)}
    busy = 0
    for line in _STAT.read_text().splitlines():
        name, *fields = line.split()
        if name in own:
            busy += sum(int(fields[index]) for index in _BUSY)
    return Processors(time.monotonic(), busy / os.sysconf("SC_CLK_TCK"))
