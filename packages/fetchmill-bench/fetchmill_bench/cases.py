"""The default measurements, each with its scenario's own numbers of requests."""

from collections.abc import Iterator
from dataclasses import dataclass

from fetchmill_bench.contender_table import CONTENDERS, Contender, user_program
from fetchmill_bench.options import BenchOptions
from fetchmill_bench.scenarios import SCENARIOS, Scenario

# Time for starting and ending a server and a contender, on top of the run itself.
START_SECONDS = 1.0
# Chosen so that `fetchmill bench` without arguments ends within two minutes, even on a busy machine.
_ALL_SECONDS = 100.0


@dataclass(frozen=True)
class Case:
    """One measurement of a contender.

    Args:
        scenario: the scenario.
        contender: the contender to run.
        requests: number of requested objects or sites.
        limit: number of requests in flight, if it can be configured.
        seconds: maximum duration in seconds.
        format: how bodies are stored.
    """

    scenario: Scenario
    contender: Contender
    requests: int
    limit: int
    seconds: float
    format: str


def select_contenders(options: BenchOptions, scenario: Scenario) -> list[Contender]:
    """Returns the named contenders, or else those of the scenario, followed by the user's own."""
    if options.only is not None:
        named = [contender for contender in CONTENDERS if contender.name in options.only]
    else:
        named = [contender for contender in CONTENDERS if scenario.name in contender.scenarios]
    return named + [user_program(command) for command in options.contender]


def usual_cases(options: BenchOptions) -> Iterator[Case]:
    """Yields the cases of a scenario, for its own counts or for the requested count."""
    scenario = SCENARIOS[options.scenario or "billion"]
    contenders = select_contenders(options, scenario)
    seconds = _seconds(scenario, contenders, full=options.full)
    counts = scenario.full_counts if options.full else scenario.counts
    for count in (options.count,) if options.count else counts:
        for contender in contenders:
            requests = count
            if not options.count and (contender.starts_from_urls or options.url):
                requests = min(count, scenario.urls)
            for limit in _limits(options, scenario, contender):
                yield Case(scenario, contender, requests, limit, seconds, options.format)


def _seconds(scenario: Scenario, contenders: list[Contender], *, full: bool) -> float:
    if full:
        return scenario.full_seconds
    if scenario.name != "billion":
        return scenario.seconds
    runs = sum(max(1, len(contender.limits)) for contender in contenders)
    return max(1.0, min(scenario.seconds, _ALL_SECONDS / max(1, runs) - START_SECONDS))


def _limits(options: BenchOptions, scenario: Scenario, contender: Contender) -> tuple[int, ...]:
    if options.limit is not None:
        return (options.limit,)
    if options.full and contender.fixed is None:
        return scenario.full_limits
    return contender.limits if contender.limits and scenario.name == "billion" else (scenario.limit,)
