"""Runs a command, and records its worker's requests in flight: `sampled_worker.py FILE ARGUMENTS...`.

Each line of the file has a time (seconds since 1970) and the number of requests in flight.
"""

import sys
import threading
import time
from pathlib import Path
from unittest import mock

from fetchmill.__main__ import main
from fetchmill._shared.attempts import RunningAttempts
from fetchmill.errors import FetchmillError

STEP_SECONDS = 0.02


def sample(attempts: RunningAttempts, path: Path) -> None:
    """Samples a worker's attempts until the process ends."""
    with path.open("w", buffering=1) as file:
        while True:
            in_flight = 0
            for attempt in attempts.current():
                try:
                    in_flight += attempt.running.snapshot()["in_flight"]
                except FetchmillError:
                    continue  # it has just ended
            file.write(f"{time.time():.3f} {in_flight}\n")
            time.sleep(STEP_SECONDS)


class SampledAttempts(RunningAttempts):
    """Attempts of a worker that are sampled."""

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        threading.Thread(target=sample, args=(self, PATH), daemon=True).start()


def longest_idle(path: Path, begin: float, end: float) -> float:
    """Returns the longest time in seconds, between two times, in which a sampled worker had no request in flight."""
    longest, since = 0.0, begin
    for line in path.read_text().splitlines():
        at, in_flight = float(line.split()[0]), int(line.split()[1])
        if begin < at < end and in_flight:
            longest, since = max(longest, at - since), at
    return max(longest, end - since)


if __name__ == "__main__":
    PATH = Path(sys.argv.pop(1))
    mock.patch("fetchmill._shared.worker.RunningAttempts", SampledAttempts).start()
    main()
