"""The scenarios: what is asked for, and which server answers."""

from dataclasses import dataclass
from typing import Any

# Delay of a reply of `slow`, in whole seconds.
DELAY = (0.0, 3.0)
MEAN_SECONDS = sum(DELAY) / 2
# Of `slow`, what is left out at both ends when the steady rate is told: as long as a reply may take.
RAMP_SECONDS = DELAY[1]
# Bytes of an object.
SIZE = 100
# Of `sites`: for a connection, and for each wait for bytes.
SITE_TIMEOUT = 3.0


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """One of them.

    Args:
        name: its name.
        what: what it is, in a line.
        limit: requests in flight.
        seconds: how long a contender runs at most.
        counts: how many objects are asked for, or sites; a run for each.
        urls: how many objects, of the ways that start from a list of URLs.
        serve: how the file server differs from its defaults.
        full_counts: with `full`, the counts instead of those.
        full_limits: with `full`, requests in flight: each with each count.
        full_seconds: with `full`, how long a contender runs at most.
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
            # More than any way fetches in the time; what starts from URLs may make them all tasks first.
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
            what="hosts of every behaviour, each asked once over https",
            limit=100,
            seconds=20.0,
            counts=(10, 100, 500, 1000),
            urls=1000,
            serve={},
        ),
        Scenario(
            name="s3",
            what="all objects of an S3 bucket, of 100 bytes each: listed, signed for, read",
            limit=50,
            seconds=10.0,
            counts=(100, 1000, 30_000),
            urls=30_000,
            serve={},
            full_counts=(100, 1000, 30_000, 100_000),
            full_limits=(10, 50, 100, 200),
            # A hundred thousand at a thousand a second, and some more.
            full_seconds=150.0,
        ),
    )
}


def ceiling(limit: int) -> float:
    """Requests a second that Little's law allows in `slow`: the limit over the mean delay."""
    return limit / MEAN_SECONDS
