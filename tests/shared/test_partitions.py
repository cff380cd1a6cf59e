"""Machines that lose their network for a while: nothing is lost or doubled, and the others do not wait for them."""

import random
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import fetchmill.shared_jobs
from fetchmill._shared.progress import STUCK_SECONDS, STUCK_SECONDS_MAX, AttemptProgress
from nodes import URL, Cluster, cluster
from shared_jobs import final_rows

COUNT = 8_000
FINISH_SECONDS = 60.0


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An empty folder for the cluster."""
    path = tmp_path / "cluster"
    path.mkdir()
    return path


@pytest.fixture
def machines(folder: Path) -> Iterator[Cluster]:
    """Three machines, and a server whose replies take up to 50 ms."""
    with cluster(folder, 3, objects=COUNT, delay="0-0.05") as found:
        yield found


def begin(machines: Cluster, tmp_path: Path) -> tuple[list[str], Path, "list[subprocess.Popen[str]]"]:
    """Starts a shared job on all machines. Returns its URLs, its directory and its workers."""
    urls = [f"{URL}/get/file-{number:012}" for number in range(COUNT)]
    (tmp_path / "urls.txt").write_text("".join(f"{url}\n" for url in urls))
    job = tmp_path / "job"
    options = ("--shared", "--allow-private", "--lease", "2s", "--format", "parquet", "-j", "8")
    return urls, job, [node.start("get", tmp_path / "urls.txt", job, *options) for node in machines.nodes]


def is_finished(job: Path) -> bool:
    """Whether every range has a commit record."""
    return (job / "job.json").exists() and fetchmill.shared_jobs.status(job).finished


def test_the_others_finish_while_a_machine_is_cut_off(machines: Cluster, tmp_path: Path) -> None:
    """Its ranges are taken over, though its heartbeats arrive. It ends well when its network is there again."""
    urls, job, workers = begin(machines, tmp_path)
    while not (job / "commits").is_dir() or not list((job / "commits").iterdir()):
        time.sleep(0.02)

    machines.nodes[1].plug(connected=False)
    until = time.monotonic() + FINISH_SECONDS
    while not is_finished(job):
        assert time.monotonic() < until, "the job waits for a machine that is cut off"
        time.sleep(0.1)
    machines.nodes[1].plug(connected=True)

    for worker in workers:
        _, err = worker.communicate(timeout=60)
        assert worker.returncode == 0, err
    assert final_rows(job) == Counter(urls)
    assert fetchmill.shared_jobs.status(job).ledger["fetched"] == COUNT


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", range(10))
def test_cut_cables_lose_and_double_nothing(machines: Cluster, seed: int, tmp_path: Path) -> None:
    """Cables are cut and connected by a seed, of some machines or of all, and workers are killed meanwhile."""
    rng = random.Random(seed)
    urls, job, workers = begin(machines, tmp_path)
    connected = [True] * len(machines.nodes)
    for _ in range(rng.randint(3, 8)):
        time.sleep(rng.uniform(0.2, 1.5))
        number = rng.randrange(len(machines.nodes))
        if rng.random() < 0.2 and sum(worker.poll() is None for worker in workers) > 1:
            workers[number].kill()
        else:
            connected[number] = not connected[number]
            machines.nodes[number].plug(connected=connected[number])
    for node in machines.nodes:
        node.plug(connected=True)
    last = machines.nodes[0].start("resume", job) if (job / "job.json").exists() else begin(machines, tmp_path)[2][0]

    _, err = last.communicate(timeout=120)
    for worker in workers:
        worker.communicate(timeout=60)

    assert last.returncode == 0, (seed, err)
    assert final_rows(job) == Counter(urls), seed
    assert fetchmill.shared_jobs.status(job).ledger["fetched"] == COUNT, seed


def test_an_attempt_is_stuck_when_outcomes_stay_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a few of its longest waits for an outcome, within bounds; before the first one it has more time."""
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])

    def stuck_after(seconds: float) -> bool:
        now[0] += seconds
        return progress.is_stuck()

    progress = AttemptProgress()
    assert not stuck_after(STUCK_SECONDS_MAX - 1)
    assert stuck_after(2)
    assert progress.note(1)
    assert not progress.note(1)
    # The first outcome took longer than any limit, so the next may, too.
    assert not stuck_after(STUCK_SECONDS_MAX - 1)
    assert stuck_after(2)

    progress = AttemptProgress()
    for settled in range(1, 5):
        now[0] += 0.1
        assert progress.note(settled)
    assert not stuck_after(STUCK_SECONDS - 0.1)
    assert stuck_after(0.2)
