"""One run of a client, and the summary of several runs."""

import statistics
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

MICRO = 1e6


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A run.

    Args:
        client: name of the client.
        objects: number of received replies, or of created files.
        seconds: duration as reported by the client, without its start-up.
        wall: time from the start of the client to its end.
        user: user CPU seconds of the whole client; for a streaming client in Python, those of its loop only.
        system: system CPU seconds, counted in the same way.
        server: CPU seconds of the server during the run.
        peak_mib: peak resident memory of the client.
    """

    client: str
    objects: int
    seconds: float
    wall: float
    user: float
    system: float
    server: float
    peak_mib: float

    @property
    def cpu_us(self) -> float:
        """The client's CPU time per object, in microseconds."""
        return MICRO * (self.user + self.system) / self.objects

    @property
    def user_us(self) -> float:
        """The user part of `cpu_us`."""
        return MICRO * self.user / self.objects

    @property
    def system_us(self) -> float:
        """The system part of `cpu_us`."""
        return MICRO * self.system / self.objects

    @property
    def server_us(self) -> float:
        """The server's CPU time per object, in microseconds."""
        return MICRO * self.server / self.objects

    @property
    def rate(self) -> float:
        """The rate in objects/s."""
        return self.objects / self.seconds

    def to_dict(self) -> dict[str, Any]:
        """Returns the run for JSON."""
        return {**asdict(self), "cpu_us": self.cpu_us, "server_us": self.server_us, "rate": self.rate}


def summary(runs: Iterable[Measured]) -> dict[str, float]:
    """Returns the medians of one client's runs."""
    listed = list(runs)
    values: dict[str, Callable[[Measured], float]] = {
        "rate": lambda run: run.rate,
        "cpu_us": lambda run: run.cpu_us,
        "user_us": lambda run: run.user_us,
        "system_us": lambda run: run.system_us,
        "server_us": lambda run: run.server_us,
        "peak_mib": lambda run: run.peak_mib,
    }
    return {name: statistics.median(map(value, listed)) for name, value in values.items()} | {
        "runs": len(listed),
        "rate_low": min(run.rate for run in listed),
        "rate_high": max(run.rate for run in listed),
        "cpu_us_low": min(run.cpu_us for run in listed),
        "cpu_us_high": max(run.cpu_us for run in listed),
    }


@dataclass(frozen=True)
class Bar:
    """A ratio and its limit, either a maximum or a minimum."""

    name: str
    ratio: float
    at_most: float | None = None
    at_least: float | None = None

    @property
    def is_met(self) -> bool:
        """Whether the ratio is within the limit."""
        return (self.at_most is None or self.ratio <= self.at_most) and (
            self.at_least is None or self.ratio >= self.at_least
        )

    def to_dict(self) -> dict[str, Any]:
        """Returns the bar for JSON."""
        return {**asdict(self), "is_met": self.is_met}


def median_ratio(pairs: Iterable[tuple[float, float]]) -> float:
    """Returns the median of the rounds' ratios. Both sides of a ratio were measured one right after the other."""
    return statistics.median(above / below for above, below in pairs)
