"""Machines that lose their network for a while: no object is lost or stored twice, and other machines do not wait."""

import json
import random
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import fetchmill.shared_jobs
from fetchmill._shared.progress import STUCK_SECONDS, STUCK_SECONDS_MAX, AttemptProgress
from fetchmill.testing import Fault, Server
from nodes import URL, Cluster, cluster
from shared_jobs import final_rows, write_list

COUNT = 8_000
OPTIONS = ("--shared", "--allow-private", "--lease", "2s", "--format", "parquet", "-j", "8")
WAIT_SECONDS = 60.0


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Returns an empty folder for the cluster."""
    path = tmp_path / "cluster"
    path.mkdir()
    return path


@pytest.fixture
def machines(folder: Path) -> Iterator[Cluster]:
    """Starts three machines and a server whose replies take up to 50 ms."""
    with cluster(folder, 3, objects=COUNT, delay="0-0.05") as found:
        yield found


def begin(machines: Cluster, tmp_path: Path, *options: str) -> tuple[list[str], Path, "list[subprocess.Popen[str]]"]:
    """Starts a shared job on all machines. Returns its URLs, its directory and its workers."""
    urls = [f"{URL}/get/file-{number:012}" for number in range(COUNT)]
    (tmp_path / "urls.txt").write_text("".join(f"{url}\n" for url in urls))
    job = tmp_path / "job"
    command = ("get", tmp_path / "urls.txt", job, *OPTIONS, *options)
    return urls, job, [node.start(*command) for node in machines.nodes]


def wait_until(holds: Callable[[], object], what: str) -> None:
    """Waits for a condition; `what` describes it in the error."""
    until = time.monotonic() + WAIT_SECONDS
    while not holds():
        assert time.monotonic() < until, what
        time.sleep(0.05)


def heartbeat(job: Path, worker: "subprocess.Popen[str]") -> Any:  # noqa: ANN401 - JSON
    """Returns a worker's last heartbeat, which is empty before the first one."""
    found = list((job / "workers").glob(f"*-{worker.pid}-*.json"))
    return json.loads(found[0].read_text()) if found else {}


def is_finished(job: Path) -> bool:
    """Returns whether every range has a commit record."""
    return (job / "job.json").exists() and fetchmill.shared_jobs.status(job).finished


@pytest.mark.parametrize("lease", ["2s", "600s"])
def test_other_machines_finish_ranges_of_cut_off_machine(machines: Cluster, tmp_path: Path, lease: str) -> None:
    """Other machines take over its ranges, although its heartbeats still arrive.

    The machine itself ends normally later. With the long lease, its next heartbeat would be due after two minutes.
    """
    urls, job, workers = begin(machines, tmp_path, "--lease", lease)
    cut = workers[1]
    wait_until(lambda: heartbeat(job, cut).get("counts", {}).get("fetched"), "the worker has not begun")

    machines.nodes[1].plug(connected=False)
    wait_until(lambda: heartbeat(job, cut)["stuck"], "the worker does not say that it is stuck")
    wait_until(lambda: is_finished(job), "the job waits for a machine that is cut off")
    assert cut.poll() is None
    machines.nodes[1].plug(connected=True)

    for worker in workers:
        _, err = worker.communicate(timeout=60)
        assert worker.returncode == 0, err
    assert final_rows(job) == Counter(urls)
    assert fetchmill.shared_jobs.status(job).ledger["fetched"] == COUNT


def test_slow_target_is_fetched_by_at_most_two_workers(
    server: Callable[..., Server], start: Callable[..., "subprocess.Popen[str]"], tmp_path: Path
) -> None:
    """A range with a slow target looks stuck, so one other worker tries it, too. The job still ends."""
    slow = Fault("stall", match="file-000000000007", seconds=60)
    served = server(synthetic=COUNT, faults=[slow])
    urls = write_list(tmp_path / "urls.txt", served, 200)
    patience = ("--head-timeout", "12s", "--attempts", "1")
    workers = [start("get", "urls.txt", "job", *OPTIONS, *patience) for _ in range(4)]

    for worker in workers:
        _, err = worker.communicate(timeout=60)
        assert worker.returncode == 0, err
    ledger = fetchmill.shared_jobs.status(tmp_path / "job").ledger
    assert (ledger["fetched"], ledger["failed"]) == (len(urls) - 1, 1)
    # Slow requests are repeated, too.
    assert served.stats()["get"] <= 2 * len(urls) + 20


def test_job_stops_while_machine_is_cut_off(machines: Cluster, tmp_path: Path) -> None:
    """Targets that the machine has not fetched are returned, and the job resumes on another machine."""
    urls, job, workers = begin(machines, tmp_path)
    cut = workers[1]
    wait_until(lambda: heartbeat(job, cut).get("counts", {}).get("fetched"), "the worker has not begun")
    machines.nodes[1].plug(connected=False)

    fetchmill.shared_jobs.stop(job)
    for worker in workers:
        _, err = worker.communicate(timeout=60)
        assert worker.returncode == 0, err
    assert not is_finished(job)

    last = machines.nodes[0].start("resume", job)
    _, err = last.communicate(timeout=120)
    assert last.returncode == 0, err
    assert final_rows(job) == Counter(urls)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", range(10))
def test_network_cuts_lose_and_duplicate_nothing(machines: Cluster, seed: int, tmp_path: Path) -> None:
    """A seed disconnects and reconnects some or all machines, and workers are killed meanwhile."""
    rng = random.Random(seed)
    urls, job, workers = begin(machines, tmp_path)
    killed: set[int] = set()
    connected = [True] * len(machines.nodes)
    wait_until((job / "job.json").exists, "there is no job")
    for _ in range(rng.randint(3, 8)):
        time.sleep(rng.uniform(0.2, 1.5))
        number = rng.randrange(len(machines.nodes))
        if rng.random() < 0.2 and len(killed) < len(workers) - 1:
            workers[number].kill()
            killed.add(number)
        else:
            connected[number] = not connected[number]
            machines.nodes[number].plug(connected=connected[number])
    for node in machines.nodes:
        node.plug(connected=True)
    last = machines.nodes[0].start("resume", job)

    for number, worker in enumerate([*workers, last]):
        _, err = worker.communicate(timeout=120)
        assert number in killed or worker.returncode == 0, (seed, number, err)
    assert final_rows(job) == Counter(urls), seed
    assert fetchmill.shared_jobs.status(job).ledger["fetched"] == COUNT, seed


def test_attempt_is_stuck_when_no_outcomes_arrive(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is a few times the attempt's longest wait for an outcome, within bounds.

    Before the first outcome, the limit is longer.
    """
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])

    def stuck_after(seconds: float) -> bool:
        now[0] += seconds
        return progress.is_stuck()

    progress = AttemptProgress()
    assert not stuck_after(STUCK_SECONDS_MAX - 1)
    assert stuck_after(2)
    progress.note(1)
    # The first outcome took longer than any limit, so the next one may, too.
    assert not stuck_after(STUCK_SECONDS_MAX - 1)
    assert stuck_after(2)

    progress = AttemptProgress()
    for settled in range(1, 5):
        now[0] += 0.1
        progress.note(settled)
    assert not stuck_after(STUCK_SECONDS - 0.1)
    assert stuck_after(0.2)


def test_attempt_after_stuck_one_is_stuck_until_first_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the previous attempt was not stuck, the next attempt inherits its limit."""
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    first = AttemptProgress()
    now[0] += 0.1
    first.note(1)

    second = first.following(is_waiting=True)
    assert not second.is_stuck()
    now[0] += STUCK_SECONDS + 0.1
    assert second.is_stuck()

    third = second.following(is_waiting=True)
    assert third.is_stuck()
    third.note(1)
    assert not third.is_stuck()
    # An attempt without open targets was not waiting for an outcome.
    assert not second.following(is_waiting=False).is_stuck()
