"""Runs rounds until the time is up, and sums up their results."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from fetchmill._torture.rounds import Round, run_round
from fetchmill._torture.sources import FaultyServer, GivenSource, Source

if TYPE_CHECKING:
    from fetchmill._torture.disturbances import Kind


@dataclass(frozen=True)
class TorturePlan:
    """A plan of the jobs to torture, with a time limit.

    Args:
        folder: an existing folder for the destinations.
        formats: the formats of the rounds, used in turn.
        seed: the seed of all random draws.
        seconds: time after which no new round starts.
        only: number of the only round to run; None for all rounds.
        source: the user's source; None for a server in this process.
        arguments: options for `fetchmill get` with that source.
        can_cut: whether the kernel allows network cuts.
    """

    folder: Path
    formats: Sequence[str]
    seed: int
    seconds: float
    only: int | None = None
    source: str | None = None
    arguments: Sequence[str] = ()
    can_cut: bool = True


@dataclass
class Verdict:
    """The sums over all rounds. `fetched_again` is None for the user's source."""

    rounds: int = 0
    objects: int = 0
    lost: int = 0
    doubled: int = 0
    wrong: int = 0
    other_problems: int = 0
    server_faults: int = 0
    fetched_again: int | None = None
    disturbances: "Counter[Kind]" = field(default_factory=Counter)

    @property
    def is_clean(self) -> bool:
        """Whether no round has a fault."""
        return not (self.lost or self.doubled or self.wrong or self.other_problems)

    def add(self, ended: Round) -> None:
        """Add a round to the sums."""
        self.rounds += 1
        self.objects += ended.objects
        self.lost += ended.found.lost
        self.doubled += ended.found.doubled
        self.wrong += ended.found.wrong
        self.other_problems += len(ended.found.problems)
        self.server_faults += ended.server_faults
        self.disturbances.update(disturbance.kind for disturbance in ended.disturbances)
        if ended.fetched_again is not None:
            self.fetched_again = (self.fetched_again or 0) + ended.fetched_again


def torture(plan: TorturePlan, on_round: Callable[[Round], None]) -> Verdict:
    """Run the rounds of a plan, at least one.

    Args:
        plan: the plan.
        on_round: called with each finished round.

    Raises:
        UsageError: a source's undisturbed job does not finish, or stores nothing.
        UnsupportedError: this machine cannot trace processes.
        StorageError: the disk that holds the folder is full.
    """
    source: Source = FaultyServer()
    if plan.source is not None:
        source = GivenSource(plan.folder, plan.source, plan.arguments)
    verdict = Verdict()
    for number in _numbers(plan):
        format = plan.formats[(number - 1) % len(plan.formats)]
        ended = run_round(number, format, source, plan.folder, plan.seed, can_cut=plan.can_cut)
        verdict.add(ended)
        on_round(ended)
    return verdict


def _numbers(plan: TorturePlan) -> Iterator[int]:
    if plan.only is not None:
        yield plan.only
        return
    ends_at = time.monotonic() + plan.seconds
    for number in count(1):
        yield number
        if time.monotonic() >= ends_at:
            return
