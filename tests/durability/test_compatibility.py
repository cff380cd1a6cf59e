"""Destinations of older releases can be resumed, verified, read, exported, served and repaired.

docs/reference/compatibility.md has the promises; `make fixtures` creates the archives of a release.
"""

import csv
import json
import re
import sqlite3
import struct
import subprocess
import urllib.request
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import fetchmill
from compatibility_fixtures import ARCHIVES, ENVIRONMENT, Fixture, arguments_of, find_archives, read_fixture, unpack
from conftest import Ended
from fetchmill.testing import serve
from foreign import STATE, SUFFIXES
from independent import find_problems, read_ledger, synthetic_name
from independent import find_wrong as find_wrong_bodies
from stored import find_wrong

FIXTURES = {f"{archive.parent.name}-{archive.name.partition('.')[0]}": archive for archive in find_archives()}
READ = {id: read_fixture(archive) for id, archive in FIXTURES.items()}
NEWER = 99
RUNS = struct.Struct("<QQ")

Command = Callable[..., Ended]


def having(**wanted: object) -> list[str]:
    """Returns the fixtures with these properties."""
    return [id for id, one in READ.items() if all(getattr(one, name) == value for name, value in wanted.items())]


class OldJob:
    """A job as its release left it, in its own folder."""

    def __init__(self, id: str, folder: Path, run: Command, environment: dict[str, str]) -> None:
        self.fixture: Fixture = READ[id]
        self.source = self.fixture.source
        self.folder = unpack(FIXTURES[id], folder)
        self.dest = self.folder / "out"
        self._run, self._environment = run, environment | ENVIRONMENT

    def run(self, *arguments: object, code: int = 0) -> Ended:
        """Runs a command of this release."""
        ended = self.try_to(*arguments)
        assert (ended.code, ended.err) == (code, ""), ended
        return ended

    def try_to(self, *arguments: object) -> Ended:
        """Runs a command of this release, which may fail."""
        return self._run(*arguments, cwd=self.folder, env=self._environment)

    def go_on(self, *more: str, code: int = 0) -> Ended:
        """Runs the last command of the old release again."""
        return self.run(*self.fixture.commands[-1], *more, code=code)

    def assert_complete(self, *, mended: bool = False) -> None:
        """Checks that every object is stored once, with independent readers, the journal and `verify`."""
        assert find_problems(self.dest, self.source.expected(mended=mended), self.fixture.format) == []
        self.run("verify", "out", "--quiet")


@pytest.fixture
def job(request: pytest.FixtureRequest, tmp_path: Path, run: Command, environment: dict[str, str]) -> OldJob:
    """Unpacks the job of a fixture."""
    return OldJob(request.param, tmp_path, run, environment)


def each(**wanted: object) -> pytest.MarkDecorator:
    """Parametrizes a test with the fixtures that match."""
    return pytest.mark.parametrize("job", having(**wanted), indirect=True)


def test_each_release_has_fixtures(root: Path) -> None:
    """The changelog lists the releases; 0.1.0 was the first."""
    released = {"0.1.0", *re.findall(r"^## \[(\d+\.\d+\.\d+)\]", (root / "CHANGELOG.md").read_text(), re.MULTILINE)}
    formats = {"files", "null", *SUFFIXES}

    for version in released:
        made = [one for one in READ.values() if one.version == version]
        assert {one.format for one in made if one.moment == "finished"} >= formats
        assert {one.format for one in made if one.moment == "interrupted"} >= formats
        assert {one.format for one in made if one.moment == "damaged"} == formats - {"null"}
    assert sum(archive.stat().st_size for archive in FIXTURES.values()) < 2 << 20 * len(released)
    assert {path.name for path in ARCHIVES.iterdir()} == released


@pytest.mark.sampled(2)
@each(verb="get", moment="finished")
def test_finished_old_job_sends_no_requests(job: OldJob) -> None:
    """The source may be missing. Once it is back, failed targets can be fetched."""
    job.go_on(code=3)
    job.assert_complete()

    with job.source.serving(mended=True):
        job.go_on("--retry-failed")

    job.assert_complete(mended=True)


@pytest.mark.sampled(2)
@each(verb="get", moment="finished")
def test_reading_commands_read_finished_old_job(job: OldJob) -> None:
    """The commands work without the source."""
    expected = job.source.expected()
    counts = {"listed": expected.listed, "fetched": len(expected.bodies), "bytes": expected.bytes}
    status = json.loads(job.run("status", "out", "--json").out)
    assert {name: status[name] for name in counts} == counts
    failures = job.run("status", "out", "--failures").out.splitlines()
    assert {line.split("\t")[0] for line in failures} == expected.failures
    if job.fixture.format == "null":
        return

    name, body = next(iter(expected.bodies.items()))
    assert sorted(job.run("ls", "out").out.splitlines()) == sorted(expected.bodies)
    assert job.run("cat", "out", name).out.encode() == body
    with fetchmill.open(job.dest) as objects:
        assert dict(objects) == expected.bodies
    with serve(job.dest) as mirror, urllib.request.urlopen(f"{mirror.url}/get/{name}") as reply:  # noqa: S310 - http
        assert reply.read() == body
    other = "parquet" if job.fixture.format == "files" else "files"
    job.run("export", "out", "exported", "--format", other, "--quiet")
    assert find_wrong(job.folder / "exported", other, expected.bodies) == []


SYNCED = re.compile("-(get-(?!null).*-finished|s3-files-finished|autoindex-files-interrupted)")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("job", [id for id in READ if SYNCED.search(id)], indirect=True)
def test_sync_over_old_job_removes_nothing(job: OldJob) -> None:
    """The sync uses the same names as a sync of this release. Objects without validators are fetched once more."""
    expected, format = job.source.expected(), job.fixture.format
    command = job.fixture.commands[-1]
    with job.source.serving():
        if job.fixture.moment == "interrupted":
            job.go_on(code=3 if expected.failures else 0)
        store = ("--endpoint-url", job.source.url) if job.source.kind == "s3" else ()
        ended = job.try_to("sync", command[1], "out", "--format", format, *store, "--delete", "--json")

    assert ended.out, ended.err
    report = json.loads(ended.out.splitlines()[-1])
    assert report.get("removed") == 0, ended.out + ended.err
    assert report["notices"] == [f"took over {len(expected.bodies)} objects from fetchmill get"]
    assert find_wrong_bodies(job.dest, expected, format) == []


@pytest.mark.sampled(1)
@each(verb="get", moment="interrupted")
def test_interrupted_old_job_resumes(job: OldJob) -> None:
    """The job can be verified and read before it resumes.

    Nothing is fetched twice, and each object is stored once.
    """
    expected, format = job.source.expected(), job.fixture.format
    before = read_ledger(job.dest)
    assert 0 < before.fetched < len(expected.bodies)
    job.run("verify", "out", "--quiet")
    if format in SUFFIXES:
        assert find_wrong_bodies(job.dest, expected, format) == []
        with fetchmill.open(job.dest) as objects:
            assert 0 < len(objects) <= before.fetched
            assert dict(objects).items() <= expected.bodies.items()

    with job.source.serving():
        events = job.go_on("--json", code=3).out.splitlines()
    job.assert_complete()
    report = json.loads(events[-1])
    assert (report["event"], report["listed"], report["fetched"]) == (
        "report",
        expected.listed,
        len(expected.bodies),
    )

    with job.source.serving(mended=True):
        job.go_on("--retry-failed")
    job.assert_complete(mended=True)


@pytest.mark.parametrize("job", ["0.1.0-get-parquet-interrupted"], indirect=True)
def test_worker_processes_keep_columns_of_old_job(job: OldJob) -> None:
    """0.1.0 had no column for encodings, and all shards of a job have the same columns."""
    with job.source.serving():
        job.go_on("--engine", "processes", code=3)
    job.assert_complete()

    shards = sorted(job.dest.glob("*.parquet"))
    columns = {tuple(pq.read_schema(shard).names) for shard in shards}
    assert len(shards) > 1
    assert len(columns) == 1, columns


@pytest.mark.parametrize("job", ["0.1.0-get-null-interrupted"], indirect=True)
def test_journal_records_last_writing_release(job: OldJob) -> None:
    """If the journal's version is raised, an older release can name the release that can read it."""
    with job.source.serving():
        job.go_on(code=3)

    with closing(sqlite3.connect(job.dest / STATE / "job.sqlite")) as db:
        assert db.execute("SELECT release FROM written_by").fetchall() == [(fetchmill.__version__,)]


@pytest.mark.sampled(2)
@each(verb="get", moment="damaged")
def test_damaged_old_job_is_detected_and_repaired(job: OldJob) -> None:
    """The damaged objects are named. A repair and the old command restore the data."""
    ended = job.run("verify", "out", "--json", code=10)
    findings = [json.loads(line) for line in ended.out.splitlines()]
    named = {finding["name"] for finding in findings if finding["event"] == "finding"}
    assert named >= set(job.fixture.damaged)
    if job.fixture.format == "files":
        assert named == set(job.fixture.damaged)

    job.run("verify", "out", "--repair", "--quiet")
    with job.source.serving():
        job.go_on(code=3)

    job.assert_complete()


@pytest.mark.parametrize("job", [id for id in having(verb="get") if "columns" in id], indirect=True)
def test_resumed_old_job_keeps_list_columns(job: OldJob) -> None:
    """Objects that were fetched before and after the upgrade have the list's columns."""
    with job.source.serving():
        job.go_on(code=3)

    with fetchmill.open(job.dest) as objects:
        ranks = {stored.name: stored.columns for stored in objects.records()}
    assert ranks == {name: {"rank": str(int(name.removeprefix("file-")))} for name in job.source.expected().bodies}


@each(verb="check", moment="interrupted")
def test_interrupted_old_check_resumes(job: OldJob) -> None:
    """Each target has one row."""
    with job.source.serving():
        job.go_on()

    rows = pq.read_table(job.folder / job.fixture.commands[-1][2]).to_pylist()
    assert answers(job, rows) == expected_answers(job)


@each(verb="check", moment="finished")
def test_finished_old_check_can_be_compared(job: OldJob) -> None:
    """No request is sent; `diff` finds the targets that have changed since."""
    command = job.fixture.commands[-1]
    results = job.folder / command[2]
    before = results.read_bytes()
    job.go_on()
    assert results.read_bytes() == before
    with results.open(newline="") as file:
        assert answers(job, list(csv.DictReader(file))) == expected_answers(job)

    with job.source.serving(mended=True):
        job.run(*command[:2], "again.parquet", *command[3:])
    ended = job.run("diff", results.name, "again.parquet", code=3)

    assert ended.out.splitlines()[0] == f"{job.source.count - 4} unchanged, 4 changed, 0 added, 0 removed"


def answers(job: OldJob, rows: list[dict[str, Any]]) -> Counter[tuple[int, int]]:
    """Counts the statuses of targets, by their kept column."""
    assert all(row["url"] == f"{job.source.url}/get/{synthetic_name(int(row['rank']))}" for row in rows)
    return Counter((int(row["rank"]), int(row["status"])) for row in rows)


def expected_answers(job: OldJob) -> Counter[tuple[int, int]]:
    """Returns the answers of the source."""
    refused = dict.fromkeys(job.source.absent, 404) | dict.fromkeys(job.source.refused, 403)
    return Counter((index, refused.get(index, 200)) for index in range(job.source.count))


@each(verb="list")
def test_interrupted_old_list_resumes(job: OldJob) -> None:
    """Each name has one row."""
    with job.source.serving():
        job.go_on()

    rows = pq.read_table(job.folder / job.fixture.commands[-1][2]).to_pylist()
    assert Counter(row["name"] for row in rows) == Counter(map(synthetic_name, range(job.source.count)))


@each(verb="python")
def test_old_stream_resumes_with_unsaved_items(job: OldJob) -> None:
    """Exactly the items that were not saved as done are returned again."""
    with closing(sqlite3.connect(job.folder / "state" / STATE / "stream.sqlite")) as db:
        pulled, missing = db.execute("SELECT pulled, missing FROM stream").fetchone()
    left = set(range(pulled, job.source.count))
    left |= {index for first, length in RUNS.iter_unpack(missing) for index in range(first, first + length)}
    log = job.folder / "log"
    before = log.read_text().split()

    with job.source.serving():
        subprocess.run(arguments_of(job.fixture.commands[-1]), cwd=job.folder, check=True, timeout=60)

    found = log.read_text().split()
    assert Counter(map(int, found[len(before) :])) == Counter(left)
    assert set(map(int, found)) == set(range(job.source.count))


GET = READ["0.1.0-get-parquet-finished"].commands[-1]
NEWER_COMMANDS = {
    "get": GET,
    "retry": (*GET, "--retry-failed"),
    "status": ("status", "out"),
    "failures": ("status", "out", "--failures"),
    "verify": ("verify", "out"),
    "repair": ("verify", "out", "--repair"),
    "ls": ("ls", "out"),
    "cat": ("cat", "out", "file-000000000000"),
    "export": ("export", "out", "other", "--format", "files"),
    "serve": ("serve", "out", "--port", "0"),
}


def make_newer(database: Path, release: str | None) -> str:
    """Changes a journal as a future release might leave it. Returns the expected message."""
    with closing(sqlite3.connect(database)) as db:
        db.execute(f"PRAGMA user_version = {NEWER}")
        db.execute("DROP TABLE IF EXISTS written_by")
        if release is not None:
            db.execute("CREATE TABLE written_by (id INTEGER PRIMARY KEY, release TEXT NOT NULL)")
            db.execute("INSERT INTO written_by VALUES (0, ?)", [release])
        db.commit()
    who, can = (f"fetchmill {release}", f"fetchmill {release} or later") if release else ("a newer fetchmill", "that")
    return rf"{database.name}: written by {who} \(format version {NEWER}\), .*; use {can}"


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    ("command", "release"), [*((command, "9.8.7") for command in NEWER_COMMANDS), ("get", None), ("status", None)]
)
@pytest.mark.parametrize("job", ["0.1.0-get-parquet-finished"], indirect=True)
def test_commands_refuse_destination_of_newer_release(
    job: OldJob, tree: Callable[..., Any], command: str, release: str | None
) -> None:
    """The one-line error names the release that can read the destination, or says that a newer one can."""
    said = make_newer(job.dest / STATE / "job.sqlite", release)
    before = tree(job.dest, with_state=True)

    ended = job.try_to(*NEWER_COMMANDS[command])

    assert (ended.code, ended.out, len(ended.err.splitlines())) == (10, "", 1)
    assert re.search(said, ended.err)
    assert not (job.folder / "other").exists()
    after = tree(job.dest, with_state=True)
    changed = {name for name in after.keys() | before.keys() if after.get(name) != before.get(name)}
    assert {name for name in changed if not name.endswith(("-shm", "-wal"))} == set()


@each(verb="check")
def test_commands_refuse_results_of_newer_release(job: OldJob) -> None:
    """The error is one line."""
    state = next(job.folder.glob("*.fetchmill"))
    said = make_newer(state / "job.sqlite", "9.8.7")

    ended = job.try_to(*job.fixture.commands[-1])

    assert (ended.code, len(ended.err.splitlines())) == (10, 1)
    assert re.search(said, ended.err)


@each(verb="python")
def test_stream_refuses_state_of_newer_release(job: OldJob) -> None:
    """The exception names the release that wrote the state."""
    said = make_newer(job.folder / "state" / STATE / "stream.sqlite", "9.8.7")

    with pytest.raises(fetchmill.JournalError, match=said):
        list(fetchmill.stream([job.source.url], state=job.folder / "state"))
