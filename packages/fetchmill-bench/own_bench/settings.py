"""Settings for all scenarios."""

from dataclasses import dataclass
from pathlib import Path

from own_bench.processes import Cores

SIZE = 100


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings for the measurements.

    Args:
        rounds: number of runs of each client. The clients take turns.
        seconds: approximate duration of a run.
        connections: number of requests in flight in the comparison with wrk.
        levels: numbers of requests in flight to measure one after another.
        replies: number of replies in a run that streams them into Python.
        files: number of objects in a run that stores files.
        mounts: whether files are stored on a fresh file system in an image instead of in a folder.
        folder: folder for all measurements, on the real disk.
        cores: the cores that the processes may use.
        seed: the server's seed.
    """

    rounds: int
    seconds: float
    connections: int
    levels: tuple[int, ...]
    replies: int
    files: int
    mounts: bool
    folder: Path
    cores: Cores
    seed: int

    def count(self, rate: float) -> int:
        """Returns the number of objects for a run of the intended duration."""
        return max(1000, round(rate * self.seconds / 1000) * 1000)

    def synthetic(self, count: int) -> tuple[str, ...]:
        """Returns the arguments for a server."""
        return ("--synthetic", str(count), "--size", str(SIZE), "--port", "0", "--seed", str(self.seed))
