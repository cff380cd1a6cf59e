"""Limits for each host hold for all workers of a shared job together, also while workers come and die."""

import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.parquet
import pytest

import fetchmill.shared_jobs
from conftest import Ended
from fetchmill._shared.heartbeats import Heartbeat
from fetchmill._shared.shares import Shares
from observed_host import Observed

Run = Callable[..., Ended]
Start = Callable[..., "subprocess.Popen[str]"]

# On a busy machine heartbeats may be a second late.
OPTIONS = ("--shared", "--allow-private", "--lease", "4s", "--format", "parquet")
HOSTS = ("127.0.0.1", "127.0.0.2")


@pytest.fixture
def hosts() -> Iterator[list[Observed]]:
    """Two hosts."""
    servers = [Observed(host) for host in HOSTS]
    threads = [threading.Thread(target=server.serve_forever, daemon=True) for server in servers]
    for thread in threads:
        thread.start()
    yield servers
    for server in servers:
        server.shutdown()
        server.server_close()


def write_lists(folder: Path, hosts: list[Observed], files: int, count: int) -> list[str]:
    """Files with this many objects of each host. Each file is a range, so that all workers have work from the start."""
    folder.mkdir()
    urls = []
    for file in range(files):
        of_file = [f"{host.url}/{file}/{number}" for number in range(count) for host in hosts]
        (folder / f"{file}.txt").write_text("".join(f"{url}\n" for url in of_file))
        urls += of_file
    return urls


def names(job: Path) -> Counter[str]:
    """How often each name is in the result of a finished job."""
    shards = (job / "data").glob("*/*.parquet")
    return Counter(name for shard in shards for name in pyarrow.parquet.read_table(shard)["name"].to_pylist())


def wait_until(what: Callable[[], bool]) -> None:
    """Until something holds."""
    deadline = time.monotonic() + 60
    while not what():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.02)


def test_a_rate_per_host_holds_for_all_workers(hosts: list[Observed], start: Start, tmp_path: Path) -> None:
    """A worker comes late and another one dies: no host gets more than its rate, and everything is there once."""
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
        # Each attempt may send its first request at any moment.
        assert host.most_within(1.0) <= 50 * 1.05 + 5


def test_a_limit_per_host_holds_for_more_workers_than_it_allows(
    hosts: list[Observed], start: Start, tmp_path: Path
) -> None:
    """Of four workers two fetch, and the others wait on standby; when the two die, the others take over."""
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
    """How many workers are in which state."""
    return Counter(worker.state for worker in fetchmill.shared_jobs.status(job).workers)


def standby(job: Path) -> set[str]:
    """Workers that have no part of the limit."""
    return {worker.name for worker in fetchmill.shared_jobs.status(job).workers if worker.state == "standby"}


def names_of(workers: "list[subprocess.Popen[str]]", job: Path) -> list[str]:
    """The names of the workers of processes."""
    named = [worker.name for worker in fetchmill.shared_jobs.status(job).workers]
    return [next(name for name in named if f"-{worker.pid}-" in name) for worker in workers]


def heartbeat(worker: str, *knows: str, sharers: int = 1, state: str = "working") -> Heartbeat:
    """Of a worker that knows these."""
    return Heartbeat(
        worker=worker,
        state=state,
        age=0.0,
        sharers=sharers,
        knows=frozenset(knows),
        ranges=(),
        counts={},
        objects_per_second=0.0,
    )


def test_a_worker_starts_when_all_others_know_it() -> None:
    """With limits for each host, an attempt of another worker that does not know it must end first."""
    shares = Shares("b", {"rate_per_host": 10.0}, None)
    living = [heartbeat("a", "a"), heartbeat("c", "a", "b", "c")]
    assert shares.observe(living)
    assert not shares.may_start(living)
    assert shares.may_start([heartbeat("a", "a", "b"), living[1]])
    assert shares.may_start([heartbeat("a", "a", state="listing"), living[1]])
    assert (shares.host_sharers, shares.rank) == (3, 1)
    # What it tells the others itself, while an attempt runs that does not know c.
    assert shares.as_heartbeat([frozenset("ab")])["knows"] == ["a", "b"]
    assert shares.is_outdated(frozenset("ab"))
    assert not shares.is_outdated(frozenset("abcd"))


def test_workers_without_limits_wait_for_nobody() -> None:
    """They need not know each other."""
    shares = Shares("b", {"rate_per_host": 0.0}, None)
    living = [heartbeat("a", sharers=1)]
    shares.observe(living)

    assert shares.may_start(living)
    assert not shares.is_standby
    assert not shares.is_outdated(frozenset("b"))
    assert (shares.as_heartbeat([])["knows"], shares.rate_of_one(2)) == ([], None)


def test_a_rate_is_divided_among_workers_and_attempts() -> None:
    """And a worker waits until all count it."""
    shares = Shares("b", {}, 100.0)
    shares.observe([heartbeat("a")])

    assert shares.rate_of_one(2) == 25.0
    assert not shares.may_start([heartbeat("a", sharers=1)])
    assert shares.may_start([heartbeat("a", sharers=2)])


def test_more_workers_than_a_limit_are_on_standby() -> None:
    """The first ones by name fetch."""
    shares = Shares("c", {"limit_per_host": 2}, None)
    assert not shares.is_standby
    shares.observe([heartbeat("a"), heartbeat("b")])

    assert (shares.is_standby, shares.host_sharers) == (True, 2)
    assert shares.is_outdated(frozenset("abc")), "an attempt ends when others have its part"
    shares.observe([heartbeat("a")])
    assert not shares.is_standby


def test_the_first_workers_by_name_get_what_is_left_of_a_limit() -> None:
    """No rank gets smaller when a worker appears, and so no part gets larger."""
    names = ["d", "b", "a", "c"]
    for number, name in enumerate(names):
        shares = Shares(name, {"limit_per_host": 9}, None)
        ranks = []
        for many in range(number + 1, len(names) + 1):
            shares.observe(heartbeat(each) for each in names[:many] if each != name)
            ranks.append(shares.rank)
        assert ranks == sorted(ranks)
        assert shares.rank == sorted(names).index(name)
