"""The measurements of the published texts, with the same counts and numbers of requests in flight."""

from collections.abc import Iterator

from fetchmill_bench.cases import Case, select_contenders
from fetchmill_bench.contender_table import BUCKETS, Contender
from fetchmill_bench.options import BenchOptions
from fetchmill_bench.scenarios import SCENARIOS, Scenario, ceiling

# A: as in the text, the rate is extrapolated, so a run need not finish.
_OBJECTS = 100_000
_OBJECTS_FULL = 1_000_000
_OBJECTS_SECONDS = 20.0
_LIMITS = (1, 10, 50, 100, 1000)
_LIMITS_SECONDS = 5.0
# B: the numbers of objects and the numbers of requests in flight.
_BUCKETS = ((100_000, 50), (30_000, 50), (100, 10), (100, 100))
_BUCKETS_SECONDS = 20.0
_BUCKETS_SECONDS_FULL = 600.0
# C and D, at limit 1000. `_DELAYED_ALONE` contains the counts for ways that make one request at a time.
_DELAYED = (10, 100, 10_000, 100_000)
_DELAYED_FULL = 1_000_000
_DELAYED_ALONE = (10, 100)
# Twice the time that Little's law predicts, plus the time to create all tasks.
_SLACK, _SLACK_SECONDS = 2.0, 30.0
# E: ways that check one site at a time need three seconds for each dead site.
_SITES_SECONDS = 120.0
_SITES_SECONDS_FULL = 900.0


def published_cases(options: BenchOptions) -> Iterator[Case]:
    """Yields the counts and limits of the texts in table order, for one scenario or for all of them."""
    sweeps = {"billion": _objects, BUCKETS: _buckets, "slow": _slow, "sites": _sites}
    for name, sweep in sweeps.items():
        if options.scenario in (None, name):
            scenario = SCENARIOS[name]
            for contender in select_contenders(options, scenario):
                if contender.kind != "own" and name not in contender.scenarios:
                    continue
                yield from sweep(scenario, contender, full=options.full)


def _objects(scenario: Scenario, contender: Contender, *, full: bool) -> Iterator[Case]:
    """Yields table A, then short runs at several limits. As in the text, each object is stored as a file."""
    count = _OBJECTS_FULL if full else _OBJECTS
    limits = contender.limits or (scenario.limit,)
    for limit in limits:
        yield Case(scenario, contender, count, limit, _OBJECTS_SECONDS, "files")
    if contender.fixed is None:
        for limit in _LIMITS:
            if limit not in limits:
                yield Case(scenario, contender, count, limit, _LIMITS_SECONDS, "files")


def _buckets(scenario: Scenario, contender: Contender, *, full: bool) -> Iterator[Case]:
    """Yields table B."""
    seconds = _BUCKETS_SECONDS_FULL if full else _BUCKETS_SECONDS
    for count, limit in _BUCKETS:
        yield Case(scenario, contender, count, limit, seconds, "null")


def _slow(scenario: Scenario, contender: Contender, *, full: bool) -> Iterator[Case]:
    """Yields tables C and D."""
    is_alone = contender.fixed is not None
    for count in _DELAYED_ALONE if is_alone else (*_DELAYED, *((_DELAYED_FULL,) if full else ())):
        limit = contender.fixed or scenario.limit
        seconds = _SLACK * count / ceiling(limit) + _SLACK_SECONDS
        yield Case(scenario, contender, count, limit, seconds, "null")


def _sites(scenario: Scenario, contender: Contender, *, full: bool) -> Iterator[Case]:
    """Yields table E."""
    for count in scenario.counts:
        yield Case(scenario, contender, count, scenario.limit, _SITES_SECONDS_FULL if full else _SITES_SECONDS, "null")
