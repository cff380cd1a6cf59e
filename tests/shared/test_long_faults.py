"""Faults of shared jobs that take minutes: fifty workers, and machines without network (`make shared-long`)."""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import fetchmill.shared_jobs
from conftest import SUPPORT
from fetchmill.testing import Server
from fetchmill_bench.versitygw import ACCESS_KEY, ENVIRONMENT, REGION, SECRET_KEY, find_program
from nodes import HUB, URL, Cluster, cluster
from sampled_worker import longest_idle
from shared_jobs import final_rows

pytestmark = pytest.mark.long

Start = Callable[..., "subprocess.Popen[str]"]

OPTIONS = ("--shared", "--allow-private", "--format", "parquet")
CUT_SECONDS = 30.0
STORE_PORT = 9000
POLL_SECONDS = 0.2
SAMPLED_WORKER = SUPPORT / "sampled_worker.py"


def say(line: str) -> None:
    """Prints a line if pytest does not capture the output."""
    sys.stderr.write(f"{line}\n")


def test_fifty_workers_with_tiny_ranges_survive_kills(
    server: Callable[..., Server], start: Start, tmp_path: Path
) -> None:
    """Ten of them are killed. Two start the job at the same moment."""
    rng = random.Random(int(os.environ["FETCHMILL_SEED"]))
    files, of_file = 400, 50
    served = server(synthetic=files * of_file, delay=(0.0, 0.05))
    urls = [f"{served.url}/get/file-{number:012}" for number in range(files * of_file)]
    (tmp_path / "urls").mkdir()
    for file in range(files):
        text = "".join(f"{url}\n" for url in urls[file * of_file : (file + 1) * of_file])
        (tmp_path / "urls" / f"{file:03}.txt").write_text(text)
    job = tmp_path / "job"
    command = ("get", "urls", "job", *OPTIONS, "--lease", "5s", "-j", "8")
    workers = [start(*command) for _ in range(50)]
    while not list((job / "commits").glob("*.json")):
        time.sleep(0.05)
    killed = rng.sample(range(50), 10)
    for number in killed:
        workers[number].send_signal(signal.SIGKILL)
        time.sleep(rng.uniform(0.0, 0.3))

    for number, worker in enumerate(workers):
        _, err = worker.communicate(timeout=300)
        assert number in killed or worker.returncode == 0, err
    assert final_rows(job) == Counter(urls)
    status = fetchmill.shared_jobs.status(job)
    assert (status.finished, status.ledger["fetched"], status.set_aside) == (True, len(urls), ())
    say(f"50 workers, {len(killed)} killed: {status.ranges_done} ranges, {status.discarded_share:.1%} fetched again")


def run_with_cut(machines: Cluster, urls: Path, job: Path, cut_seconds: float) -> tuple[float, float]:
    """Runs a job on three machines, and cuts one of them off from the source after 5 s.

    Returns:
        The time to the last commit record, and the longest time in which a healthy worker waited for work while ranges
        were open, both in seconds.
    """
    began = time.monotonic()
    workers = [node.start("get", urls, job, *OPTIONS, "-j", "16") for node in machines.nodes]
    cut, cut_at, idle_since, longest = workers[2], began + 5.0, dict[str, float](), 0.0
    is_cut = False
    while True:
        time.sleep(POLL_SECONDS)
        now = time.monotonic()
        if cut_seconds and is_cut != (cut_at <= now < cut_at + cut_seconds):
            is_cut = not is_cut
            machines.nodes[2].plug(connected=not is_cut)
        if not (job / "job.json").exists():
            continue
        status = fetchmill.shared_jobs.status(job)
        if status.finished:
            break
        for found in status.workers:
            if found.state != "waiting" or f"-{cut.pid}-" in found.name:
                idle_since.pop(found.name, None)
            else:
                longest = max(longest, now - idle_since.setdefault(found.name, now))
    seconds = time.monotonic() - began
    machines.nodes[2].plug(connected=True)
    for worker in workers:
        _, err = worker.communicate(timeout=120)
        assert worker.returncode == 0, err
    return seconds, longest


def test_job_survives_machine_without_network_for_30_seconds(tmp_path: Path) -> None:
    """The job directory stays reachable. The job takes at most 35 s longer, and no healthy machine waits for it."""
    count = 120_000
    (tmp_path / "cluster").mkdir()
    with cluster(tmp_path / "cluster", 3, objects=count, delay="0-0.05") as machines:
        urls = tmp_path / "urls.txt"
        urls.write_text("".join(f"{URL}/get/file-{number:012}\n" for number in range(count)))
        whole, idle = run_with_cut(machines, urls, tmp_path / "whole", 0.0)
        cut, idle_at_cut = run_with_cut(machines, urls, tmp_path / "cut", CUT_SECONDS)

    say(f"{count:,} objects: {whole:.1f} s; with a cut of {CUT_SECONDS:.0f} s {cut:.1f} s")
    say(f"longest wait of a healthy worker while ranges were open: {idle:.1f} s; with the cut {idle_at_cut:.1f} s")
    assert sum(final_rows(tmp_path / "cut").values()) == count
    assert cut <= whole + 35


@pytest.mark.parametrize("cut_at", [5.0, 13.0, 14.0, 15.0])
def test_healthy_machines_continue_while_one_is_cut_off(cut_at: float, tmp_path: Path) -> None:
    """A healthy machine is without a request in flight for at most 2 s while the job runs.

    Without a fault, the job takes 15 s. The third machine is cut off for longer than the job takes.
    """
    count = 30_000
    (tmp_path / "cluster").mkdir()
    job, urls = tmp_path / "job", tmp_path / "urls.txt"
    urls.write_text("".join(f"{URL}/get/file-{number:012}\n" for number in range(count)))
    with cluster(tmp_path / "cluster", 3, objects=count, delay="0-0.05") as machines:
        began = time.monotonic()
        command = ("get", urls, job, *OPTIONS, "-j", "16")
        workers = [
            node.start(*command, program=(sys.executable, SAMPLED_WORKER, tmp_path / f"samples{number}"))
            for number, node in enumerate(machines.nodes)
        ]
        time.sleep(began + cut_at - time.monotonic())
        for number, worker in enumerate(workers):
            machines.nodes[2].plug(connected=number == 2)
            _, err = worker.communicate(timeout=120)
            assert worker.returncode == 0, err

    begin = (job / "job.json").stat().st_mtime
    end = max(path.stat().st_mtime for path in (job / "commits").iterdir())
    idle = [longest_idle(tmp_path / f"samples{number}", begin, end) for number in range(2)]
    say(f"cut at {cut_at:.0f} s: {end - begin:.1f} s; healthy machines idle for {idle[0]:.1f} and {idle[1]:.1f} s")
    assert sum(final_rows(job).values()) == count
    assert max(idle) <= 2.0


@pytest.mark.needs_versitygw
@pytest.mark.parametrize("seed", range(6))
def test_cut_off_machines_with_bucket_lose_and_duplicate_nothing(seed: int, tmp_path: Path) -> None:
    """The machines reach the source and the bucket over the same network. Workers are also killed meanwhile."""
    rng = random.Random(seed)
    count = 8_000
    bucket = tmp_path / "store" / "bucket"
    bucket.mkdir(parents=True)
    (tmp_path / "cluster").mkdir()
    environment = {**os.environ, **ENVIRONMENT, "AWS_ENDPOINT_URL": f"http://{HUB}:{STORE_PORT}"}
    listen = ("--port", f"{HUB}:{STORE_PORT}", "--region", REGION, "--access", ACCESS_KEY, "--secret", SECRET_KEY)
    serve = (find_program(), "--keep-alive", "--quiet", *listen, "posix", bucket.parent)
    urls = [f"{URL}/get/file-{number:012}" for number in range(count)]
    (tmp_path / "urls.txt").write_text("".join(f"{url}\n" for url in urls))
    killed: set[int] = set()
    with (
        cluster(tmp_path / "cluster", 3, objects=count, delay="0-0.05") as machines,
        machines.hub.running(*serve, ready=STORE_PORT, HOME=str(tmp_path)),
    ):
        command = ("get", tmp_path / "urls.txt", "s3://bucket/run", *OPTIONS, "--lease", "5s", "-j", "8")
        workers = [node.start(*command, environment=environment) for node in machines.nodes]
        for _ in range(rng.randint(2, 4)):
            time.sleep(rng.uniform(1.0, 3.0))
            number = rng.randrange(3)
            if rng.random() < 0.3 and len(killed) < 2:
                workers[number].kill()
                killed.add(number)
                continue
            machines.nodes[number].plug(connected=False)
            time.sleep(rng.uniform(1.0, 15.0))
            machines.nodes[number].plug(connected=True)
        last = machines.nodes[0].start("resume", "s3://bucket/run", environment=environment)

        for number, worker in enumerate([*workers, last]):
            _, err = worker.communicate(timeout=180)
            assert number in killed or worker.returncode == 0, (seed, number, err)
    # The store keeps each object as a file.
    assert final_rows(bucket / "run") == Counter(urls), seed
    assert fetchmill.shared_jobs.status(bucket / "run").ledger["fetched"] == count, seed
