"""Disturbances of a job's runs, drawn from a seed."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Kind = Literal["kill", "full-disk", "cut"]

# Calls that make something durable, or change the entries of a folder.
DURABLE = (
    *("fsync", "fdatasync", "syncfs", "ftruncate", "rename", "renameat", "renameat2"),
    *("link", "linkat", "unlink", "unlinkat", "mkdir", "mkdirat"),
)
# Calls that need disk space.
WRITES = ("write", "pwrite64", "writev", "pwritev", "pwritev2", "fallocate", "copy_file_range")

_CUT_SECONDS = (0.1, 1.5)
# Weights of the kinds of disturbances.
_WEIGHTS: dict[Kind, int] = {"kill": 6, "full-disk": 2, "cut": 2}
_RUNS = (1, 4)
# Share of disturbances in the first quarter of the calls, because a resumed run has fewer calls left.
_EARLY = 0.5


@dataclass(frozen=True)
class Disturbance:
    """A disturbance that happens once, in one run.

    Args:
        kind: `kill` sends SIGKILL; `full-disk` makes all later writes to the destination fail with ENOSPC; `cut` ends
            all connections, and refuses new ones for a while.
        call: number of the durable call, from 1, just before which the disturbance happens.
        seconds: duration of a cut.
    """

    kind: Kind
    call: int
    seconds: float = 0.0

    def __str__(self) -> str:
        if self.kind == "cut":
            return f"network cut for {self.seconds:.1f} s at call {self.call}"
        return f"{'kill' if self.kind == 'kill' else 'full disk'} at call {self.call}"


def draw(seed: str, calls: int, *, can_cut: bool = True) -> Sequence[Disturbance]:
    """Draw the disturbed runs of a round.

    Args:
        seed: the same seed draws the same disturbances.
        calls: number of durable calls of an undisturbed run.
        can_cut: whether the kernel allows cuts. Otherwise each cut becomes a kill.

    Returns:
        One to four disturbances, one per disturbed run.
    """
    rng = random.Random(seed)  # noqa: S311 - reproducible from a seed
    kinds = rng.choices(list(_WEIGHTS), weights=list(_WEIGHTS.values()), k=rng.randint(*_RUNS))
    return [_draw_one(rng, kind if can_cut or kind != "cut" else "kill", calls) for kind in kinds]


def _draw_one(rng: random.Random, kind: Kind, calls: int) -> Disturbance:
    # Always draw three numbers, so that later draws do not depend on the kind or on `calls`.
    is_early, place, seconds = rng.random() < _EARLY, rng.random(), rng.uniform(*_CUT_SECONDS)
    call = 1 + int(place * (calls // 4 if is_early else calls))
    return Disturbance(kind, call, seconds if kind == "cut" else 0.0)
