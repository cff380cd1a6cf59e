"""The total resources used in all runs of a long job, stored in a JSON file.

The measurement can be stopped and started again.
"""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Self


@dataclass
class ClientRun:
    """One run of the client. While the last run is in progress, its figures grow.

    Args:
        ended: `running`, `killed`, `stopped`, `done` or `failed`. A stored `running` means that the measurement itself
            ended early, so the figures are those of the last poll.
        seconds: time from the client's start to its end.
        cpu: user and system seconds of the client.
        peak_mib: peak resident memory of the client.
        server_cpu: CPU seconds of the server during the run.
        settled: number of finished objects when the client was killed.
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
        count: number of objects in the job.
        size: size of an object in bytes.
        page_size: number of names per page.
        format: format of stored objects.
        pipeline: number of requests that are sent together on a connection.
        is_pinned: whether client and server each have one processor. Otherwise they share all processors.
        port: port of the server, which is part of the job's identity.
        runs: the runs, in order.
        gets: numbers of requests for objects, one number for each start of the server.
        journal_peak: maximum size of the journal on disk in bytes.
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
        """Number of runs that ended by SIGKILL."""
        return sum(run.ended == "killed" for run in self.runs)

    @property
    def seconds(self) -> float:
        """Total time of the client."""
        return sum(run.seconds for run in self.runs)

    @property
    def cpu(self) -> float:
        """Total CPU time of the client."""
        return sum(run.cpu for run in self.runs)

    @property
    def server_cpu(self) -> float:
        """CPU time of the server while the client ran."""
        return sum(run.server_cpu for run in self.runs)

    @property
    def peak_mib(self) -> float:
        """Peak memory of the client."""
        return max((run.peak_mib for run in self.runs), default=0.0)

    def save(self, path: Path) -> None:
        """Saves the sums, replacing the whole file."""
        partial = path.with_suffix(".partial")
        partial.write_text(json.dumps(asdict(self), indent=1) + "\n")
        partial.replace(path)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Loads the saved sums."""
        values = json.loads(path.read_text())
        runs = [ClientRun(**run) for run in values.pop("runs")]
        return cls(**values, runs=runs)
