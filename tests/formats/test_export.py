"""`fetchmill export` converts each format into each other, with the same names and bytes, even after interruptions."""

import json
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
from fetchmill._destination.export import ExportFormat
from fetchmill.testing import Server, serve, synthetic_body
from independent import find_problems, find_unbalanced, read_ledger, synthetic, synthetic_name
from raw_server import RawServer, mirror, reply
from stored import FORMATS, SUFFIXES, find_wrong, read_objects, shards

SEED = int(os.environ.get("FETCHMILL_SEED") or time.time_ns() % 1_000_000)
COUNT = 1500
SIZE = 300
EXPECTED = {synthetic_name(index): synthetic_body(synthetic_name(index), SIZE) for index in range(COUNT)}
SHARD_SIZE = ("--shard-size", "150KB")

# Maximum N for a kill before the Nth such call of a thread.
CALLS_OF_FILES = {"renameat2": 5000, "syncfs": 2}
CALLS_OF_SHARDS = {"fdatasync": 4, "renameat2": 4}

Run = Callable[..., Ended]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("source", FORMATS)
def test_export_converts_between_all_formats(
    run: Run, server: Callable[..., Server], memory_path: Path, source: str
) -> None:
    """Each result is a destination that can be verified."""
    dest = memory_path / "from"
    assert run("get", server(synthetic=COUNT, size=SIZE).url, dest, "--format", source, *SHARD_SIZE).code == 0
    for format in FORMATS:
        other = memory_path / f"to-{format}"

        ended = run("export", dest, other, "--format", format, *SHARD_SIZE, "--json")

        assert (ended.code, ended.err) == (0, "")
        report = json.loads(ended.out.splitlines()[-1])
        assert (report["listed"], report["fetched"], report["bytes"]) == (COUNT, COUNT, COUNT * SIZE)
        assert find_wrong(other, format, EXPECTED) == []
        assert find_unbalanced(other) == []
        assert run("verify", other).code == 0
        if format == "files":
            assert not [problem for problem in find_problems(other, synthetic(COUNT, SIZE)) if "left" not in problem]
        again = run("export", dest, other, "--format", format, *SHARD_SIZE)
        assert (again.code, "already complete" in again.err) == (0, True)


@pytest.mark.one_in(3)
@pytest.mark.sampled(1)
@pytest.mark.parametrize("format", FORMATS)
def test_killed_export_resumes(
    run: Run, environment: dict[str, str], server: Callable[..., Server], memory_path: Path, format: str
) -> None:
    """`kill -9` hits at random moments. At the end, each object is stored exactly once."""
    rng = random.Random(SEED)
    count = 20_000
    dest, other = memory_path / "from", memory_path / "to"
    assert run("get", server(synthetic=count, size=SIZE).url, dest, "--format", "tar").code == 0
    command = ("export", str(dest), str(other), "--format", format, "--shard-size", "1MB", "--quiet")
    calls = {"pwrite64": 30, "fsync": 5} | (CALLS_OF_FILES if format == "files" else CALLS_OF_SHARDS)
    killed = 0
    for _ in range(5):
        call = rng.choice(sorted(calls))
        inject = f"inject={call}:signal=SIGKILL:when={rng.randint(1, calls[call])}"
        trace = ["strace", "-f", "-o", "/dev/null", "-e", f"trace={call}", "-e", inject]
        traced = subprocess.run(
            [*trace, *COMMAND, *command], env=environment, capture_output=True, check=False, timeout=120
        )
        killed += traced.returncode == -signal.SIGKILL
        assert traced.returncode in {0, -signal.SIGKILL}, (SEED, traced)

    ended = run(*command)

    assert (ended.code, ended.err) == (0, ""), SEED
    assert killed > 0
    expected = {synthetic_name(index): synthetic_body(synthetic_name(index), SIZE) for index in range(count)}
    assert find_wrong(other, format, expected) == [], SEED
    assert read_ledger(other).fetched == count
    assert run("verify", other).code == 0


@pytest.mark.thorough
def test_signal_ends_export_after_checkpoint(
    run: Run, start: Callable[..., subprocess.Popen[str]], server: Callable[..., Server], memory_path: Path
) -> None:
    """The same command resumes the export."""
    count = 30_000
    dest, other = memory_path / "from", memory_path / "to"
    assert run("get", server(synthetic=count, size=SIZE).url, dest, "--format", "tar").code == 0
    process = start("export", dest, other, "--format", "files")
    while not (other / ".fetchmill/stage").exists():
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    process.wait()
    assert process.returncode in {130, 0}

    assert run("export", dest, other, "--format", "files").code == 0
    assert sum(1 for _ in read_objects(other, "files")) == count


def test_export_fails_names_that_collide_on_disk(run: Run, raw: Callable[..., RawServer], tmp_path: Path) -> None:
    """Shards keep both objects; `files` keeps only the first. A name that cannot be a path also fails."""
    names = ["a", "a", "b", "b/c", "../d", "e\n"]
    source = raw(mirror(names) | {"/get/%2E%2E/d": reply(b"../d")}).url
    ended = run("get", source, tmp_path / "one", "--format", "jsonl", "--threads", "1", "--concurrency", "1")
    assert ended.code == 0, ended

    assert run("export", "one", "two", "--format", "parquet", "--quiet").code == 0
    ended = run("export", "two", "files", "--format", "files", "--quiet")

    assert (ended.code, ended.err) == (3, "")
    assert sorted(read_objects(tmp_path / "two", "parquet")) == sorted((name, name.encode()) for name in names)
    assert dict(read_objects(tmp_path / "files", "files")) == {"a": b"a", "b": b"b", "e\n": b"e\n"}
    failures = {(failure.name, failure.kind) for failure in fetchmill.failures(tmp_path / "files")}
    assert failures == {("a", "name-taken"), ("b/c", "name-taken"), ("../d", "name")}
    assert run("verify", "files").code == 0


def test_large_objects_are_exported_in_pieces(run: Run, tmp_path: Path) -> None:
    """No large object is in memory as a whole."""
    folder = tmp_path / "served"
    folder.mkdir()
    bodies = {f"{size}": os.urandom(size) for size in (0, 1, 1 << 20, (1 << 20) + 1, 5 << 20)}
    for name, body in bodies.items():
        (folder / name).write_bytes(body)
    with serve(folder) as source:
        assert run("get", source.url, tmp_path / "files").code == 0
    before = tmp_path / "files"
    formats: tuple[ExportFormat, ...] = ("tar", "parquet", "warc", "jsonl", "files")
    for format in formats:
        after = tmp_path / f"as-{format}"
        assert fetchmill.export(before, after, format=format).fetched == len(bodies)
        assert find_wrong(after, format, bodies) == []
        assert fetchmill.verify(after).ok
        before = after


def test_damaged_object_stops_export(run: Run, server: Callable[..., Server], tmp_path: Path) -> None:
    """The error says what to do."""
    dest = tmp_path / "from"
    assert run("get", server(synthetic=COUNT, size=SIZE).url, dest, "--format", "jsonl").code == 0
    path = shards(dest, "jsonl")[0]
    data = bytearray(path.read_bytes())
    data[data.index(b'"body":"') + 12] ^= 1
    path.write_bytes(data)

    ended = run("export", dest, tmp_path / "to", "--format", "tar", "--quiet")

    assert ended.code == 10
    assert "fetchmill verify" in ended.err


@pytest.mark.sampled(1)
@pytest.mark.parametrize("format", SUFFIXES)
def test_export_source_and_format_are_part_of_job_identity(
    run: Run, server: Callable[..., Server], tmp_path: Path, format: str
) -> None:
    """An export of another source, or to another format, is another job."""
    source = server(synthetic=50).url
    for name in ("one", "two"):
        assert run("get", source, tmp_path / name, "--format", format).code == 0
    assert run("export", "one", "to", "--format", "files").code == 0

    for command in (("two", "to", "--format", "files"), ("one", "to", "--format", "tar")):
        refused = run("export", *command)
        assert refused.code == 2
        assert "belongs to another job" in refused.err
    assert run("export", "one", "one", "--format", "tar").code == 2
    assert run("export", "one", "x", "--format", "null").code == 2


def test_export_to_bucket_is_refused(run: Run, server: Callable[..., Server], tmp_path: Path) -> None:
    """Otherwise, the objects would go to a local folder named `s3:`."""
    assert run("get", server(synthetic=2).url, "one").code == 0

    refused = run("export", "one", "s3://bucket/all", "--format", "tar")

    assert (refused.code, "must be a folder, not the bucket prefix s3://bucket/all" in refused.err) == (2, True)
    assert [path.name for path in tmp_path.iterdir()] == ["one"]
