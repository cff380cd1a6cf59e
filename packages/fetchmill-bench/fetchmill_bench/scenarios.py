"""The scenarios, which define the requests and the server that answers them."""

from dataclasses import dataclass
from typing import Any

# Minimum and maximum delay of a reply in `slow`, in whole seconds.
DELAY = (0.0, 3.0)
MEAN_SECONDS = sum(DELAY) / 2
# Time at the start and the end of `slow` that the steady rate excludes: the longest delay of a reply.
RAMP_SECONDS = DELAY[1]
# Size of an object in bytes.
SIZE = 100
# Timeout in `sites`, both for a connection and for each wait for bytes.
SITE_TIMEOUT = 3.0


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A scenario.

    Args:
        name: the name of the scenario.
        what: a description on one line.
        limit: number of requests in flight.
        seconds: maximum duration of a contender in seconds.
        counts: numbers of requested objects or sites. There is a run for each number.
        urls: number of objects for ways that start from a list of URLs.
        serve: options for the file server that differ from the defaults.
        full_counts: with `full`, these replace `counts`.
        full_limits: numbers of requests in flight with `full`. Each is combined with each count.
        full_seconds: maximum duration of a contender with `full`.
    """

    name: str
    what: str
    limit: int
    seconds: float
    counts: tuple[int, ...]
    urls: int
    serve: dict[str, Any]
    full_counts: tuple[int, ...] = ()
    full_limits: tuple[int, ...] = ()
    full_seconds: float = 0.0


SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        Scenario(
            name="billion",
            what="objects of 100 bytes from one server, without delay",
            limit=64,
            seconds=5.0,
            # More than any way can fetch in the available time. `urls` is lower, because some ways first create a task
            # per URL.
            counts=(10_000_000,),
            urls=10_000,
            serve={},
        ),
        Scenario(
            name="slow",
            what="one server that waits 0, 1, 2 or 3 seconds before each reply",
            limit=1000,
            seconds=15.0,
            counts=(10_000,),
            urls=10_000,
            serve={"delay": DELAY, "delay_steps": True},
        ),
        Scenario(
            name="sites",
            what="hosts with every kind of behaviour, one https request each",
            limit=100,
            seconds=20.0,
            counts=(10, 100, 500, 1000),
            urls=1000,
            serve={},
        ),
        Scenario(
            name="s3",
            what="all 100-byte objects of an S3 bucket: listed, signed and read",
            limit=50,
            seconds=10.0,
            counts=(100, 1000, 30_000),
            urls=30_000,
            serve={},
            full_counts=(100, 1000, 30_000, 100_000),
            full_limits=(10, 50, 100, 200),
            # Enough for 100,000 requests at 1,000 per second, with some slack.
            full_seconds=150.0,
        ),
    )
}


def ceiling(limit: int) -> float:
    """Returns the maximum requests/s in `slow`, which by Little's law is the limit divided by the mean delay."""
    return limit / MEAN_SECONDS
