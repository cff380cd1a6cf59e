"""Determines the runs, their order and their duration."""

from dataclasses import dataclass

from fetchmill_bench.cases import START_SECONDS, Case, usual_cases
from fetchmill_bench.contender_table import BUCKETS, Contender
from fetchmill_bench.options import BenchOptions
from fetchmill_bench.scenarios import DELAY, MEAN_SECONDS, SITE_TIMEOUT, Scenario
from fetchmill_bench.sweeps import published_cases

WARM_UP_SECONDS = 0.5
# Time for starting and ending a contender during its warm-up.
_WARM_UP_AROUND = 1.0
# Mean waiting time for a site in seconds. It is long because a fifth of the sites never answer.
_MEAN_OF_SITES = SITE_TIMEOUT / 5
# Approximate number of objects that a way reads from a bucket per second.
_OBJECTS_PER_SECOND = 1000.0


@dataclass(frozen=True, kw_only=True)
class Run:
    """One run of a contender.

    Args:
        scenario: the scenario.
        contender: the contender to run.
        requests: number of requested objects or sites.
        limit: number of requests in flight.
        seconds: maximum duration in seconds.
        repeat: number of the repeat, from 1.
        format: how bodies are stored.
        sites: number of sites; None if there is only one server.
        store: the server for buckets, as in `BenchOptions`.
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
        """Expected duration in seconds, as far as it is known in advance."""
        if self.scenario.name == "billion":
            return self.seconds
        if self.scenario.name == BUCKETS:
            return min(self.seconds, self.requests / _OBJECTS_PER_SECOND)
        # Little's law, plus the longest possible wait of the last request in flight.
        mean, longest = (MEAN_SECONDS, DELAY[1]) if self.scenario.name == "slow" else (_MEAN_OF_SITES, SITE_TIMEOUT)
        return min(self.seconds, self.requests * mean / min(self.limit, self.requests) + longest)


def plan_runs(options: BenchOptions) -> list[Run]:
    """Returns all runs. Contenders take turns if they run more than once."""
    find = published_cases if options.published else usual_cases
    return [_run(case, options, repeat) for repeat in range(1, options.repeat + 1) for case in find(options)]


def duration(runs: list[Run], *, warm_up: bool) -> tuple[float, float]:
    """Returns the expected duration of the runs in seconds, and the maximum duration if no run hangs."""
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
