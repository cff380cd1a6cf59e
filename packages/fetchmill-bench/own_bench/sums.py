"""What all runs of a long job took together, kept in a JSON file: the measurement may be stopped and started again."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Self


@dataclass
class ClientRun:
    """One run of the client; the last one's figures grow while it runs.

    Args:
        ended: `running`, `killed`, `stopped`, `done` or `failed`; a run that is found `running` was lost with
            whoever measured it, up to the last look.
        seconds: time from its start to its end.
        cpu: user and system seconds.
        peak_mib: peak resident memory.
        server_cpu: CPU seconds of the server meanwhile.
        settled: objects that were done when it was killed.
    """

    ended: str = "running"
    seconds: float = 0.0
    cpu: float = 0.0
    peak_mib: float = 0.0
    server_cpu: float = 0.0
    settled: int = 0


@dataclass
class Sums:
    """All runs of a job.

    Args:
        count: objects of the job.
        size: bytes of an object.
        page_size: names of a page.
        format: how objects are stored.
        pipeline: requests at once on a connection.
        is_pinned: whether client and server have a processor each; if not, they share all.
        port: of the server: it is part of what identifies the job.
        runs: one after the other.
        gets: requests for objects that each start of the server has counted.
        journal_peak: bytes of the journal on disk, at most.
    """

    count: int
    size: int
    page_size: int
    port: int
    format: str = "null"
    pipeline: int = 1
    is_pinned: bool = True
    runs: list[ClientRun] = field(default_factory=list)
    gets: list[int] = field(default_factory=list)
    journal_peak: int = 0

    @property
    def kills(self) -> int:
        """Runs that ended by SIGKILL."""
        return sum(run.ended == "killed" for run in self.runs)

    @property
    def seconds(self) -> float:
        """The client's time."""
        return sum(run.seconds for run in self.runs)

    @property
    def cpu(self) -> float:
        """The client's CPU time."""
        return sum(run.cpu for run in self.runs)

    @property
    def server_cpu(self) -> float:
        """The server's, while the client ran."""
        return sum(run.server_cpu for run in self.runs)

    @property
    def peak_mib(self) -> float:
        """The client's peak memory."""
        return max((run.peak_mib for run in self.runs), default=0.0)

    def save(self, path: Path) -> None:
        """Replaces the file as a whole."""
        partial = path.with_suffix(".partial")
        partial.write_text(json.dumps(asdict(self), indent=1) + "\n")
        partial.replace(path)

    @classmethod
    def load(cls, path: Path) -> Self:
        """What was saved."""
        values = json.loads(path.read_text())
        runs = [ClientRun(**run) for run in values.pop("runs")]
        return cls(**values, runs=runs)
