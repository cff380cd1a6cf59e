"""Lists the contenders, which are the engines, the published ways, S3 clients, and `check` for sites."""

import os
from dataclasses import dataclass
from typing import Literal

# How a contender is started, and how it reports its results.
ContenderKind = Literal["engine", "module", "check", "program", "own"]
# The only scenario whose ways read a bucket.
BUCKETS = "s3"


@dataclass(frozen=True, kw_only=True)
class Contender:
    """One way that can be measured.

    Args:
        name: an engine, a module of `contenders`, or the user's own command.
        way: short description of how the contender is built.
        kind: how the contender is started, and how it reports its results.
        scenarios: the scenarios in which the contender runs by default. In others, it runs only if the user names it.
        row: the row of a published table that the contender represents.
        limits: default numbers of requests in flight; empty to use the scenario's numbers.
        fixed: number of requests in flight, if it cannot be configured. 0 means all requests at once.
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
        """Whether the contender needs a list of URLs because it cannot list objects itself."""
        return self.kind != "engine" and not self.reads_buckets and not self.name.startswith("a_")

    @property
    def reads_buckets(self) -> bool:
        """Whether the contender can only read buckets."""
        return self.scenarios == (BUCKETS,)

    def may_run(self, scenario: str) -> bool:
        """Returns whether the contender can run in a scenario, either by default or if the user names it."""
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
    """Returns an S3 client without published figures."""
    return Contender(name=name, way=way, kind=kind, scenarios=(BUCKETS,))


CONTENDERS: tuple[Contender, ...] = (
    Contender(
        name="check", way="fetchmill check", kind="check", scenarios=("sites",)
    ),  # must come first, because the other contenders are compared with it
    _engine("native", "engine native", scenarios=(*_EVERYWHERE, BUCKETS)),
    _engine("sync", "engine sync", fixed=1),
    _engine("threads", "engine threads"),
    _engine("processes", "engine processes", fixed=_PROCESSORS),
    _engine("asyncio", "engine asyncio"),
    _engine("combo", "engine combo"),
    _published("a_sync", "one request at a time, no session", "A: synchronous", "billion", fixed=1),
    _published("a_threads", "threads, work queue, result queue", "A: 10 / 100 threads", "billion", limits=(10, 100)),
    _published("a_processes_by_page", "processes, one page at a time", "A: 16 processes", "billion", fixed=_PROCESSORS),
    _published("a_asyncio", "one task per file, uvloop", "A: asyncio", "billion"),
    _published("a_combined", "processes, each with a thread and a loop", "A: combined", "billion"),
    _published("boto3_threads", "boto3, one client, a thread pool", "B: threads", BUCKETS),
    _published("aiobotocore_all", "aiobotocore, all requests created first", "B: asyncio", BUCKETS),
    _client("aiobotocore", "aiobotocore, a task for each free slot", "module"),
    _client("obstore", "obstore, a task for each free slot", "module"),
    _client("s5cmd", "s5cmd cp, to files", "program"),
    _published("cd_sync", "one request at a time", "D: synchronous", "slow", fixed=1),
    _published("semaphore_gather", "all tasks first, with a semaphore", "C, D: semaphore, all tasks first", "slow"),
    _published(
        "polling_as_completed", "as_completed with a limit, polling", "C, D: as_completed with a limit, polling", "slow"
    ),
    _published(
        "callback_as_completed",
        "as_completed with a limit, callbacks",
        "D: as_completed with a limit, by callbacks",
        "slow",
    ),
    _published("task_pool", "TaskPool", "C: TaskPool", "slow"),
    _published("pypeln_each", "pypeln each", "C: pypeln each", "slow"),
    _published("e_sync", "one request at a time", "E: synchronous", "sites", fixed=1),
    _published("e_pool", "Pool.map with 8 processes", "E: 8 processes", "sites", fixed=8),
    _published("e_threads", "ThreadPoolExecutor", "E: thread pool", "sites"),
    _published("e_gather", "gather, all at once", "E: asyncio, all at once", "sites", fixed=0),
)


def user_program(command: str) -> Contender:
    """Returns the contender for the user's own program."""
    return Contender(name=command, way="your own", kind="own")
