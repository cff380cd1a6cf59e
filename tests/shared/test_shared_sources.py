"""Shared jobs whose source lists its own objects: servers, folders and buckets."""

import json
import random
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

import fetchmill
import fetchmill.shared_jobs
from conftest import Ended
from fetchmill._options.get import GetOptions
from fetchmill._shared.creation import create_or_join
from fetchmill.s3_store import SECRET_KEY
from fetchmill.testing import Server, s3, synthetic_body
from shared_jobs import final_rows
from token_server import SECRET, TokenServer

Run = Callable[..., Ended]
Start = Callable[..., "subprocess.Popen[str]"]

SHARED = ("--shared", "--lease", "1s", "--format")


def names(count: int) -> list[str]:
    """Returns the object names of a synthetic server."""
    return [f"file-{number:012}" for number in range(count)]


def test_simultaneous_starters_list_server_once(
    server: Callable[..., Server], run: Run, start: Start, dest: Path
) -> None:
    """One of three processes lists the server. The objects equal those of a job on one machine."""
    served = server(synthetic=6_000)
    workers = [start("get", served.url, dest, *SHARED, "parquet", "--exclude", "*7") for _ in range(3)]

    assert [worker.wait(60) for worker in workers] == [0] * 3

    assert final_rows(dest) == dict.fromkeys((name for name in names(6_000) if name[-1] != "7"), 1)
    assert len(list((dest / "list").iterdir())) == 1
    status = fetchmill.shared_jobs.status(dest)
    single = fetchmill.get(served.url, dest.parent / "single", format="parquet", exclude=["*7"])
    assert (status.ledger["listed"], status.ledger["fetched"], dict(status.skipped_by)) == (
        single.listed,
        single.fetched,
        dict(single.skipped_by),
    )
    assert run("verify", dest).code == 0
    assert run("cat", dest, names(9)[8]).out == synthetic_body(names(9)[8], 100).decode()
    other = run("get", served.url, dest, *SHARED, "parquet", "--exclude", "*8")
    assert (other.code, "exclude is ['*7'] in the job at" in other.err) == (2, True), other.err


def test_process_killed_while_listing_is_replaced(
    server: Callable[..., Server], run: Run, start: Start, dest: Path
) -> None:
    """A waiting process lists instead, and a third one joins. `status` reports the listing before the job exists."""
    served = server(synthetic=3_000, page_size=100, list_delay=(0.1, 0.1))
    command = ("get", served.url, dest, *SHARED, "parquet")
    first = start(*command)
    while not list((dest / "claims").glob("listing.*")):
        time.sleep(0.02)
    assert "is being listed" in run("status", dest).err
    second, third = start(*command), start("join", dest)
    time.sleep(0.5)
    first.kill()

    assert (second.wait(60), third.wait(60)) == (0, 0)
    assert final_rows(dest) == dict.fromkeys(names(3_000), 1)
    assert not list(dest.rglob("listing.*"))


def test_interrupted_listing_releases_its_claim(
    server: Callable[..., Server], run: Run, start: Start, dest: Path
) -> None:
    """The next process does not wait for the lease, which is an hour here."""
    served = server(synthetic=200, page_size=100, list_delay=(0.5, 0.5))
    command = ("get", served.url, dest, "--shared", "--lease", "1h", "--format", "parquet")
    first = start(*command, stderr=subprocess.PIPE)
    while not list((dest / "claims").glob("listing.*")):
        time.sleep(0.01)

    first.send_signal(signal.SIGINT)

    assert "stopped before the job began" in first.communicate(timeout=60)[1]
    assert first.returncode == 128 + signal.SIGINT
    assert not (dest / "job.json").exists()
    assert run(*command).code == 0
    assert final_rows(dest) == dict.fromkeys(names(200), 1)


@pytest.mark.parametrize("at", ["heartbeats", "listing"])
def test_signal_during_thread_start_releases_claim(dest: Path, monkeypatch: pytest.MonkeyPatch, at: str) -> None:
    """The signal handler raises an exception while one of two threads is started."""
    start = threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        if thread.name == {"heartbeats": "fetchmill-heartbeat", "listing": "fetchmill-listing"}[at]:
            raise SystemExit(130)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    options = GetOptions(source="http://127.0.0.1:9/", dest=dest, format="jsonl", allow_private=True)

    with pytest.raises(SystemExit):
        create_or_join(options, 3600.0, lambda _text: None)

    (heartbeat,) = (dest / "workers").iterdir()
    assert json.loads(heartbeat.read_text())["state"] == "ended"


def test_objects_are_fetched_during_listing(server: Callable[..., Server], run: Run, start: Start, dest: Path) -> None:
    """All workers fetch parts of the incomplete list. The job is not finished before its list is complete."""
    count = 8_000
    served = server(synthetic=count, page_size=100, list_delay=(0.1, 0.1))
    workers = [start("get", served.url, dest, *SHARED, "parquet")]
    wait_for_job(dest)
    workers.append(start("join", dest))
    while not (status := fetchmill.shared_jobs.status(dest)).ledger["fetched"]:
        time.sleep(0.05)

    assert (status.is_listed, status.finished) == (False, False)
    text = run("status", dest).out
    assert "the source is being listed" in text
    assert "listing the source (" in text
    refused = run("export", dest, dest.parent / "all", "--format", "jsonl")
    assert (refused.code, "its listing is not complete" in refused.err) == (2, True), refused.err
    assert [worker.wait(60) for worker in workers] == [0, 0]
    assert final_rows(dest) == dict.fromkeys(names(count), 1)
    status = fetchmill.shared_jobs.status(dest)
    assert (status.is_listed, status.finished, status.bytes_done) == (True, True, status.bytes_of_list)
    assert run("verify", dest).code == 0
    # Each page was requested only once.
    assert served.stats()["list"] <= count // 100 + 1


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", range(12))
def test_faults_of_listing_workers_lose_and_duplicate_nothing(
    seed: int, server: Callable[..., Server], run: Run, start: Start, dest: Path
) -> None:
    """The listing worker is killed, drained, or frozen for longer than a lease. The others list the rest."""
    rng = random.Random(seed)
    count = 6_000
    served = server(synthetic=count, page_size=100, list_delay=(0.05, 0.15), delay=(0.0, 0.02))
    command = ("get", served.url, dest, *SHARED, "parquet", "-j", "16")
    workers = [start(*command)]
    wait_for_job(dest)
    workers += [start("join", dest) for _ in range(2)]
    for _ in range(rng.randint(1, 3)):
        time.sleep(rng.uniform(0.2, 3.0))
        victim = next((each for each in workers if f"-{each.pid}-" in lister(dest)), rng.choice(workers))
        fault = rng.choice((signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM))
        victim.send_signal(fault)
        if fault == signal.SIGSTOP:
            time.sleep(rng.uniform(0.5, 3.0))
            victim.send_signal(signal.SIGCONT)
        workers.append(start("join", dest))

    ended = run("resume", dest)
    for worker in workers:
        worker.wait(60)

    assert ended.code == 0, (seed, ended.err)
    assert final_rows(dest) == dict.fromkeys(names(count), 1), seed
    status = fetchmill.shared_jobs.status(dest)
    assert (status.finished, status.ledger["fetched"], status.set_aside) == (True, count, ()), seed
    files = json.loads((dest / "job.json").read_text())["files"]
    for path in (dest / "lists").iterdir():
        files += json.loads(path.read_text())["files"]
    assert {path.name for path in (dest / "list").iterdir()} == {Path(file["path"]).name for file in files}, seed


def test_rate_covers_pages_and_objects_together(server: Callable[..., Server], run: Run, dest: Path) -> None:
    """The listing worker divides its rate between pages and objects."""
    served = server(synthetic=600, page_size=10)

    started = time.monotonic()
    assert run("get", served.url, dest, *SHARED, "parquet", "--rate", "100").code == 0

    stats = served.stats()
    requests = stats["list"] + stats["get"]
    assert requests / (time.monotonic() - started) <= 105
    assert final_rows(dest) == dict.fromkeys(names(600), 1)


def wait_for_job(job: Path) -> None:
    """Waits until the first part of the list is in the job directory."""
    while not (job / "job.json").exists():
        time.sleep(0.02)


def lister(job: Path) -> str:
    """Returns the worker that has the newest claim on the listing."""
    found = ""
    for path in sorted((job / "claims").glob("listing.*")):
        with suppress(FileNotFoundError):
            found = str(json.loads(path.read_text())["worker"])
    return found


def test_token_is_sent_only_to_source(run: Run, dest: Path, tmp_path: Path) -> None:
    """The listing and each range use the token, but it is never stored. Workers without it are refused."""
    objects = {f"o{number}": b"%d" % number for number in range(50)}
    with TokenServer(objects, tmp_path) as served:
        token = ("--bearer-command", served.command)

        ended = run("get", served.url, dest, *SHARED, "jsonl", *token)

        assert ended.code == 0, ended.err
        with fetchmill.open(dest) as found:
            assert {name: found[name] for name in found} == objects
        refused = run("join", dest)
    assert (refused.code, "needs bearer_command" in refused.err) == (2, True)
    stored = b"".join(path.read_bytes() for path in dest.rglob("*") if path.is_file())
    assert SECRET.encode() not in stored
    assert str(served.runs).encode() not in stored


def test_bucket_source_is_shared_among_workers(run: Run, environment: dict[str, str], dest: Path) -> None:
    """Some keys need encoding in URLs. Each worker has its own credentials."""
    objects = {f"logs/{name}": name.encode() for name in ("a b+%", "größe/ß", "?q=1#f", "x//y", *map(str, range(300)))}
    with s3(objects | {"other": b"1"}) as store:
        env = environment | store.environment()
        options = ("--endpoint-url", store.url, *SHARED)

        ended = run("get", f"s3://{store.bucket}/logs/", dest, *options, "jsonl", "--size-from", "2", env=env)

        assert ended.code == 0, ended.err
        kept = {name: body for name, body in objects.items() if len(body) > 1}
        with fetchmill.open(dest) as found:
            assert {name: found[name] for name in found} == kept
        none = run("get", f"s3://{store.bucket}/lgos/", dest.parent / "none", *options, "jsonl", env=env)
        assert (none.code, "has no object" in none.err) == (2, True), none.err
        assert not (dest.parent / "none" / "list").exists()
    assert SECRET_KEY not in "".join(path.read_text() for path in dest.glob("*.json"))
