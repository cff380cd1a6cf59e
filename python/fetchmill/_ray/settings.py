"""The caller's settings for workers in Ray."""

from fetchmill._quick_dataclass import dataclass
from fetchmill.errors import UsageError

# Maximum number of workers. The number is limited because all workers write and read heartbeats in one folder.
_WORKERS_MAX = 10_000


@dataclass(frozen=True, kw_only=True)
class Ray:
    """A Ray cluster that runs the workers of a shared job.

    The environment variable RAY_ADDRESS names the cluster. If it is not set, a cluster on this machine is used. If
    there is none, a local Ray is started for the job. Each worker reserves `threads` CPUs, or 1 if `threads` is not
    set.

    Args:
        workers: number of workers; None for one per node with CPUs.

    Raises:
        UsageError: the number is not from 1 to 10,000.
    """

    workers: int | None = None

    def __post_init__(self) -> None:
        if self.workers is not None and not 1 <= self.workers <= _WORKERS_MAX:
            raise UsageError(f"workers must be from 1 to {_WORKERS_MAX:,}, not {self.workers}")
