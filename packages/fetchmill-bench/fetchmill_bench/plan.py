"""Which runs there are, in which order, and how long they take."""

from dataclasses import dataclass

from fetchmill_bench.cases import START_SECONDS, Case, usual_cases
from fetchmill_bench.contender_table import BUCKETS, Contender
from fetchmill_bench.options import BenchOptions
from fetchmill_bench.scenarios import DELAY, MEAN_SECONDS, SITE_TIMEOUT, Scenario
from fetchmill_bench.sweeps import published_cases

WARM_UP_SECONDS = 0.5
# Starting and ending a contender once more, for its warm-up.
_WARM_UP_AROUND = 1.0
# What a site waits in the mean, in seconds: a fifth of them never answers.
_MEAN_OF_SITES = SITE_TIMEOUT / 5
# Objects of a bucket that a way reads in a second, about.
_OBJECTS_PER_SECOND = 1000.0


@dataclass(frozen=True, kw_only=True)
class Run:
    """One contender, once.

    Args:
        scenario: the scenario.
        contender: who runs.
        requests: how many objects or sites are asked for.
        limit: requests in flight.
        seconds: how long it runs at most.
        repeat: which time this is, from 1.
        format: what becomes of bodies.
        sites: how many sites; None where there is one server.
        store: the server of buckets, as `BenchOptions` has it.
    """

    scenario: Scenario
    contender: Contender
    requests: int
    limit: int
    seconds: float
    repeat: int
    format: str
    sites: int | None = None
    store: str = "replay"

    @property
    def expected_seconds(self) -> float:
        """How long it takes, as far as that is known before."""
        if self.scenario.name == "billion":
            return self.seconds
        if self.scenario.name == BUCKETS:
            return min(self.seconds, self.requests / _OBJECTS_PER_SECOND)
        # Little's law; and the last of those in flight may wait longest.
        mean, longest = (MEAN_SECONDS, DELAY[1]) if self.scenario.name == "slow" else (_MEAN_OF_SITES, SITE_TIMEOUT)
        return min(self.seconds, self.requests * mean / min(self.limit, self.requests) + longest)


def plan_runs(options: BenchOptions) -> list[Run]:
    """All runs; contenders take turns when they run more than once."""
    find = published_cases if options.published else usual_cases
    return [_run(case, options, repeat) for repeat in range(1, options.repeat + 1) for case in find(options)]


def duration(runs: list[Run], *, warm_up: bool) -> tuple[float, float]:
    """Seconds that they are expected to take, and those that they take at most if none hangs."""
    each = START_SECONDS + (WARM_UP_SECONDS + _WARM_UP_AROUND if warm_up else 0.0)
    around = len(runs) * each
    return around + sum(run.expected_seconds for run in runs), around + sum(run.seconds for run in runs)


def _run(case: Case, options: BenchOptions, repeat: int) -> Run:
    fixed = case.contender.fixed
    return Run(
        scenario=case.scenario,
        contender=case.contender,
        requests=case.requests,
        limit=case.limit if fixed is None else fixed or case.requests,
        seconds=options.seconds or case.seconds,
        repeat=repeat,
        format=case.format,
        sites=case.requests if case.scenario.name == "sites" else None,
        store=options.store,
    )
