"""The samples of a job over all its runs, and the page that shows them."""

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from fetchmill._dashboard.report_page import report_page
from fetchmill.errors import StorageError

# Samples of one run are contiguous. A gap longer than this share of a sample's interval separates two runs.
_PAUSE = 0.25
# Bottlenecks below this share of the time are not shown.
_SHARE_MIN = 0.005


@dataclass(frozen=True, kw_only=True)
class History(ABC):
    """The samples of a job.

    Args:
        samples: at most 720 samples, one per second. If the job ran for more than twelve minutes, samples cover longer
            intervals. The list is empty if an older release started the job. Each sample contains:

            - `time`: end of the interval, in seconds since 1970 UTC; `interval`: its length in seconds.
            - Counts within the interval: `listed`, `settled`, `fetched`, `absent`, `failed`, `bytes`, `attempts`, and
              `failures` by kind.
            - Values at the end of the interval: `in_flight`, `concurrency` and `waiting`.
            - `latency` in seconds (`p50`, `p90`, `p99`, `max`), or None.
            - `limited_by`: the kind of bottleneck, or None.
    """

    samples: Sequence[Mapping[str, Any]]

    @property
    def seconds(self) -> float:
        """Total duration of all runs in seconds."""
        return sum((float(sample["interval"]) for sample in self.samples), 0.0)

    @property
    def attempts(self) -> int:
        """Number of requests in all runs."""
        return sum(sample["attempts"] for sample in self.samples)

    @property
    def runs(self) -> int:
        """Number of runs in the samples. A run and its immediate resumption can count as one."""
        pauses = (later["time"] - later["interval"] - sooner["time"] for sooner, later in pairwise(self.samples))
        breaks = sum(
            pause > _PAUSE * sample["interval"] for pause, sample in zip(pauses, self.samples[1:], strict=True)
        )
        return breaks + 1 if self.samples else 0

    @property
    def limits(self) -> dict[str, float]:
        """Share of the time spent on each bottleneck, largest first. Time without a known bottleneck is ignored."""
        seconds: dict[str, float] = {}
        for sample in self.samples:
            if sample["limited_by"]:
                seconds[sample["limited_by"]] = seconds.get(sample["limited_by"], 0.0) + sample["interval"]
        known = sum(seconds.values())
        return {kind: seconds[kind] / known for kind in sorted(seconds, key=lambda kind: -seconds[kind])}

    @abstractmethod
    def status_values(self) -> dict[str, Any]:
        """Return the status as a dict for JSON."""

    @abstractmethod
    def snapshot(self) -> dict[str, Any]:
        """Return the values that a page shows in addition to the samples."""

    def to_dict(self) -> dict[str, Any]:
        """Return a dict for JSON, with times in ISO 8601 UTC."""
        own = {"seconds": self.seconds, "attempts": self.attempts, "runs": self.runs, "limits": self.limits}
        return {"status": self.status_values(), **own, "samples": list(self.samples)}

    def to_html(self) -> str:
        """Return an HTML page with charts. The page is self-contained and loads nothing."""
        of_samples = {
            "command": "report",
            "attempts": self.attempts,
            "seconds": self.seconds,
            "waits": [],
            "limited_by": {"text": describe_limits(self.limits)} if self.limits else None,
        }
        return report_page(self.snapshot() | of_samples, self.samples)


def describe_limits(limits: Mapping[str, float]) -> str:
    """Return the shares of the time as text, such as `listing 83 %, server 17 %`."""
    return ", ".join(f"{kind} {share * 100:.0f} %" for kind, share in limits.items() if share >= _SHARE_MIN)


def write_page(found: History, file: str | os.PathLike[str]) -> None:
    """Write a history's page to a file. The file is replaced atomically.

    Raises:
        StorageError: the file cannot be written.
    """
    path = Path(file)
    part = path.with_name(f".{path.name}.part")
    try:
        part.write_text(found.to_html(), encoding="utf-8")
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise StorageError(f"cannot write {path}: {error.strerror or error}") from None
