"""`fetchmill export` of shared jobs: the objects of all ranges are exported once, even after kills."""

import errno
import json
import os
import random
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event

import pytest

import fetchmill
from conftest import COMMAND, Ended
from fetchmill._destination.shared_export import shared_input
from fetchmill._native import Export
from fetchmill._shared.bucket_store import BucketStore
from fetchmill._shared.folders import CopiesFolder, RangeCopies
from fetchmill.testing import S3Store, Server, s3, synthetic_body
from independent import synthetic_name
from stored import find_wrong

SEED = int(os.environ.get("FETCHMILL_SEED") or time.time_ns() % 1_000_000)
COUNT = 6_000
SIZE = 300
OPTIONS = ("--shared", "--allow-private", "--format")

Run = Callable[..., Ended]


def write_lists(folder: Path, server: Server) -> dict[str, bytes]:
    """Writes three lists with all objects and one absent target. Returns the objects by URL."""
    urls = [f"{server.url}/get/{synthetic_name(index)}" for index in range(COUNT)]
    folder.mkdir()
    for number in range(3):
        (folder / f"{number}.txt").write_text("\n".join(urls[number::3]))
    (folder / "absent.txt").write_text(f"{server.url}/get/nothing\n")
    return {url: synthetic_body(url.rpartition("/")[2], SIZE) for url in urls}


@pytest.mark.parametrize(("source", "format"), [("parquet", "tar"), ("tar", "jsonl"), ("jsonl", "files")])
def test_shared_export_has_objects_of_all_ranges(
    run: Run,
    environment: dict[str, str],
    server: Callable[..., Server],
    tmp_path: Path,
    source: str,
    format: str,
) -> None:
    """The export is killed at random moments and resumed."""
    rng = random.Random(SEED)
    expected = write_lists(tmp_path / "lists", server(synthetic=COUNT, size=SIZE))
    assert run("get", "lists", "job", *OPTIONS, source).code == 0
    assert len(list((tmp_path / "job" / "commits").iterdir())) == 4
    command = ("export", "job", "all", "--format", format, "--shard-size", "200KB", "--quiet")
    killed = 0
    for _ in range(3):
        call, most = rng.choice([("pwrite64", 20), ("fsync", 4)])
        inject = f"inject={call}:signal=SIGKILL:when={rng.randint(1, most)}"
        trace = ["strace", "-f", "-o", "/dev/null", "-e", f"trace={call}", "-e", inject]
        traced = subprocess.run(
            [*trace, *COMMAND, *command], env=environment, cwd=tmp_path, capture_output=True, check=False, timeout=120
        )
        killed += traced.returncode == -signal.SIGKILL

    ended = run(*command)

    assert (ended.code, ended.err) == (0, ""), SEED
    assert killed > 0, SEED
    if format == "files":
        expected = {url.partition("://")[2]: body for url, body in expected.items()}
    assert find_wrong(tmp_path / "all", format, expected) == [], SEED
    assert run("verify", "all").code == 0
    status = fetchmill.status(tmp_path / "all")
    assert (status.source, status.fetched) == ("export of lists", COUNT)


def test_export_of_unfinished_shared_job_is_refused(run: Run, server: Callable[..., Server], tmp_path: Path) -> None:
    """The error names the ranges without a commit record and the command that resumes the job."""
    write_lists(tmp_path / "lists", server(synthetic=COUNT, size=SIZE))
    assert run("get", "lists", "job", *OPTIONS, "tar").code == 0
    next((tmp_path / "job" / "commits").iterdir()).unlink()

    ended = run("export", "job", "all", "--format", "files")

    assert ended.code == 2
    assert "the shared job of job is not finished (open ranges: 1)" in ended.err
    assert "fetchmill resume job" in ended.err
    assert not (tmp_path / "all").exists()


@pytest.fixture
def store() -> Iterator[S3Store]:
    """Returns an S3 store."""
    with s3() as store:
        yield store


def reach(store: S3Store, folder: Path, environment: dict[str, str]) -> tuple[dict[str, str], tuple[str, str]]:
    """Returns an environment with credentials but without an endpoint, and the option for the endpoint."""
    folder.mkdir()
    own = {name: value for name, value in store.environment().items() if "ENDPOINT" not in name}
    return environment | own | {"TMPDIR": str(folder)}, ("--endpoint-url", store.url)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("source", "format"), [("parquet", "jsonl"), ("warc", "tar")])
def test_bucket_job_export_has_objects_of_all_ranges(
    run: Run,
    environment: dict[str, str],
    store: S3Store,
    server: Callable[..., Server],
    tmp_path: Path,
    source: str,
    format: str,
) -> None:
    """The export is killed at random moments and resumed. It leaves no local copies."""
    rng = random.Random(SEED)
    env, endpoint = reach(store, tmp_path / "temporary", environment)
    expected = write_lists(tmp_path / "lists", server(synthetic=COUNT, size=SIZE))
    job = f"s3://{store.bucket}/run"
    assert run("get", "lists", job, *OPTIONS, source, *endpoint, env=env).code == 0
    command = ("export", job, "all", "--format", format, "--shard-size", "200KB", "--quiet", *endpoint)
    killed = 0
    for _ in range(3):
        call, most = rng.choice([("pwrite64", 20), ("fsync", 4)])
        inject = f"inject={call}:signal=SIGKILL:when={rng.randint(1, most)}"
        trace = ["strace", "-f", "-o", "/dev/null", "-e", f"trace={call}", "-e", inject]
        traced = subprocess.run(
            [*trace, *COMMAND, *command], env=env, cwd=tmp_path, capture_output=True, check=False, timeout=120
        )
        killed += traced.returncode == -signal.SIGKILL
    left = set((tmp_path / "temporary").iterdir())

    ended = run(*command, env=env)

    assert (ended.code, ended.err) == (0, ""), SEED
    assert killed > 0, SEED
    assert find_wrong(tmp_path / "all", format, expected) == [], SEED
    assert set((tmp_path / "temporary").iterdir()) == left
    assert run("verify", "all").code == 0
    status = fetchmill.status(tmp_path / "all")
    assert (status.source, status.fetched) == ("export of lists", COUNT)


class Blocking(RangeCopies):
    """Copies that block until they are stopped."""

    def __init__(self, store: BucketStore) -> None:
        super().__init__(store)
        self.begun, self.stopped = Event(), Event()

    def copy(self, attempt: str, with_objects: bool) -> str | None:
        """Waits until `stop` is called, and then copies."""
        if with_objects:
            self.begun.set()
            self.stopped.wait()
        return super().copy(attempt, with_objects)

    def stop(self) -> None:
        """Stops the copies and ends the wait of `copy`."""
        super().stop()
        self.stopped.set()


class Refusing(RangeCopies):
    """Copies that fail."""

    def copy(self, attempt: str, with_objects: bool) -> str | None:
        """Raises an error."""
        raise fetchmill.StorageError(f"no room for {attempt}, {with_objects}")


def test_python_export_of_bucket_job_works(
    run: Run,
    environment: dict[str, str],
    store: S3Store,
    server: Callable[..., Server],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All functions accept the endpoint. If a copy is stopped or fails, the export ends with the matching error."""
    env, endpoint = reach(store, tmp_path / "temporary", environment)
    write_lists(tmp_path / "lists", server(synthetic=COUNT, size=SIZE))
    job = f"s3://{store.bucket}/run"
    assert run("get", "lists", job, *OPTIONS, "tar", *endpoint, env=env).code == 0
    for name, value in (env | store.environment()).items():
        monkeypatch.setenv(name, value)
    with fetchmill.open(job, endpoint_url=store.url) as objects:
        assert len(objects) == COUNT
    assert fetchmill.verify(job, endpoint_url=store.url).ok
    assert len(list(fetchmill.failures(job, endpoint_url=store.url))) == 1
    assert fetchmill.skipped(job, endpoint_url=store.url) == []

    bucket, found = BucketStore.open(job, {}), shared_input(job, {})
    options = {"dest": job, "source": found.source, "ranges": found.ranges, "format": "jsonl"}
    for drops in (False, True):
        copies = Blocking(bucket)
        running = Export(json.dumps(options | {"other": str(tmp_path / "all")}), copies)
        assert copies.begun.wait(60)
        if drops:
            del running
        else:
            running.stop()
            assert running.wait(60)
            assert running.report()["interrupted"]
        assert copies.stopped.is_set()
        copies.close()
    with pytest.raises(fetchmill.StorageError, match="no room for 00000-"):
        Export(json.dumps(options | {"other": str(tmp_path / "all")}), Refusing(bucket))

    shard = next(f"data/{found.ranges[1]}/{name}" for name in bucket.objects(found.ranges[1]) if "shard" in name)
    content = bucket.read(shard) or b""
    bucket.replace(shard, content[:1000])
    with pytest.raises(fetchmill.JournalError, match=f"^{job}/{shard} "):
        fetchmill.export(job, tmp_path / "all", format="jsonl", endpoint_url=store.url)
    bucket.replace(shard, content)
    report = fetchmill.export(job, tmp_path / "all", format="jsonl", endpoint_url=store.url)
    assert (report.fetched, report.source) == (COUNT, job)
    assert fetchmill.export(job, tmp_path / "all", format="jsonl", endpoint_url=store.url).already_finished


def test_export_keeps_one_local_copy_and_can_be_stopped(store: S3Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """An export needs local space for only one range."""
    for name, value in store.environment().items():
        monkeypatch.setenv(name, value)
    for attempt in ("a", "b"):
        for name in (".fetchmill/job.sqlite", ".fetchmill/manifests/1", "shard-1.tar"):
            store.put(f"run/data/{attempt}/{name}", attempt.encode())
    copies = RangeCopies(BucketStore.open(f"s3://{store.bucket}/run", {}))

    journal = Path(copies.copy("a", False) or "")
    assert files_in(journal) == {".fetchmill/job.sqlite"}
    whole = Path(copies.copy("b", True) or "")
    assert files_in(whole) == {".fetchmill/job.sqlite", ".fetchmill/manifests/1", "shard-1.tar"}
    assert (whole / "shard-1.tar").read_bytes() == b"b"
    assert list(whole.parent.iterdir()) == [whole]
    copies.stop()
    assert copies.copy("a", True) is None
    copies.close()
    assert not whole.parent.exists()


def test_export_copies_without_folder_raise_storage_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says what to do and is not an internal error."""

    def full(*_arguments: object, **_options: object) -> str:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tempfile, "mkdtemp", full)

    with pytest.raises(fetchmill.StorageError, match=r"\(No space left on device\); set TMPDIR to another folder"):
        CopiesFolder().path()


def files_in(folder: Path) -> set[str]:
    """Returns the relative names of all files in a folder."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
