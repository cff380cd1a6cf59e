"""Creates the fixtures of this release in tests/durability/compatibility/VERSION: `make fixtures`.

docs/reference/compatibility.md has the promises. Each fixture is a job of the real command: finished, killed in the
middle by SIGKILL, or damaged afterwards.
"""

import itertools
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import fetchmill
from compatibility_fixtures import ARCHIVES, ENVIRONMENT, PROGRAM, SUFFIX, Fixture, Kind, Moment, Source, arguments_of
from foreign import STATE, SUFFIXES
from independent import has_journal, open_journal, read_ledger, staged_files, synthetic_name

TRIES = 20
SECONDS_MAX = 30.0
# A job of two seconds if it is to be killed: eight requests in flight, a tenth of a second each.
COUNT, SIZE, SECONDS = 160, 100, 0.1
OPTIONS = ("--commit-window", "100ms", "--concurrency", "8", "--threads", "2", "--quiet")
# Several shards of each format.
SMALL_SHARDS = ("--shard-size", "16KiB", "--seal-after", "300ms")
STREAM = """
import os, sys, time, fetchmill
url, state, log, count = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
for reply in fetchmill.stream((f"{url}/get/file-{n:012d}" for n in range(count)), state=state, limit=8):
    assert reply.ok
    os.write(out, b"%d\\n" % reply.index)
    time.sleep(0.01)
"""


def main() -> None:
    """Creates all of them, or those whose names contain one of the arguments."""
    wanted = sys.argv[1:]
    for fixture, prepare in _fixtures():
        if wanted and not any(text in fixture.name for text in wanted):
            continue
        archive = ARCHIVES / fixture.version / f"{fixture.name}{SUFFIX}"
        _make(fixture, prepare, archive)
        print(f"{archive.name:40} {archive.stat().st_size:>8}")  # noqa: T201 - it talks to a terminal


# --- what is made ------------------------------------------------------------------------------------------------

Prepare = Callable[[Path, Source], None]


def _fixtures() -> Iterator[tuple[Fixture, Prepare]]:
    numbers = itertools.count(1)
    moments: tuple[Moment, ...] = ("finished", "interrupted", "damaged")
    for format in ("files", "null", *SUFFIXES):
        for moment in moments:
            if (format, moment) != ("null", "damaged"):
                yield _get(f"get-{format}", format, moment, _source("synthetic", next(numbers))), _nothing
    yield _get("autoindex-files", "files", "interrupted", _source("autoindex", next(numbers))), _nothing
    finished, interrupted, _ = moments
    for format, moment in (("parquet", interrupted), ("files", finished)):
        source = replace(_source("s3", next(numbers)), absent=(), busy=())
        yield _get(f"s3-{format}", format, moment, source, "s3://bucket", "--endpoint-url", source.url), _nothing
    kept = ("--column", "url", "--key-column", "key", "--keep-columns", "rank", "--allow-private", *_UNPACED)
    for format, moment in (("parquet", interrupted), ("jsonl", finished)):
        source = _source("synthetic", next(numbers))
        yield _get(f"columns-{format}", format, moment, source, "targets.csv", *kept), _write_targets
    yield from _rows(numbers)


def _rows(numbers: Iterator[int]) -> Iterator[tuple[Fixture, Prepare]]:
    """Yields checks, lists, and a stream."""
    check = ("--column", "url", "--keep-columns", "rank", "--allow-private", *_UNPACED)
    moments: tuple[tuple[str, Moment], ...] = (("results.parquet", "interrupted"), ("results.csv", "finished"))
    for results, moment in moments:
        source = replace(_source("synthetic", next(numbers)), busy=())
        command = ["check", "targets.csv", results, *check, *OPTIONS]
        yield _fixture(f"check-{results.rpartition('.')[2]}", moment, source, command), _write_targets
    source = replace(_source("synthetic", next(numbers)), absent=(), refused=(), busy=())
    command = ["list", source.url, "manifest.parquet", "--quiet", "--commit-window", "100ms"]
    yield _fixture("list", "interrupted", source, command), _nothing
    source = _source("synthetic", next(numbers))
    command = ["list", source.url, "manifest.parquet", "--quiet"]
    fixture = _get("manifest-tar", "tar", "interrupted", source, "manifest.parquet", "--allow-private", *_UNPACED)
    yield replace(fixture, commands=[command, *fixture.commands]), _nothing
    # A stream reads up to 256 items ahead, and saves its state every second.
    source = replace(_source("synthetic", next(numbers)), count=400, absent=(), refused=(), busy=())
    command = ["python", PROGRAM, source.url, "state", "log", str(source.count)]
    yield _fixture("stream", "interrupted", source, command), _write_program


_UNPACED = ("--limit-per-host", "0", "--rate-per-host", "0")


def _source(kind: Kind, number: int) -> Source:
    """Returns a source at an address that no other fixture has, in any release; a bucket is at 127.0.0.1."""
    major, minor = map(int, fetchmill.__version__.split(".")[:2])
    host, port = f"127.{20 + major}.{minor}.{number}", 18080
    if kind == "s3":
        host, port = "127.0.0.1", 18100 + 100 * minor + number
    return Source(kind, host, port, COUNT, SIZE, absent=(3, 77), refused=(5, 90), busy=(11, 40, 130))


def _get(name: str, format: str, moment: Moment, source: Source, *arguments: str) -> Fixture:
    what = arguments or (source.url, *(("--listing", "autoindex") if source.kind == "autoindex" else ()))
    options = (*what[1:], "--format", format, *(SMALL_SHARDS if format in SUFFIXES else ()), *OPTIONS)
    fixture = _fixture(name, moment, source, ["get", what[0], "out", *options])
    return replace(fixture, format=format)


def _fixture(name: str, moment: Moment, source: Source, command: list[str]) -> Fixture:
    return Fixture(f"{name}-{moment}", fetchmill.__version__, moment, [command], source)


def _nothing(_folder: Path, _source: Source) -> None:
    """Prepares a job that needs only its source."""


def _write_targets(folder: Path, source: Source) -> None:
    """Writes a list of all objects, with a kept column."""
    rows = [f"{index},{synthetic_name(index)},{source.url}/get/{synthetic_name(index)}\n" for index in range(COUNT)]
    (folder / "targets.csv").write_text("".join(["rank,key,url\n", *rows]))


def _write_program(folder: Path, _source: Source) -> None:
    """Writes a loop over a stream, which takes a hundredth of a second per item and records finished items."""
    (folder / PROGRAM).write_text(STREAM)


# --- how it is made ----------------------------------------------------------------------------------------------


def _make(fixture: Fixture, prepare: Prepare, archive: Path) -> None:
    for _ in range(TRIES):
        with tempfile.TemporaryDirectory() as place:
            job = Path(place, "job")
            job.mkdir()
            prepare(job, fixture.source)
            *before, last = fixture.commands
            with fixture.source.serving(mended=True):
                for command in before:
                    _run(command, job)
            is_killed = fixture.moment == "interrupted"
            with fixture.source.serving(busy=is_killed, seconds=SECONDS if is_killed else 0.0):
                if is_killed and not _kill(fixture, last, job):
                    continue
                if not is_killed:
                    _run(last, job, 3 if fixture.source.expected().failures and last[0] == "get" else 0)
            damaged = _damage(job / "out", fixture.format) if fixture.moment == "damaged" else []
            replace(fixture, damaged=damaged).write(Path(place), archive)
            return
    raise SystemExit(f"{fixture.name}: killed {TRIES} times, and never in a moment that is wanted")


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("AWS_")} | ENVIRONMENT


def _run(command: list[str], job: Path, code: int = 0) -> None:
    ended = subprocess.run(arguments_of(command), cwd=job, env=_environment(), check=False)
    if ended.returncode != code:
        raise SystemExit(f"{command} ended with {ended.returncode}")


def _kill(fixture: Fixture, command: list[str], job: Path) -> bool:
    """Kills the job in the middle. Returns whether its leftovers are those that are wanted."""
    process = subprocess.Popen(arguments_of(command), cwd=job, env=_environment())
    until = time.monotonic() + SECONDS_MAX
    while process.poll() is None and time.monotonic() < until and not _is_wanted(fixture, job):
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    return process.wait() == -signal.SIGKILL and _is_wanted(fixture, job)


def _is_wanted(fixture: Fixture, job: Path) -> bool:
    """Returns whether a job is in the middle, with every kind of leftover that it can have."""
    try:
        return _WANTED[fixture.verb](fixture, job)
    except (OSError, sqlite3.Error):
        return False  # it changed while it was read


def _get_is_wanted(fixture: Fixture, job: Path) -> bool:
    dest, source = job / "out", fixture.source
    if not has_journal(dest):
        return False
    ledger = read_ledger(dest)
    with closing(open_journal(dest)) as db:
        rows = {
            table: db.execute(f"SELECT count(*) FROM {table}").fetchone()[0]  # noqa: S608 - constants
            for table in ("pages", "waiting", "staged", "open_shards", "shards")
        }
    found = [
        source.count // 3 < ledger.fetched < source.count * 3 // 4,
        ledger.failed > 0,
        ledger.absent > 0 or not source.absent,
        rows["waiting"] > 0 or not source.busy,
        rows["pages"] > 0,
        bool(staged_files(dest)) or fixture.format == "null",
        rows["staged"] > 0 or fixture.format != "files",
        (rows["shards"] > 0 and _has_receipt(fixture, rows)) or fixture.format not in SUFFIXES,
        (dest / STATE / "job.sqlite-wal").stat().st_size > 0,
    ]
    return all(found)


def _has_receipt(fixture: Fixture, rows: dict[str, int]) -> bool:
    return rows["open_shards"] > 0 or fixture.format == "parquet"


def _rows_are_wanted(fixture: Fixture, job: Path) -> bool:
    """Returns whether a check or a list has some rows and not all."""
    state = next(job.glob("*.fetchmill"), None)
    if state is None or not has_journal(job, state):
        return False
    ledger = read_ledger(job, state)
    share = ledger.fetched / fixture.source.count if fixture.verb == "check" else ledger.listed / fixture.source.count
    return 0.3 < share < 0.8


def _stream_is_wanted(_fixture: Fixture, job: Path) -> bool:
    path = job / "state" / STATE / "stream.sqlite"
    if not path.exists():
        return False
    with tempfile.TemporaryDirectory() as copies:
        for part in ("", "-wal"):
            shutil.copy(f"{path}{part}", copies)
        with closing(sqlite3.connect(Path(copies, path.name))) as db:
            pulled = db.execute("SELECT pulled FROM stream").fetchone()
    return pulled is not None and pulled[0] > 0


_WANTED = {
    "get": _get_is_wanted,
    "check": _rows_are_wanted,
    "list": _rows_are_wanted,
    "python": _stream_is_wanted,
}


def _damage(dest: Path, format: str) -> list[str]:
    """Flips a byte of one file and truncates another; with `files`, a third one is removed."""
    files = sorted(path for path in dest.rglob("*") if path.is_file() and STATE not in path.parts)
    flipped, cut, gone = files[0], files[1], files[-1]
    data = bytearray(flipped.read_bytes())
    data[len(data) // 2] ^= 0x20
    flipped.write_bytes(data)
    os.truncate(cut, cut.stat().st_size - 10)
    if format == "files":
        gone.unlink()
    damaged = [flipped, cut, *([gone] if format == "files" else [])]
    return [path.relative_to(dest).as_posix() for path in damaged]


if __name__ == "__main__":
    main()
