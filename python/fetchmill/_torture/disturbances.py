"""What disturbs a run of a job, drawn by a seed."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Kind = Literal["kill", "full-disk", "cut"]

# Calls that make something durable, or change what a folder has.
DURABLE = (
    *("fsync", "fdatasync", "syncfs", "ftruncate", "rename", "renameat", "renameat2"),
    *("link", "linkat", "unlink", "unlinkat", "mkdir", "mkdirat"),
)
# Calls that need room on the disk.
WRITES = ("write", "pwrite64", "writev", "pwritev", "fallocate")

# Seconds without a network.
_CUT_SECONDS = (0.1, 1.5)
# How often each kind comes.
_SHARES: dict[Kind, int] = {"kill": 6, "full-disk": 2, "cut": 2}
_RUNS = (1, 4)
# Share of the disturbances that come in the first quarter: a run that resumes has fewer calls left.
_EARLY = 0.5


@dataclass(frozen=True)
class Disturbance:
    """One run is disturbed once.

    Args:
        kind: `kill` sends SIGKILL; `full-disk` lets everything that is written to the destination from then on fail
            with ENOSPC; `cut` ends all connections, and refuses new ones for a while.
        call: before which durable call of the run, from 1.
        seconds: of a cut.
    """

    kind: Kind
    call: int
    seconds: float = 0.0

    def __str__(self) -> str:
        if self.kind == "cut":
            return f"network cut for {self.seconds:.1f} s at call {self.call}"
        return f"{'kill' if self.kind == 'kill' else 'full disk'} at call {self.call}"


def draw(seed: str, calls: int) -> Sequence[Disturbance]:
    """Draws the disturbed runs of a round.

    Args:
        seed: the same one draws the same.
        calls: how many durable calls an undisturbed run makes.

    Returns:
        One to four; an undisturbed run follows them.
    """
    rng = random.Random(seed)  # noqa: S311 - a seed must repeat it
    kinds = rng.choices(list(_SHARES), weights=list(_SHARES.values()), k=rng.randint(*_RUNS))
    return [
        Disturbance(kind, _draw_call(rng, calls), rng.uniform(*_CUT_SECONDS) if kind == "cut" else 0.0)
        for kind in kinds
    ]


def _draw_call(rng: random.Random, calls: int) -> int:
    last = calls // 4 if rng.random() < _EARLY else calls
    return rng.randint(1, max(1, last))
