"""`fetchmill export` of a shared job: the objects of all ranges, each once, also after kills."""

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import fetchmill
from conftest import COMMAND, Ended
from fetchmill._destination.shared_export import source_and_ranges
from fetchmill.testing import Server, synthetic_body
from independent import synthetic_name
from stored import find_wrong

SEED = int(os.environ.get("FETCHMILL_SEED") or time.time_ns() % 1_000_000)
COUNT = 6_000
SIZE = 300
OPTIONS = ("--shared", "--allow-private", "--format")

Run = Callable[..., Ended]


def write_lists(folder: Path, server: Server) -> dict[str, bytes]:
    """Writes three lists with all objects and an absent target. Returns the objects by URL."""
    urls = [f"{server.url}/get/{synthetic_name(index)}" for index in range(COUNT)]
    folder.mkdir()
    for number in range(3):
        (folder / f"{number}.txt").write_text("\n".join(urls[number::3]))
    (folder / "absent.txt").write_text(f"{server.url}/get/nothing\n")
    return {url: synthetic_body(url.rpartition("/")[2], SIZE) for url in urls}


@pytest.mark.parametrize(("source", "format"), [("parquet", "tar"), ("tar", "jsonl"), ("jsonl", "files")])
def test_an_export_has_the_objects_of_all_ranges(
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


def test_an_unfinished_job_is_refused(run: Run, server: Callable[..., Server], tmp_path: Path) -> None:
    """The error has the ranges without a commit record, and the command that continues the job."""
    write_lists(tmp_path / "lists", server(synthetic=COUNT, size=SIZE))
    assert run("get", "lists", "job", *OPTIONS, "tar").code == 0
    next((tmp_path / "job" / "commits").iterdir()).unlink()

    ended = run("export", "job", "all", "--format", "files")

    assert ended.code == 2
    assert "the shared job of job is not finished (open ranges: 1)" in ended.err
    assert "fetchmill resume job" in ended.err
    assert not (tmp_path / "all").exists()


def test_a_bucket_is_refused() -> None:
    """A shared job in a bucket is refused, because an export reads folders."""
    with pytest.raises(fetchmill.UsageError, match="s3://b/job is in a bucket, but export reads only folders"):
        source_and_ranges("s3://b/job")
