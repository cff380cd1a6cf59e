"""Who may take part: the engines, the published ways, clients of S3, and `check` where sites are asked."""

import os
from dataclasses import dataclass
from typing import Literal

# How a contender is started, and how it tells what it has done.
ContenderKind = Literal["engine", "module", "check", "program", "own"]
# Its ways read a bucket, and the others none.
BUCKETS = "s3"


@dataclass(frozen=True, kw_only=True)
class Contender:
    """One way that can be measured.

    Args:
        name: how it is called: an engine, a module of `contenders`, or the user's own command.
        way: how it is built, in some words.
        kind: how it is started and how it tells what it has done.
        scenarios: those to which it belongs; it runs in another when it is named.
        row: the row of a published table that it stands for.
        limits: requests in flight that it runs with when nobody says how many; the scenario's if empty.
        fixed: requests in flight of a way that has no such number; 0: as many as there are requests.
    """

    name: str
    way: str
    kind: ContenderKind
    scenarios: tuple[str, ...] = ()
    row: str | None = None
    limits: tuple[int, ...] = ()
    fixed: int | None = None

    @property
    def starts_from_urls(self) -> bool:
        """Whether it needs the URLs, rather than list them itself."""
        return self.kind != "engine" and not self.reads_buckets and not self.name.startswith("a_")

    @property
    def reads_buckets(self) -> bool:
        """Whether it is a client of S3 and nothing else."""
        return self.scenarios == (BUCKETS,)

    def may_run(self, scenario: str) -> bool:
        """Whether it can run in a scenario, as its own or because it was named."""
        return self.kind in ("engine", "own") or self.reads_buckets == (scenario == BUCKETS)


_PROCESSORS = len(os.sched_getaffinity(0))
_EVERYWHERE = ("billion", "slow", "sites")


def _engine(name: str, way: str, fixed: int | None = None, scenarios: tuple[str, ...] = _EVERYWHERE) -> Contender:
    return Contender(name=name, way=way, kind="engine", scenarios=scenarios, fixed=fixed)


def _published(
    name: str,
    way: str,
    row: str,
    *scenarios: str,
    limits: tuple[int, ...] = (),
    fixed: int | None = None,
) -> Contender:
    return Contender(name=name, way=way, kind="module", scenarios=scenarios, row=row, limits=limits, fixed=fixed)


def _client(name: str, way: str, kind: ContenderKind) -> Contender:
    """Of S3; nothing was published of it."""
    return Contender(name=name, way=way, kind=kind, scenarios=(BUCKETS,))


CONTENDERS: tuple[Contender, ...] = (
    Contender(
        name="check", way="fetchmill check", kind="check", scenarios=("sites",)
    ),  # the first: others are compared with it
    _engine("native", "engine native", scenarios=(*_EVERYWHERE, BUCKETS)),
    _engine("sync", "engine sync", fixed=1),
    _engine("threads", "engine threads"),
    _engine("processes", "engine processes", fixed=_PROCESSORS),
    _engine("asyncio", "engine asyncio"),
    _engine("combo", "engine combo"),
    _published("a_sync", "one after the other, no session", "A: synchronous", "billion", fixed=1),
    _published("a_threads", "threads, work queue, result queue", "A: 10 / 100 threads", "billion", limits=(10, 100)),
    _published("a_processes_by_page", "processes, a page at a time", "A: 16 processes", "billion", fixed=_PROCESSORS),
    _published("a_asyncio", "a task a file, uvloop", "A: asyncio", "billion"),
    _published("a_combined", "processes, in each a thread and a loop", "A: combined", "billion"),
    _published("boto3_threads", "boto3, one client, a pool of threads", "B: threads", BUCKETS),
    _published("aiobotocore_all", "aiobotocore, all requests first", "B: asyncio", BUCKETS),
    _client("aiobotocore", "aiobotocore, a task when there is a place", "module"),
    _client("obstore", "obstore, a task when there is a place", "module"),
    _client("s5cmd", "s5cmd cp, into files", "program"),
    _published("cd_sync", "one after the other", "D: synchronous", "slow", fixed=1),
    _published("semaphore_gather", "all tasks first, a semaphore", "C, D: semaphore, all tasks first", "slow"),
    _published(
        "polling_as_completed", "as_completed with a limit, polling", "C, D: as_completed with a limit, polling", "slow"
    ),
    _published(
        "callback_as_completed",
        "as_completed with a limit, by callbacks",
        "D: as_completed with a limit, by callbacks",
        "slow",
    ),
    _published("task_pool", "TaskPool", "C: TaskPool", "slow"),
    _published("pypeln_each", "pypeln each", "C: pypeln each", "slow"),
    _published("e_sync", "one after the other", "E: synchronous", "sites", fixed=1),
    _published("e_pool", "Pool.map of 8 processes", "E: 8 processes", "sites", fixed=8),
    _published("e_threads", "ThreadPoolExecutor", "E: thread pool", "sites"),
    _published("e_gather", "gather of all at once", "E: asyncio, all at once", "sites", fixed=0),
)


def user_program(command: str) -> Contender:
    """The user's own program."""
    return Contender(name=command, way="your own", kind="own")
