"""The history of a job over all its runs, read from its journal. A run may be in progress."""

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

# Samples of one run are contiguous. A gap longer than this share of a sample's interval separates two runs.
_PAUSE = 0.25
# Bottlenecks below this share of the time are not shown.
_SHARE_MIN = 0.005


@dataclass(frozen=True, kw_only=True)
class JobHistory:
    """The history of all runs of a job.

    Args:
        status: the ledger of the job.
        samples: one sample per second; if the job ran for more than twelve minutes, samples cover longer intervals. At
            most 720 samples; empty for a job of an older release. Each sample has:

            - `time`: end of the interval, in seconds since 1970 UTC; `interval`: its length in seconds.
            - Counts within the interval: `listed`, `settled`, `fetched`, `absent`, `failed`, `bytes`, `attempts`, and
              `failures` by kind.
            - Values at the end of the interval: `in_flight`, `concurrency` and `waiting`.
            - `latency` in seconds (`p50`, `p90`, `p99`, `max`), or None.
            - `limited_by`: the kind of bottleneck, or None.
    """

    status: Status
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
        """Number of runs in the samples. If a run was resumed immediately, both runs may count as one."""
        pauses = (later["time"] - later["interval"] - sooner["time"] for sooner, later in pairwise(self.samples))
        breaks = sum(
            pause > _PAUSE * sample["interval"] for pause, sample in zip(pauses, self.samples[1:], strict=True)
        )
        return breaks + 1 if self.samples else 0

    @property
    def limits(self) -> dict[str, float]:
        """Share of the time by bottleneck, the largest first. Time without a known bottleneck is ignored."""
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
        """Returns an HTML page with charts. The page is self-contained and loads nothing."""
        return report_page(self._snapshot(), self.samples)

    def _snapshot(self) -> dict[str, Any]:
        """Returns a snapshot in the form of a running job's page."""
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
    """Returns a text such as `listing 83 %, server 17 %`: shares of the time."""
    return ", ".join(f"{kind} {share * 100:.0f} %" for kind, share in limits.items() if share >= _SHARE_MIN)


def history(dest: str | os.PathLike[str], *, state: str | os.PathLike[str] | None = None) -> JobHistory:
    """Reads the history of a destination's job.

    Args:
        dest: the destination, a folder or a bucket.
        state: folder of the journal, if the job was started with `state`.

    Raises:
        UsageError: there is no job.
        JournalError: the journal cannot be read.
    """
    found = journal_samples(os.fspath(dest), None if state is None else os.fspath(state))
    return JobHistory(status=status(dest, state=state), samples=found)


def write_page(found: JobHistory, file: str | os.PathLike[str]) -> None:
    """Writes the page of a history into a file. The file is replaced atomically.

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
