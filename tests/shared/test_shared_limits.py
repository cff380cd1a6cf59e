"""Limits per host apply to all workers of a shared job together, even while workers start and die."""

import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.parquet
import pytest

import fetchmill.shared_jobs
from conftest import Ended
from fetchmill._shared import attempt
from fetchmill._shared.heartbeats import Heartbeat
from fetchmill._shared.origin_pace import OriginPace
from fetchmill._shared.shares import Shares
from fetchmill.testing import Fault, Server
from observed_host import Observed, serving_hosts

Run = Callable[..., Ended]
Start = Callable[..., "subprocess.Popen[str]"]

# On a busy machine, heartbeats may be a second late.
OPTIONS = ("--shared", "--allow-private", "--lease", "4s", "--format", "parquet")
HOSTS = ("127.0.0.1", "127.0.0.2")


@pytest.fixture
def hosts() -> Iterator[list[Observed]]:
    """Returns two servers, one per host."""
    with serving_hosts(HOSTS) as hosts:
        yield hosts


def write_lists(folder: Path, hosts: list[Observed], files: int, count: int) -> list[str]:
    """Writes files with this number of objects of each host.

    Each file is a range, so that all workers have work from the start.
    """
    folder.mkdir()
    urls = []
    for file in range(files):
        of_file = [f"{host.url}/{file}/{number}" for number in range(count) for host in hosts]
        (folder / f"{file}.txt").write_text("".join(f"{url}\n" for url in of_file))
        urls += of_file
    return urls


def names(job: Path) -> Counter[str]:
    """Counts each name in the result of a finished job."""
    shards = (job / "data").glob("*/*.parquet")
    return Counter(name for shard in shards for name in pyarrow.parquet.read_table(shard)["name"].to_pylist())


def wait_until(what: Callable[[], bool]) -> None:
    """Waits for a condition."""
    deadline = time.monotonic() + 60
    while not what():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.02)


def test_rate_per_host_applies_to_all_workers_together(hosts: list[Observed], start: Start, tmp_path: Path) -> None:
    """One worker starts late and another one dies. No host exceeds its rate, and each object is stored once."""
    urls = write_lists(tmp_path / "lists", hosts, 6, 60)
    command = ("get", "lists", "job", *OPTIONS, "--rate-per-host", "50")
    workers = [start(*command) for _ in range(2)]
    wait_until(lambda: len(hosts[0].came) > 20)
    workers.append(start(*command))
    wait_until(lambda: len(hosts[0].came) > 60)
    workers[0].kill()

    assert [worker.wait(60) for worker in workers[1:]] == [0, 0]

    assert names(tmp_path / "job") == Counter(urls)
    for host in hosts:
        # Each attempt may send its first request at any time.
        assert host.most_within(1.0) <= 50 * 1.05 + 5


def test_workers_above_limit_per_host_are_on_standby(hosts: list[Observed], start: Start, tmp_path: Path) -> None:
    """Two of four workers fetch. When those two die, the workers on standby take over."""
    urls = write_lists(tmp_path / "lists", hosts, 4, 40)
    command = ("get", "lists", "job", *OPTIONS, "--limit-per-host", "2", "--rate-per-host", "0", "--threads", "1")
    workers = [start(*command) for _ in range(4)]
    job = tmp_path / "job"
    wait_until(lambda: (job / "job.json").exists() and states(job)["standby"] == 2)
    wait_until(lambda: len(hosts[0].came) > 20)
    for worker, name in zip(workers, names_of(workers, job), strict=True):
        if name not in standby(job):
            worker.kill()

    assert sorted(worker.wait(60) for worker in workers) == [-9, -9, 0, 0]

    assert names(job) == Counter(urls)
    assert [host.most_in_flight for host in hosts] == [2, 2]


def states(job: Path) -> Counter[str]:
    """Counts the workers in each state."""
    return Counter(worker.state for worker in fetchmill.shared_jobs.status(job).workers)


def standby(job: Path) -> set[str]:
    """Returns the workers that have no share of the limit."""
    return {worker.name for worker in fetchmill.shared_jobs.status(job).workers if worker.state == "standby"}


def names_of(workers: "list[subprocess.Popen[str]]", job: Path) -> list[str]:
    """Returns the names of the workers that run in these processes."""
    named = [worker.name for worker in fetchmill.shared_jobs.status(job).workers]
    return [next(name for name in named if f"-{worker.pid}-" in name) for worker in workers]


def heartbeat(
    worker: str, *knows: str, sharers: int = 1, state: str = "working", pace: float | None = None
) -> Heartbeat:
    """Returns a heartbeat of a worker that knows these workers."""
    return Heartbeat(
        worker=worker,
        state=state,
        age=0.0,
        sharers=sharers,
        knows=frozenset(knows),
        ranges=(),
        stuck=frozenset(),
        left=None,
        counts={},
        objects_per_second=0.0,
        pace=pace,
        listed=None,
        lease=None,
        discarded=0,
        settled={},
    )


def test_worker_starts_only_when_all_others_know_it() -> None:
    """If there are limits per host, other workers' attempts that do not know the new worker must end first."""
    shares = Shares("b", {"rate_per_host": 10.0}, None)
    living = [heartbeat("a", "a"), heartbeat("c", "a", "b", "c")]
    assert shares.observe(living)
    assert not shares.may_start(living)
    assert shares.may_start([heartbeat("a", "a", "b"), living[1]])
    # A listing process becomes a worker later, and until then its listing uses the whole limit.
    assert not shares.may_start([heartbeat("a", state="listing"), living[1]])
    assert (shares.host_sharers, shares.rank) == (3, 1)
    # This is the worker's own heartbeat while it runs an attempt that does not know c.
    assert shares.as_heartbeat([frozenset("ab")])["knows"] == ["a", "b"]
    assert shares.is_outdated(frozenset("ab"))
    assert not shares.is_outdated(frozenset("abcd"))


def test_workers_without_limits_start_immediately() -> None:
    """They do not need to know each other."""
    shares = Shares("b", {"rate_per_host": 0.0}, None)
    living = [heartbeat("a", sharers=1)]
    shares.observe(living)

    assert shares.may_start(living)
    assert not shares.is_standby
    assert not shares.is_outdated(frozenset("b"))
    assert (shares.as_heartbeat([])["knows"], shares.rate_of_one(2)) == ([], None)


def test_rate_is_divided_among_workers_and_attempts() -> None:
    """A worker waits until all others count it."""
    shares = Shares("b", {}, 100.0)
    shares.observe([heartbeat("a")])

    assert shares.rate_of_one(2) == 25.0
    assert not shares.may_start([heartbeat("a", sharers=1)])
    assert shares.may_start([heartbeat("a", sharers=2)])


def test_shares_put_workers_above_limit_on_standby() -> None:
    """If there are more workers than the limit, the first ones by name fetch."""
    shares = Shares("c", {"limit_per_host": 2}, None)
    assert not shares.is_standby
    shares.observe([heartbeat("a"), heartbeat("b")])

    assert (shares.is_standby, shares.host_sharers) == (True, 2)
    assert shares.is_outdated(frozenset("abc")), "an attempt ends when others have its part"
    shares.observe([heartbeat("a")])
    assert not shares.is_standby


def test_ranks_never_fall_when_workers_join() -> None:
    """Ranks follow the workers' names. The rest of a limit goes to the lowest ranks, so no share ever grows."""
    names = ["d", "b", "a", "c"]
    for number, name in enumerate(names):
        shares = Shares(name, {"limit_per_host": 9}, None)
        ranks = []
        for many in range(number + 1, len(names) + 1):
            shares.observe(heartbeat(each) for each in names[:many] if each != name)
            ranks.append(shares.rank)
        assert ranks == sorted(ranks)
        assert shares.rank == sorted(names).index(name)


def test_worker_divides_pace_among_its_attempts(
    server: Callable[..., Server], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With two ranges, the second attempt begins while the first one is throttled."""
    served = server(synthetic=800, faults=[Fault("status", status=429, above=200)])
    (tmp_path / "lists").mkdir()
    for file in range(2):
        numbers = range(file * 400, (file + 1) * 400)
        (tmp_path / "lists" / f"{file}.txt").write_text("".join(f"{served.url}/get/file-{n:012}\n" for n in numbers))
    given: dict[str, float] = {}
    set_pace = attempt.Attempt.set_pace

    def note(self: attempt.Attempt, per_second: float) -> None:
        given[self.id] = per_second
        set_pace(self, per_second)

    monkeypatch.setattr(attempt.Attempt, "set_pace", note)

    end = fetchmill.shared_jobs.get(
        tmp_path / "lists", tmp_path / "job", format="parquet", allow_private=True, lease=1.0, concurrency=32
    )

    assert end.ledger["fetched"] == 800
    assert given
    assert all(0 < pace < 10_000 for pace in given.values())


def test_last_attempt_finally_gets_whole_rate(
    server: Callable[..., Server], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the last targets of the first range are fetched, the second range has half of the rate."""
    served = server(synthetic=1_200)
    (tmp_path / "lists").mkdir()
    for file in range(2):
        numbers = range(file * 600, (file + 1) * 600)
        (tmp_path / "lists" / f"{file}.txt").write_text("".join(f"{served.url}/get/file-{n:012}\n" for n in numbers))
    given: list[tuple[str, float]] = []
    set_rate = attempt.Attempt.set_rate

    def note(self: attempt.Attempt, per_second: float) -> None:
        given.append((self.id, per_second))
        set_rate(self, per_second)

    monkeypatch.setattr(attempt.Attempt, "set_rate", note)

    fetchmill.shared_jobs.get(
        tmp_path / "lists", tmp_path / "job", format="parquet", allow_private=True, lease=1.0, rate=400
    )

    first, second = list(dict.fromkeys(id for id, _ in given))
    assert (first, 200) in given
    assert [rate for id, rate in given if id == second][-1] == 400


class PacedAttempt:
    """An attempt whose job reports a pace."""

    def __init__(self, pace: float | None = None) -> None:
        self.found = pace

    def pace(self) -> float | None:
        """Returns the pace of the job."""
        return self.found

    def set_pace(self, per_second: float) -> None:
        """Sets the pace of the job."""
        self.found = per_second


def test_pace_is_divided_among_attempts_and_workers() -> None:
    """The last attempt and the next one get half each. A new worker takes over an equal share."""
    pace, first, second = OriginPace(), PacedAttempt(900.0), PacedAttempt()
    pace.note([first])
    pace.divide([first, second])
    assert (first.found, second.found) == (450, 450)

    first.found = 700.0
    pace.note([first, second])
    pace.divide([second])
    assert second.found == 900

    pace.scale(2, 3)
    pace.divide([second])
    assert second.found == 600

    other = OriginPace()
    other.take_over([heartbeat("a", pace=600.0), heartbeat("b", pace=300.0), heartbeat("c")])
    assert other.per_second == 300
    other.take_over([heartbeat("a", pace=6.0)])
    assert other.per_second == 300


def test_pace_found_by_one_attempt_applies_to_both() -> None:
    """The second attempt may begin before the first one is throttled."""
    pace, first, second = OriginPace(), PacedAttempt(400.0), PacedAttempt()
    assert pace.note([first, second])
    pace.divide([first, second])
    assert (first.found, second.found) == (200, 200)
    assert not pace.note([first, second])


def test_no_pace_is_set_without_refusals() -> None:
    """No attempt gets a rate limit."""
    pace, first, second = OriginPace(), PacedAttempt(), PacedAttempt()
    pace.note([first])
    pace.take_over([heartbeat("a")])
    pace.scale(1, 2)
    pace.divide([first, second])
    assert (pace.per_second, first.found, second.found) == (None, None, None)
