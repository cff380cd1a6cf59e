"""`fetchmill verify`: an intact destination passes, all damage is reported, and a repair fixes it."""

import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import fetchmill
from archive_index import index_of
from conftest import COMMAND, Ended
from fetchmill.testing import Fault, Server, synthetic_body
from foreign import STATE
from independent import read_ledger, synthetic_name
from stored import FORMATS, SUFFIXES, find_wrong, shards

SEED = int(os.environ.get("FETCHMILL_SEED") or time.time_ns() % 1_000_000)
COUNT = 3000
SIZE = 200
# Sizes that lead to several shards per format.
SHARD_SIZE = {"tar": "300KB", "parquet": "60KB", "warc": "300KB", "jsonl": "300KB"}
EXPECTED = {synthetic_name(index): synthetic_body(synthetic_name(index), SIZE) for index in range(COUNT)}

# The highest N for killing the process before a thread's N-th call of this kind.
CALLS_OF_SHARDS = {"fdatasync": 4, "renameat2": 4, "unlink": 4}

Run = Callable[..., Ended]


@dataclass
class Job:
    """A destination and the command that created it."""

    run: Run
    url: str
    dest: Path
    format: str
    expected: dict[str, bytes]

    def get(self, *more: str, code: int = 0) -> Ended:
        """Runs the job for the first time or again."""
        size = SHARD_SIZE.get(self.format, "1MB")
        options = ("--format", self.format, "--shard-size", size, "--quiet", "--commit-window", "0.1s")
        ended = self.run("get", self.url, self.dest, *options, *more)
        assert (ended.code, ended.err) == (code, "")
        return ended

    def verify(self, *more: str, code: int) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """Returns the findings and the report of a verification."""
        ended = self.run("verify", self.dest, "--json", *more)
        assert ended.code == code, (SEED, ended)
        events = [json.loads(line) for line in ended.out.splitlines()]
        return [event for event in events if event["event"] == "finding"], events[-1]

    def assert_mended(self) -> None:
        """Asserts that after a repair and another run of the job, every object is stored exactly once."""
        _, report = self.verify("--repair", code=0)
        # A killed repair may already have planned some of these objects.
        assert read_ledger(self.dest).fetched == report["fetched"] - report["planned"]
        self.get()
        assert find_wrong(self.dest, self.format, self.expected) == [], SEED
        assert read_ledger(self.dest).fetched == len(self.expected)
        self.verify(code=0)


@pytest.fixture
def job(run: Run, server: Callable[..., Server], dest: Path) -> Callable[[str], Job]:
    """Returns a function that fetches objects into a destination."""

    def fetch(format: str) -> Job:
        made = Job(run, server(synthetic=COUNT, size=SIZE).url, dest, format, EXPECTED)
        made.get()
        return made

    return fetch


@pytest.fixture
def rng() -> random.Random:
    """Returns a random generator whose seed FETCHMILL_SEED can set."""
    return random.Random(SEED)


@contextmanager
def journal(dest: Path) -> Iterator[sqlite3.Connection]:
    """Opens the journal so that a test can change it."""
    with closing(sqlite3.connect(dest / STATE / "job.sqlite")) as db:
        yield db
        db.commit()


def flip(path: Path, rng: random.Random, count: int = 1) -> None:
    """Changes some bytes of a file."""
    data = bytearray(path.read_bytes())
    for _ in range(count):
        data[rng.randrange(len(data))] ^= rng.randint(1, 255)
    path.write_bytes(data)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("format", [*FORMATS, "null"])
def test_intact_destination_passes_verify(job: Callable[[str], Job], format: str) -> None:
    """Every object is read, and nothing is changed."""
    made = job(format)
    before = {path: path.stat().st_mtime_ns for path in made.dest.rglob("*") if path.is_file()}

    findings, report = made.verify(code=0)

    assert findings == []
    assert (report["ok"], report["listed"], report["fetched"]) == (True, COUNT, COUNT)
    assert report["checked"] == (0 if format == "null" else COUNT)
    for path, time_ns in before.items():
        assert path.suffix in {".sqlite-shm", ".sqlite-wal"} or path.stat().st_mtime_ns == time_ns


@pytest.mark.sampled(1)
@pytest.mark.parametrize("format", SUFFIXES)
def test_flipped_shard_bytes_are_found_and_repaired(job: Callable[[str], Job], rng: random.Random, format: str) -> None:
    """The finding names the shard and its damaged objects."""
    made = job(format)
    damaged = rng.sample(shards(made.dest, format), 2)
    for path in damaged:
        flip(path, rng, 3)

    findings, report = made.verify(code=10)

    files = {finding["name"] for finding in findings if finding["objects"] == 0}
    assert files == {path.name for path in damaged}, SEED
    numbers = {int(path.name.split("-")[1].split(".")[0]) for path in damaged}
    assert {finding["shard"] for finding in findings} == numbers
    assert all(finding["what"] == "damaged" for finding in findings)
    assert report["damaged"] == len(findings)
    made.assert_mended()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("format", SUFFIXES)
def test_missing_shard_is_found_and_repaired(job: Callable[[str], Job], rng: random.Random, format: str) -> None:
    """Each object of the shard is reported."""
    made = job(format)
    gone = rng.choice(shards(made.dest, format))
    number = int(gone.name.split("-")[1].split(".")[0])
    with journal(made.dest) as db:
        objects = db.execute("SELECT objects FROM shards WHERE number = ?", [number + 1]).fetchone()[0]
    gone.unlink()

    findings, report = made.verify(code=10)

    assert {finding["what"] for finding in findings} == {"missing"}
    names = {finding["name"] for finding in findings if finding["objects"]}
    assert len(names) == objects
    assert names <= set(EXPECTED)
    assert report["missing"] == objects + 1
    made.assert_mended()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("format", SUFFIXES)
def test_duplicate_shard_is_found_and_removed(job: Callable[[str], Job], format: str) -> None:
    """The copy with the higher number is removed."""
    made = job(format)
    first, copy = shards(made.dest, format)[0], f"{len(shards(made.dest, format)) + 7:06}"
    shutil.copy(first, made.dest / f"shard-{copy}{SUFFIXES[format]}")
    index = made.dest / STATE / "index"
    shutil.copy(index / "shard-000000.manifest", index / f"shard-{copy}.manifest")
    columns = "path, end, crc32c, manifest, manifest_end, manifest_crc32c, objects, bytes"
    with journal(made.dest) as db:
        rows = f"SELECT ?, {columns} FROM shards WHERE number = 1"  # noqa: S608 - a constant
        db.execute(f"INSERT INTO shards (number, {columns}) {rows}", [int(copy) + 1])
        if format == "warc":
            shutil.copy(index_of(first), made.dest / f"shard-{copy}.cdxj")
            db.execute("INSERT INTO job SELECT ?, value FROM job WHERE key = 'cdxj-0'", [f"cdxj-{int(copy)}"])

    findings, report = made.verify(code=10)

    assert {(finding["what"], finding["shard"]) for finding in findings} == {("doubled", int(copy))}
    assert report["doubled"] == len(findings)
    made.assert_mended()
    assert not list(made.dest.glob(f"shard-{copy}.*"))
    assert first.exists()


@pytest.mark.parametrize("format", SUFFIXES)
def test_damaged_manifest_is_reported_but_not_repaired(
    job: Callable[[str], Job], rng: random.Random, format: str
) -> None:
    """The lost names cannot be planned again. The repair says so and leaves the shard unchanged."""
    made = job(format)
    manifest = rng.choice(sorted((made.dest / STATE / "index").glob("*.manifest")))
    data = bytearray(manifest.read_bytes())
    data[10:60] = bytes(50)
    manifest.write_bytes(data)

    findings, _ = made.verify(code=10)
    assert any(finding["name"] == manifest.name for finding in findings)

    before = sorted(path.name for path in shards(made.dest, format))
    _, report = made.verify("--repair", code=10)
    assert report["unnamed"] > 0
    assert not report["mended"]
    assert sorted(path.name for path in shards(made.dest, format)) == before


def test_files_are_compared_with_manifests(job: Callable[[str], Job], rng: random.Random) -> None:
    """Damaged, longer, shorter, missing and unknown files are reported."""
    made = job("files")
    flipped, longer, shorter, gone, linked = rng.sample(sorted(EXPECTED), 5)
    flip(made.dest / flipped, rng)
    (made.dest / longer).write_bytes(EXPECTED[longer] + b"x")
    (made.dest / shorter).write_bytes(EXPECTED[shorter][:-1])
    (made.dest / gone).unlink()
    (made.dest / linked).unlink()
    (made.dest / linked).symlink_to(made.dest / flipped)
    (made.dest / "new").mkdir()
    (made.dest / "new/file").write_bytes(b"mine")

    findings, report = made.verify(code=10)

    found = {(finding["what"], finding["name"]) for finding in findings}
    damaged = {("damaged", name) for name in (flipped, longer, shorter)}
    assert found == damaged | {("missing", gone), ("missing", linked), ("unknown", "new/file")}
    assert (report["damaged"], report["missing"], report["unknown"]) == (3, 2, 1)

    (made.dest / linked).unlink()
    made.verify("--repair", code=10)
    assert (made.dest / "new/file").read_bytes() == b"mine"
    shutil.rmtree(made.dest / "new")
    made.get()
    assert find_wrong(made.dest, "files", EXPECTED) == []
    made.verify(code=0)


def test_unknown_shard_is_reported_and_kept(job: Callable[[str], Job]) -> None:
    """A shard that the journal does not contain is left where it is."""
    made = job("tar")
    shutil.copy(shards(made.dest, "tar")[0], made.dest / "shard-000099.tar")

    findings, _ = made.verify("--repair", code=10)

    assert [(finding["what"], finding["name"]) for finding in findings] == [("unknown", "shard-000099.tar")]
    assert (made.dest / "shard-000099.tar").exists()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("format", ["files", "tar", "parquet", "null"])
def test_verify_checks_ledger_counts(run: Run, server: Callable[..., Server], dest: Path, format: str) -> None:
    """Failed and absent targets are part of the ledger. Counters that were changed are detected."""
    faults = [Fault("status", status=404, rate=0.02), Fault("status", status=403, rate=0.02)]
    made = Job(run, server(synthetic=COUNT, size=SIZE, faults=faults).url, dest, format, {})
    made.get(code=3)
    _, report = made.verify(code=0)
    assert report["absent"] > 0
    assert report["failed"] > 0

    with journal(dest) as db:
        db.execute("UPDATE tally SET absent = absent + 1, fetched = fetched - 1")
    findings, _ = made.verify(code=10)
    assert {finding["name"] for finding in findings} == {"the journal's counters"}

    with journal(dest) as db:
        db.execute("UPDATE tally SET absent = absent - 1, fetched = fetched + 1")
        db.execute("UPDATE tally SET next_sequence = next_sequence + 2, listed = listed + 2")
    findings, report = made.verify(code=10)
    assert "missing" in {finding["what"] for finding in findings} or format == "null"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("format", FORMATS)
def test_verify_accepts_pending_targets_of_killed_job(
    start: Callable[..., subprocess.Popen[str]], run: Run, server: Callable[..., Server], dest: Path, format: str
) -> None:
    """Pending targets are not an error. A running job cannot be verified."""
    made = Job(run, server(synthetic=COUNT, size=SIZE, delay=(0.0, 0.3)).url, dest, format, EXPECTED)
    size = SHARD_SIZE.get(format, "1MB")
    options = ("--format", format, "--shard-size", size, "--seal-after", "0.2s", "--commit-window", "0.1s")
    # The job takes ten seconds, so that `verify` can start during the job even on a busy machine.
    process = start("get", made.url, dest, *options, "--rate", COUNT // 10)
    deadline = time.monotonic() + 60
    while not (dest / STATE / "job.sqlite").exists() or read_ledger_or_zero(dest) < COUNT / 5:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert run("verify", dest).code == 9
    process.send_signal(signal.SIGKILL)
    process.wait()

    findings, report = made.verify(code=0)
    assert findings == []
    assert report["pending"] > 0

    made.get()
    made.verify(code=0)
    assert find_wrong(dest, format, EXPECTED) == []


def read_ledger_or_zero(dest: Path) -> int:
    """Returns the number of finished targets, or 0 while the tables are being created."""
    try:
        return read_ledger(dest).settled
    except sqlite3.Error:
        return 0


@pytest.mark.one_in(3)
@pytest.mark.sampled(1)
@pytest.mark.parametrize("format", ["files", "tar", "parquet"])
def test_verify_compares_objects_with_origin(
    job: Callable[[str], Job], server: Callable[..., Server], run: Callable[..., Ended], tmp_path: Path, format: str
) -> None:
    """The origin is that of the job, or another one with changed and missing objects. The last line has the result."""
    made = job(format)
    _, report = made.verify("--sample", "50", code=0)
    assert report["compared"] == 50

    folder = tmp_path / "other"
    folder.mkdir()
    for name, body in EXPECTED.items():
        (folder / name).write_bytes(body)
    changed, gone = synthetic_name(3), synthetic_name(4)
    (folder / changed).write_bytes(b"x" * SIZE)
    (folder / gone).unlink()
    other = server(folder)
    findings, report = made.verify("--against", other.url, "--sample", str(COUNT), code=3)

    assert {(finding["what"], finding["name"]) for finding in findings} == {("differs", changed), ("absent-now", gone)}
    assert (report["compared"], report["differs"], report["absent_now"], report["findings"]) == (COUNT, 1, 1, 0)

    ended = run("verify", made.dest, "--against", other.url, "--sample", str(COUNT))
    last = ended.err.splitlines()[-1]
    assert ended.code == 3
    assert last.startswith(
        f"found: 2 of {COUNT:,} compared objects differ from the origin; the stored objects are complete"
    )
    assert "verified: " not in ended.err


@pytest.mark.one_in(3)
@pytest.mark.sampled(1)
@pytest.mark.parametrize("format", FORMATS)
def test_killed_repair_is_completed_by_second_repair(
    job: Callable[[str], Job], environment: dict[str, str], rng: random.Random, format: str
) -> None:
    """The kills hit random system calls. The second repair and another run of the job complete the destination."""
    made = job(format)
    picture = made.dest.with_name("picture")
    shutil.copytree(made.dest, picture)
    killed = 0
    for _ in range(4):
        shutil.rmtree(made.dest)
        shutil.copytree(picture, made.dest)
        if format == "files":
            for name in rng.sample(sorted(EXPECTED), 20):
                flip(made.dest / name, rng)
        else:
            for path in rng.sample(shards(made.dest, format), 2):
                flip(path, rng, 2)
        calls = {"pwrite64": 12, "fsync": 3} | ({"unlinkat": 20, "syncfs": 1} if format == "files" else CALLS_OF_SHARDS)
        call = rng.choice(sorted(calls))
        inject = f"inject={call}:signal=SIGKILL:when={rng.randint(1, calls[call])}"
        trace = ("strace", "-f", "-o", "/dev/null", "-e", f"trace={call}", "-e", inject)
        ended = subprocess.run(
            [*trace, *COMMAND, "verify", str(made.dest), "--repair", "--quiet"],
            env=environment,
            capture_output=True,
            check=False,
            timeout=120,
        )
        killed += ended.returncode == -signal.SIGKILL
        made.assert_mended()
    assert killed > 0, SEED


def test_findings_are_printed_as_lines_and_returned_in_python(job: Callable[[str], Job], run: Run) -> None:
    """The first twenty findings are printed unless all of them are requested."""
    made = job("files")
    for index in range(30):
        (made.dest / synthetic_name(index)).unlink()

    shown = run("verify", made.dest)
    assert (shown.code, len(shown.out.splitlines())) == (10, 20)
    assert "... and 10 more: --all shows them" in shown.err
    assert "--repair" in shown.err
    lines = run("verify", made.dest, "--all").out.splitlines()
    names = sorted(line.split("\t")[1] for line in lines)
    assert names == [synthetic_name(index) for index in range(30)]

    found: list[fetchmill.Finding] = []
    report = fetchmill.verify(made.dest, on_finding=found.append)
    assert sorted(finding.name for finding in found) == names
    assert (report.ok, report.missing, report.checked) == (False, 30, COUNT)


def test_verify_refuses_folder_without_job(run: Run, tmp_path: Path) -> None:
    """The error is one line."""
    ended = run("verify", tmp_path)

    assert ended.code == 2
    assert "holds no fetchmill job" in ended.err
