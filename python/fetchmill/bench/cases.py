"""What is measured when nobody asks for more: a scenario with its own counts."""

from collections.abc import Iterator
from dataclasses import dataclass

from fetchmill.bench.contestants import TABLE, Contestant, own
from fetchmill.bench.options import BenchOptions
from fetchmill.bench.scenarios import SCENARIOS, Scenario

# Starting and ending a server and a contender, besides what they run.
START_SECONDS = 1.0
# `fetchmill bench` without arguments is over within two minutes, on a busy machine too.
_ALL_SECONDS = 100.0


@dataclass(frozen=True)
class Case:
    """What a contender is measured with.

    Args:
        scenario: the scenario.
        contestant: who runs.
        requests: how many objects or sites are asked for.
        limit: requests in flight, if the way has such a number.
        seconds: how long it runs at most.
        format: what becomes of bodies.
    """

    scenario: Scenario
    contestant: Contestant
    requests: int
    limit: int
    seconds: float
    format: str


def chosen(options: BenchOptions, scenario: Scenario) -> list[Contestant]:
    """Those of the scenario, or those that were named; the user's own at the end."""
    if options.only is not None:
        named = [contestant for contestant in TABLE if contestant.name in options.only]
    else:
        named = [contestant for contestant in TABLE if scenario.name in contestant.scenarios]
    return named + [own(command) for command in options.contender]


def usual_cases(options: BenchOptions) -> Iterator[Case]:
    """The scenario with its own counts, or the one that was asked for."""
    scenario = SCENARIOS[options.scenario or "billion"]
    contestants = chosen(options, scenario)
    seconds = _seconds(scenario, contestants, full=options.full)
    counts = scenario.full_counts if options.full else scenario.counts
    for count in (options.count,) if options.count else counts:
        for contestant in contestants:
            requests = count
            if not options.count and (contestant.starts_from_urls or options.url):
                requests = min(count, scenario.urls)
            for limit in _limits(options, scenario, contestant):
                yield Case(scenario, contestant, requests, limit, seconds, options.format)


def _seconds(scenario: Scenario, contestants: list[Contestant], *, full: bool) -> float:
    if full:
        return scenario.full_seconds
    if scenario.name != "billion":
        return scenario.seconds
    runs = sum(max(1, len(contestant.limits)) for contestant in contestants)
    return max(1.0, min(scenario.seconds, _ALL_SECONDS / max(1, runs) - START_SECONDS))


def _limits(options: BenchOptions, scenario: Scenario, contestant: Contestant) -> tuple[int, ...]:
    if options.limit is not None:
        return (options.limit,)
    if options.full and contestant.fixed is None:
        return scenario.full_limits
    return contestant.limits if contestant.limits and scenario.name == "billion" else (scenario.limit,)
