"""Repeated lines of a list are skipped and counted."""

import contextlib
import json
import sqlite3
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

import fetchmill
from conftest import Ended
from raw_server import Behaviour, Exchange, RawServer, reply
from stored import read_objects

Run = Callable[..., Ended]
Start = Callable[..., "subprocess.Popen[str]"]
Raw = Callable[[Mapping[str, Behaviour]], RawServer]

SITES: dict[str, Behaviour] = {f"/{name}": reply(name.encode()) for name in "abc"}


def listed(folder: Path, text: str, site: RawServer, name: str = "urls.txt") -> Path:
    """Writes a list in which each `@` is replaced by the server's URL."""
    path = folder / name
    path.write_text(text.replace("@", site.url))
    return path


@pytest.mark.parametrize("command", ["files", "parquet", "jsonl", "check", "list"])
def test_repeated_line_is_skipped(run: Run, raw: Raw, tmp_path: Path, command: str) -> None:
    """Each URL is requested once, and skipped lines are reported. A missing newline at the end makes no difference."""
    site = raw(SITES)
    urls = listed(tmp_path, "@/a\n@/b\n@/a\n\n@/b \n@/c\nno url\nno url\n@/a", site)
    dest = tmp_path / ("out.csv" if command in ("check", "list") else "out")
    words = (command,) if command in ("check", "list") else ("get",)
    options = ("--format", command) if words == ("get",) else ()
    ended = run(*words, urls, dest, *options, *(() if command == "list" else ("--allow-private",)))

    assert ended.code == (3 if words == ("get",) else 0), ended.err
    assert sorted(site.requests) == ([] if command == "list" else ["/a", "/b", "/c"])
    if words == ("get",):
        assert "8 listed = 3 fetched + 0 absent + 2 failed + 3 skipped" in ended.err
        assert "skipped: duplicate 3" in ended.err
        assert sorted(body for _, body in read_objects(dest, command)) == [b"a", b"b", b"c"]
        (found,) = fetchmill.skipped(dest)
        assert (found.reason, found.count) == ("duplicate", 3)
        assert sorted(found.names) == [f"{site.url}/a", f"{site.url}/a", f"{site.url}/b"]
        assert run("verify", dest).code == 0


def test_lines_that_differ_are_separate_targets(run: Run, raw: Raw, dest: Path, tmp_path: Path) -> None:
    """Lines that differ in any column, or in the spelling of the URL, are separate targets.

    So are lines with numbered names.
    """
    site = raw(SITES)
    urls = listed(tmp_path, "url,id\n@/a,1\n@/a,2\n@/a,1\n@/a#x,1\n", site, "urls.csv")
    allowed = ("--allow-private", "--quiet")
    for options, count in (
        (("--format", "jsonl"), 3),
        (("--format", "jsonl", "--keep-columns", "id"), 3),
        (("--names", "{index}"), 4),
        (("--names", "seq"), 3),
        (("--format", "jsonl", "--header", "Accept-Language: {id}"), 3),
    ):
        before = len(site.requests)
        ended = run("get", urls, dest / str(options), *options, *allowed)
        assert (ended.code, len(site.requests) - before) == (0, count), (options, ended.err)


def test_iterables_and_samples_skip_repeated_items(raw: Raw, dest: Path, tmp_path: Path) -> None:
    """Repeated items of an iterable or a sample are skipped, as in list files."""
    site = raw(SITES)
    urls = [f"{site.url}/{name}" for name in "abacb"]
    report = fetchmill.get(urls, dest, format="jsonl")
    assert (report.listed, report.fetched, report.skipped_by) == (5, 3, {"duplicate": 2})
    path = listed(tmp_path, "".join(f"@/{name}\n" for name in "abacb" * 20), site)
    report = fetchmill.get(path, dest.with_name("some"), format="jsonl", sample=2, allow_private=True)
    assert (report.fetched, report.skipped_by["duplicate"]) == (2, 97)


@pytest.mark.parametrize("kind", ["txt", "csv", "jsonl"])
@pytest.mark.parametrize("is_old", [False, True])
def test_repeated_lines_are_skipped_after_kill(
    run: Run, start: Start, raw: Raw, dest: Path, tmp_path: Path, kind: str, is_old: bool
) -> None:
    """Lines of the killed run count as seen. A job of an older release keeps all of its targets."""
    count = 300
    site = raw({f"/{number}": Exchange.stall for number in range(count)} | {"/0": reply(b"0")})
    rows = [f"{site.url}/{number}" for number in [*range(count), *range(count)]]
    lines = {
        "txt": rows,
        "csv": ["id,url", *(f"x,{row}" for row in rows)],
        "jsonl": [json.dumps({"url": row}) for row in rows],
    }
    urls = listed(tmp_path, "\n".join(lines[kind]) + "\n", site, f"urls.{kind}")
    options = ("--allow-private", "--format", "jsonl", "--limit-per-host", "0", "--rate-per-host", "0")
    process = start("get", urls, dest, *options, "--commit-window", "0.05s")
    journal = dest / ".fetchmill/job.sqlite"
    deadline = time.monotonic() + 30
    while not pages(journal):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.005)
    process.kill()
    process.wait()
    if is_old:
        # Old entries of the journal are not changed.
        with contextlib.closing(sqlite3.connect(journal)) as db:
            db.execute("UPDATE job SET value = '3' WHERE key = 'rules'")
            db.commit()
    site.routes |= {f"/{number}": reply(b"x") for number in range(count)}
    ended = run("get", urls, dest, *options)
    assert ended.code == 0, ended.err
    names = [name for name, _ in read_objects(dest, "jsonl")]
    assert set(names) == set(rows)
    assert is_old or len(names) == count
    assert run("verify", dest).code == 0


def pages(journal: Path) -> int:
    """Returns the number of list pages in the journal."""
    try:
        with contextlib.closing(sqlite3.connect(f"file:{journal}?mode=ro", uri=True)) as db:
            return int(db.execute("SELECT listed FROM tally").fetchone()[0])
    except sqlite3.Error:
        return 0
