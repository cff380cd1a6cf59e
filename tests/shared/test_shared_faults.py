"""Random faults of workers: killed, frozen for longer than a lease, drained, started late, stopped and resumed."""

import json
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import fetchmill.shared_jobs
from conftest import Ended
from fetchmill.testing import Server
from shared_jobs import final_rows, write_list

Run = Callable[..., Ended]
Start = Callable[..., "subprocess.Popen[str]"]

COUNT = 8_000
FAULTS = ("kill", "freeze", "drain", "late", "stop", "idle")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(30))
def test_shared_job_faults_lose_and_duplicate_nothing(
    seed: int, server: Callable[..., Server], run: Run, start: Start, tmp_path: Path
) -> None:
    """Each object is in exactly one committed range, and the ledger agrees."""
    rng = random.Random(seed)
    served = server(synthetic=COUNT, delay=(0.0, 0.02))
    urls = write_list(tmp_path / "urls.txt", served, COUNT)
    job = tmp_path / "job"
    command = (
        "get",
        "urls.txt",
        "job",
        "--shared",
        "--allow-private",
        "--lease",
        "1s",
        "--format",
        "parquet",
        "-j",
        "16",
    )
    workers = [start(*command) for _ in range(rng.randint(1, 3))]
    for _ in range(rng.randint(2, 6)):
        time.sleep(rng.uniform(0.1, 0.8))
        hurt(rng.choice(FAULTS), rng, workers, lambda: start(*command), run)
    if rng.random() < 0.5:
        go_on(workers)

    ended = run("resume", "job") if (job / "job.json").exists() else run(*command)
    # A worker that was frozen until the job was finished adds nothing.
    go_on(workers)
    for worker in workers:
        worker.wait(60)

    assert ended.code == 0, (seed, ended.err)
    assert final_rows(job) == Counter(urls), seed
    status = fetchmill.shared_jobs.status(job)
    assert (status.finished, status.ledger["fetched"], status.set_aside) == (True, COUNT, ()), seed
    assert status.bytes_done == status.bytes_of_list, seed
    named = {json.loads(path.read_text())["attempt"] for path in (job / "commits").iterdir()}
    assert {path.name.rpartition("-")[2] for path in (job / "data").iterdir()} == named, seed


def go_on(workers: "list[subprocess.Popen[str]]") -> None:
    """Continues all frozen workers."""
    for worker in workers:
        worker.send_signal(signal.SIGCONT)


def hurt(
    fault: str,
    rng: random.Random,
    workers: "list[subprocess.Popen[str]]",
    start_worker: "Callable[[], subprocess.Popen[str]]",
    run: Run,
) -> None:
    """Causes a fault of one worker or of the whole job."""
    living = [worker for worker in workers if worker.poll() is None]
    if fault == "late":
        workers.append(start_worker())
    elif fault == "stop":
        run("stop", "job", *rng.choice(((), ("--now",))))
    elif living:
        numbers = {"kill": signal.SIGKILL, "freeze": signal.SIGSTOP, "drain": signal.SIGTERM, "idle": signal.SIGCONT}
        rng.choice(living).send_signal(numbers[fault])
