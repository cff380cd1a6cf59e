"""What the job of a destination did over time, as its journal has it: all its runs, also while one is going on."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from fetchmill._dashboard.report_page import report_page
from fetchmill._destination.status import status
from fetchmill._job.report import Status
from fetchmill._native import __version__, hide_secrets
from fetchmill._native import samples as journal_samples
from fetchmill.errors import StorageError

# Samples of one run follow each other; between those of two is at least this part of a sample's own time.
_PAUSE = 0.25
# Of the runs' time, as told.
_SHARE_MIN = 0.005


@dataclass(frozen=True, kw_only=True)
class JobHistory:
    """All runs of a job.

    Args:
        status: its ledger.
        samples: what it did in each second, or in longer times where it ran for more than twelve minutes: `time` (of
            the end, seconds since 1970 UTC), `interval` (seconds), counts within it (`listed`, `settled`, `fetched`,
            `absent`, `failed`, `bytes`, `attempts`, `failures` by kind), at its end `in_flight`, `concurrency` and
            `waiting`, `latency` (seconds: `p50`, `p90`, `p99`, `max`, or None) and `limited_by` (a kind, or None). At
            most 720; empty for a job of an older release.
    """

    status: Status
    samples: Sequence[Mapping[str, Any]]

    @property
    def seconds(self) -> float:
        """How long the job ran, all runs together."""
        return sum((float(sample["interval"]) for sample in self.samples), 0.0)

    @property
    def attempts(self) -> int:
        """Requests of all runs."""
        return sum(sample["attempts"] for sample in self.samples)

    @property
    def runs(self) -> int:
        """How many runs the samples are of; one that was resumed at once may count as the same."""
        pauses = (later["time"] - later["interval"] - sooner["time"] for sooner, later in pairwise(self.samples))
        breaks = sum(
            pause > _PAUSE * sample["interval"] for pause, sample in zip(pauses, self.samples[1:], strict=True)
        )
        return breaks + 1 if self.samples else 0

    @property
    def limits(self) -> dict[str, float]:
        """What has held the job back, and for what part of the time in which that was known; the longest first."""
        seconds: dict[str, float] = {}
        for sample in self.samples:
            if sample["limited_by"]:
                seconds[sample["limited_by"]] = seconds.get(sample["limited_by"], 0.0) + sample["interval"]
        known = sum(seconds.values())
        return {kind: seconds[kind] / known for kind in sorted(seconds, key=lambda kind: -seconds[kind])}

    def to_dict(self) -> dict[str, Any]:
        """For JSON: times are ISO 8601, UTC."""
        own = {"seconds": self.seconds, "attempts": self.attempts, "runs": self.runs, "limits": self.limits}
        return {"status": self.status.to_dict(), **own, "samples": list(self.samples)}

    def to_html(self) -> str:
        """A page with charts, in one text: it loads nothing from anywhere."""
        return report_page(self._snapshot(), self.samples)

    def _snapshot(self) -> dict[str, Any]:
        """As the page of a running job has it."""
        found = self.status
        counts = ("listed", "fetched", "absent", "failed", "skipped", "bytes")
        phase = "done" if found.finished else "fetching" if found.running else "stopped"
        return {
            **{name: getattr(found, name) for name in counts},
            "command": "report",
            "version": __version__,
            "source": hide_secrets(found.source),
            "dest": hide_secrets(found.dest),
            "phase": phase,
            "listing_done": found.listed_at is not None,
            "failures": dict(found.failures),
            "attempts": self.attempts,
            "seconds": self.seconds,
            "waits": [],
            "limited_by": {"text": describe_limits(self.limits)} if self.limits else None,
        }


def describe_limits(limits: Mapping[str, float]) -> str:
    """`listing 83 %, server 17 %`: of the time."""
    return ", ".join(f"{kind} {share * 100:.0f} %" for kind, share in limits.items() if share >= _SHARE_MIN)


def history(dest: str | os.PathLike[str], *, state: str | os.PathLike[str] | None = None) -> JobHistory:
    """What the job of a destination did over time.

    Args:
        dest: the destination, also a bucket.
        state: folder of the journal, when the job was given one.

    Raises:
        UsageError: there is no job.
        JournalError: the journal cannot be read.
    """
    found = journal_samples(os.fspath(dest), None if state is None else os.fspath(state))
    return JobHistory(status=status(dest, state=state), samples=found)


def write_page(found: JobHistory, file: str | os.PathLike[str]) -> None:
    """Writes the page of a history into a file, which is there as a whole or as it was.

    Raises:
        StorageError: it cannot be written.
    """
    path = Path(file)
    part = path.with_name(f".{path.name}.part")
    try:
        part.write_text(found.to_html(), encoding="utf-8")
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise StorageError(f"cannot write {path}: {error.strerror or error}") from None
