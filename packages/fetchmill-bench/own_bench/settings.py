"""What all scenarios are told."""

from dataclasses import dataclass
from pathlib import Path

from own_bench.processes import Cores

SIZE = 100


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How to measure.

    Args:
        rounds: runs of each client, which take turns.
        seconds: about how long a run lasts.
        connections: requests in flight of the comparison with wrk.
        levels: requests in flight of the series.
        replies: of a run that streams them into Python.
        files: objects of a run that stores files.
        mounts: whether files go to a fresh file system in an image; else to a folder.
        folder: where all this happens: on the real disk.
        cores: who runs where.
        seed: of the server.
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
        """Objects of a run that lasts as long as it should."""
        return max(1000, round(rate * self.seconds / 1000) * 1000)

    def synthetic(self, count: int) -> tuple[str, ...]:
        """Arguments of a server."""
        return ("--synthetic", str(count), "--size", str(SIZE), "--port", "0", "--seed", str(self.seed))
