"""Settings of all scenarios."""

from dataclasses import dataclass
from pathlib import Path

from own_bench.processes import Cores

SIZE = 100


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of the measurements.

    Args:
        rounds: runs of each client. The clients take turns.
        seconds: approximate duration of a run.
        connections: requests in flight of the comparison with wrk.
        levels: requests in flight of the series.
        replies: replies of a run that streams them into Python.
        files: objects of a run that stores files.
        mounts: whether files go to a fresh file system in an image. Otherwise they go to a folder.
        folder: folder of all measurements, on the real disk.
        cores: cores of the processes.
        seed: seed of the server.
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
        """Returns the arguments of a server."""
        return ("--synthetic", str(count), "--size", str(SIZE), "--port", "0", "--seed", str(self.seed))
