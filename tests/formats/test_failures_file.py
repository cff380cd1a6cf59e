"""The failures file of a job with shards lists what the job has not fetched.

`FETCHMILL_SEED` reproduces the random moments of a failed run. The file is read by `json`, jq and DuckDB.
"""

import json
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pyarrow.parquet as pq
import pytest

import fetchmill
from conftest import COMMAND, Ended, wait_for_rows
from fetchmill.testing import Fault, Server
from foreign import FAILURES, READERS, SUFFIXES, find_shards, read_objects
from independent import is_finished
from raw_server import Behaviour, RawServer, mirror, reply
from system_calls import kill_before

Run = Callable[..., Ended]
Serve = Callable[..., Server]
Start = Callable[..., "subprocess.Popen[str]"]
Raw = Callable[[Mapping[str, Behaviour]], RawServer]
Line = dict[str, Any]

SEED = int(os.environ.get("FETCHMILL_SEED") or time.time_ns() % 1_000_000)
FORMATS = tuple(SUFFIXES)
# Hosts of this machine are allowed and not rate-limited, and a target has two attempts.
HASTE = ("--allow-private", "--limit-per-host", "0", "--rate-per-host", "0", "--attempts", "2", "--quiet")
REFUSED = "http://127.0.0.1:1/refused"
FIELDS = ["sequence", "name", "url", "status", "outcome", "kind", "detail", "attempts"]


def index_page(links: bytes) -> bytes:
    """Returns a page that lists a folder."""
    return reply(b"<html><h1>Index of /top/</h1>%s</html>" % links, "Content-Type: text/html")


# By path: the site's answer, and the expected line: outcome, kind, status, attempts; None if it is not a failure.
SITES: dict[str, tuple[bytes, tuple[str, str | None, int | None, int] | None]] = {
    "/fetched": (reply(b"body"), None),
    "/absent": (reply(b"no", status="404 No"), ("absent", None, 404, 1)),
    "/gone": (reply(status="410 No"), ("absent", None, 410, 1)),
    "/error": (reply(status="500 No"), ("failed", "server-error", 500, 2)),
    "/forbidden": (reply(status="403 No"), ("failed", "status", 403, 1)),
}
CONDITION = ("--header", "If-None-Match: {etag}")


def serve_sites(raw: Raw) -> RawServer:
    """Serves all sites, including one for conditional requests."""
    return raw({path: answer for path, (answer, _) in SITES.items()} | {"/not-modified": reply(status="304 No")})


def write_list(folder: Path, urls: list[str]) -> str:
    """Writes a list with its own columns; a URL with `/not-modified` has an ETag."""
    etags = ["e" if url.endswith("/not-modified") else "" for url in urls]
    lines = ["url,rank,etag", *(f"{url},{rank},{etags[rank]}" for rank, url in enumerate(urls))]
    (folder / "list.csv").write_text("".join(f"{line}\n" for line in lines))
    return "list.csv"


def options_of(format: str) -> tuple[str, ...]:
    """Returns the options that keep the column, if the format keeps any."""
    kept = {"warc": (), "tar": ("--keep-columns", "rank", "--sidecar", "json")}.get(format, ("--keep-columns", "rank"))
    return ("--format", format, "--column", "url", *kept, *HASTE)


def read_failures(dest: Path) -> list[Line]:
    """Returns the lines of the file; each is valid JSON by itself."""
    text = (dest / FAILURES).read_bytes()
    assert text.endswith(b"\n")
    return [json.loads(line) for line in text.removesuffix(b"\n").split(b"\n")]


def has_failures(dest: Path) -> bool:
    """Returns whether the file exists."""
    return (dest / FAILURES).exists()


@pytest.mark.parametrize("format", FORMATS)
def test_failures_file_lists_every_failed_and_absent_target(run: Run, raw: Raw, tmp_path: Path, format: str) -> None:
    """Each line has everything that is known about its target. Fetched targets have no line."""
    site = serve_sites(raw)
    urls = [f"{site.url}{path}" for path in SITES]
    listed = write_list(tmp_path, [*urls, REFUSED, "no url"])

    ended = run("get", listed, "out", *options_of(format))

    assert ended.code == 3, ended.err
    dest = tmp_path / "out"
    lines = {line["name"]: line for line in read_failures(dest)}
    expected = {f"{site.url}{path}": said for path, (_, said) in SITES.items() if said}
    expected[REFUSED] = ("failed", "refused", None, 2)
    bad = f"line {len(urls) + 3}"
    expected[bad] = ("failed", "url", None, 0)
    assert {
        name: (line["outcome"], line["kind"], line["status"], line["attempts"]) for name, line in lines.items()
    } == expected
    assert len(read_failures(dest)) == len(expected)
    assert "no url" in lines[bad]["detail"]
    for line in lines.values():
        kept = [] if format == "warc" else ["columns"]
        assert [*line] == [*FIELDS[:4], *kept, *FIELDS[4:]]
        if kept:
            assert line["columns"] == {"rank": str(line["sequence"])}
    assert {failure.name for failure in fetchmill.failures(dest)} == set(lines)
    assert list((dest / ".fetchmill/open").iterdir()) == []


@pytest.mark.parametrize("engine", ["threads", "processes"])
def test_python_engines_write_same_failures_file(run: Run, raw: Raw, tmp_path: Path, engine: str) -> None:
    """The failures file does not depend on the engine."""
    site = serve_sites(raw)
    listed = write_list(tmp_path, [f"{site.url}{path}" for path in SITES])

    ended = run("get", listed, "out", *options_of("parquet"), "--engine", engine)

    assert ended.code == 3, ended.err
    told = {line["name"]: (line["outcome"], line["kind"]) for line in read_failures(tmp_path / "out")}
    assert told == {f"{site.url}{path}": said[:2] for path, (_, said) in SITES.items() if said}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("format", FORMATS)
def test_shard_readers_ignore_failures_file(run: Run, raw: Raw, tmp_path: Path, format: str) -> None:
    """Neither fetchmill nor other readers see the file, whether they read a shard or a folder as one table."""
    site = serve_sites(raw)
    listed = write_list(tmp_path, [f"{site.url}{path}" for path in SITES])
    assert run("get", listed, "out", "--format", format, "--column", "url", *HASTE).code == 3
    dest, fetched = tmp_path / "out", f"{site.url}/fetched"
    assert has_failures(dest)

    assert [*fetchmill.open(dest)] == [fetched]
    assert run("ls", "out").out.split() == [fetched]
    assert run("cat", "out", FAILURES).code != 0
    assert run("verify", "out").code == 0
    for reader in READERS[format]:
        assert [stored.body for stored in read_objects(dest, format, reader)] == [b"body"]
    assert run("export", "out", "other", "--format", "jsonl", "--quiet").code == 0
    assert [path.name for path in find_shards(tmp_path / "other", "jsonl")] == ["shard-000000.jsonl"]
    assert not has_failures(tmp_path / "other")
    if format == "parquet":
        # These readers treat a folder as a table, without names that begin with `_`.
        assert pq.read_table(dest).column("name").to_pylist() == [fetched]
        assert pd.read_parquet(dest)["name"].tolist() == [fetched]
    if format == "jsonl":
        assert duckdb.read_json(f"{dest}/*.jsonl").project("name").fetchall() == [(fetched,)]


def test_jq_and_duckdb_read_failures_file(run: Run, raw: Raw, tmp_path: Path) -> None:
    """The documented commands for jq and DuckDB work."""
    site = serve_sites(raw)
    listed = write_list(tmp_path, [f"{site.url}{path}" for path in SITES])
    assert run("get", listed, "out", *options_of("parquet")).code == 3
    file = tmp_path / "out" / FAILURES

    jq = ["jq", "-r", 'select(.outcome == "failed") | .name', str(file)]
    names = subprocess.run(jq, capture_output=True, text=True, check=True).stdout.split()
    counted = duckdb.read_json(str(file)).aggregate("outcome, kind, count(*)").fetchall()

    assert sorted(names) == [f"{site.url}/error", f"{site.url}/forbidden"]
    assert sorted(counted, key=str) == [("absent", None, 2), ("failed", "server-error", 1), ("failed", "status", 1)]


@pytest.mark.parametrize(
    ("format", "more", "paths"),
    [
        ("parquet", (), ("/fetched",)),
        ("tar", CONDITION, ("/fetched", "/not-modified")),
        ("parquet", ("--keep-failed",), tuple(SITES)),
        ("files", (), tuple(SITES)),
        ("null", (), tuple(SITES)),
    ],
    ids=["all-fetched", "skipped", "all-rows", "files", "null"],
)
def test_failures_file_is_not_written_when_not_needed(
    run: Run, raw: Raw, tmp_path: Path, format: str, more: tuple[str, ...], paths: tuple[str, ...]
) -> None:
    """There is no file if nothing failed, if each target has a row anyway, or if there are no shards."""
    site = serve_sites(raw)
    listed = write_list(tmp_path, [f"{site.url}{path}" for path in paths])

    ended = run("get", listed, "out", "--format", format, "--column", "url", *HASTE, *more)

    assert ended.code in (0, 3), ended.err
    assert not list((tmp_path / "out").rglob(FAILURES))


def test_object_named_like_failures_file_is_stored(run: Run, server: Serve, served: Path, tmp_path: Path) -> None:
    """With `files`, the job writes no failures file of its own."""
    (served / FAILURES).write_text("mine")
    (served / "gone").write_text("x")
    source = server(folder=served, faults=[Fault("status", status=404, match="gone")])

    assert run("get", source.url, "out", "--quiet").code == 3

    assert (tmp_path / "out" / FAILURES).read_text() == "mine"


@pytest.mark.parametrize("format", ["parquet", "tar"])
def test_failures_file_omits_skipped_targets(run: Run, raw: Raw, tmp_path: Path, format: str) -> None:
    """Skipped targets have no line, because skipping is intended."""
    site = serve_sites(raw)
    listed = write_list(tmp_path, [f"{site.url}{path}" for path in ("/fetched", "/not-modified", "/absent")])

    ended = run("get", listed, "out", *options_of(format), *CONDITION)

    assert ended.code == 3, ended.err
    assert fetchmill.status(tmp_path / "out").skipped == 1
    assert [line["name"] for line in read_failures(tmp_path / "out")] == [f"{site.url}/absent"]


def assert_safe(file: Path, lines: int) -> None:
    """Checks that a line is a single line for every reader, and safe to print."""
    text = file.read_bytes()
    assert not any(byte < 32 or byte == 127 for byte in text.replace(b"\n", b""))
    assert len(text.decode().splitlines()) == lines


def test_failures_file_has_valid_json_for_hostile_names(run: Run, raw: Raw, tmp_path: Path) -> None:
    """Any name that a server chooses becomes valid JSON."""
    names = ["\x01\x1b[2J", 'a\u2028b\u0085c\\"', "line\nend", "\x7f", "../../x", "ordinary"]
    site = raw(mirror(names, dict.fromkeys(names, reply(status="404 No"))))

    ended = run("get", site.url, "out", "--format", "tar", "--quiet")

    assert ended.code == 3, ended.err
    lines = sorted(read_failures(tmp_path / "out"), key=lambda line: line["sequence"])
    assert [line["name"] for line in lines] == names
    assert_safe(tmp_path / "out" / FAILURES, len(names))


def test_failures_file_keeps_bytes_of_non_text_names(run: Run, raw: Raw, tmp_path: Path) -> None:
    """Such bytes are written in hexadecimal, next to a printable form."""
    page = b'<a href="caf%E9">x</a><a href="%FF%02">x</a>'
    site = raw(
        {"/top/": index_page(page), "/top/caf%E9": reply(status="404 No"), "/top/%FF%02": reply(status="404 No")}
    )

    ended = run("get", f"{site.url}/top/", "out", "--listing", "html", "--format", "parquet", "--quiet")

    assert ended.code == 3, ended.err
    lines = read_failures(tmp_path / "out")
    assert sorted(bytes.fromhex(line["name_hex"]) for line in lines) == [b"caf\xe9", b"\xff\x02"]
    assert {line["name"] for line in lines} == {"caf\ufffd", "\ufffd\x02"}
    assert_safe(tmp_path / "out" / FAILURES, 2)


def test_failures_file_lists_folder_without_listing(run: Run, raw: Raw, tmp_path: Path) -> None:
    """The folder's line has no sequence number, because a folder is not a target."""
    page = b'<a href="good">good</a><a href="bad/">bad/</a>'
    site = raw(
        {
            "/top/": index_page(page),
            "/top/good": reply(b"body"),
            "/top/bad/": reply(status="403 No"),
        }
    )

    ended = run("get", f"{site.url}/top/", "out", "--listing", "html", "--format", "parquet", "--quiet")

    assert ended.code == 3, ended.err
    (line,) = read_failures(tmp_path / "out")
    assert [*line] == FIELDS
    assert (line["sequence"], line["name"], line["status"]) == (None, "bad/", 403)
    assert (line["outcome"], line["kind"]) == ("failed", "listing")
    assert [failure.name for failure in fetchmill.failures(tmp_path / "out")] == ["bad/"]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("format", FORMATS)
def test_retry_run_replaces_or_removes_failures_file(
    run: Run, start: Start, raw: Raw, tmp_path: Path, format: str
) -> None:
    """During a retry run, and after it is killed, there is no file: it would list objects that are already fetched."""
    site = serve_sites(raw)
    urls = [f"{site.url}{path}" for path in SITES]
    arguments = ("get", write_list(tmp_path, urls), "out", *options_of(format))
    dest = tmp_path / "out"
    assert run(*arguments).code == 3
    assert len(read_failures(dest)) == 4
    site.routes["/error"] = reply(b"mended")
    site.routes["/gone"] = lambda exchange: exchange.stall()

    process = start(*arguments, "--retry-failed")
    deadline = time.monotonic() + 60
    while not site.count("/gone") > 1 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not has_failures(dest)
    process.kill()
    process.wait(30)
    assert not has_failures(dest)
    site.routes["/gone"] = reply(status="410 No")
    assert run(*arguments).code == 3

    assert {line["name"] for line in read_failures(dest)} == {
        f"{site.url}{path}" for path in ("/absent", "/gone", "/forbidden")
    }
    assert run(*arguments, "--retry-failed=403").code == 3
    assert len(read_failures(dest)) == 3
    for path in SITES:
        site.routes[path] = reply(b"mended")
    last = run(*arguments, "--retry-failed")
    assert last.code == 0, last.err
    assert not has_failures(dest)
    assert fetchmill.verify(dest).ok


def assert_whole_or_none(dest: Path, names: set[str]) -> None:
    """Checks that the file, if it exists, is complete, and that a finished job has it."""
    if has_failures(dest):
        assert {line["name"] for line in read_failures(dest)} == names
    else:
        assert not is_finished(dest)


@pytest.mark.one_in(3)
@pytest.mark.sampled(1)
@pytest.mark.parametrize("format", ["parquet", "tar"])
def test_job_killed_while_ending_has_one_failures_file(
    run: Run, environment: dict[str, str], raw: Raw, tmp_path: Path, format: str
) -> None:
    """The job is killed before a rename, sync or removal by one of its threads, and the next run continues."""
    rng = random.Random(f"{SEED}-ends-{format}")
    site = serve_sites(raw)
    names = [f"{site.url}/absent?{number}" for number in range(30)]
    listed = write_list(tmp_path, [f"{site.url}/fetched", *names])
    arguments = ("get", listed, "out", *options_of(format), "--threads", "1")
    dest = tmp_path / "out"
    # The only shard costs the sealing thread two renames, including its manifest's; the third rename is the file's.
    assert kill_before("renameat2", 1, environment, tmp_path, *COMMAND, *arguments) == -signal.SIGKILL
    calls = ["renameat2", "fsync", "fdatasync", "unlink", "ftruncate"]
    for _ in range(12):
        kill_before(rng.choice(calls), rng.randint(1, 5), environment, tmp_path, *COMMAND, *arguments)
        if (dest / ".fetchmill/job.sqlite").exists():
            assert_whole_or_none(dest, set(names))
            if is_finished(dest):  # no thread made that many such calls: the next kill needs a new job
                shutil.rmtree(dest)

    ended = run(*arguments)

    assert ended.code == 3, f"FETCHMILL_SEED={SEED}: {ended.err}"
    assert sorted(line["name"] for line in read_failures(dest)) == sorted(names), f"FETCHMILL_SEED={SEED}"
    assert list((dest / ".fetchmill/open").iterdir()) == []
    assert fetchmill.verify(dest).ok


def test_kill_after_rename_leaves_one_failures_file(
    run: Run, environment: dict[str, str], raw: Raw, tmp_path: Path
) -> None:
    """After such a kill, the file is removed and written again. A kill before the removal changes nothing."""
    site = serve_sites(raw)
    listed = write_list(tmp_path, [f"{site.url}/absent", f"{site.url}/gone"])
    arguments = ("get", listed, "out", *options_of("jsonl"), "--threads", "1")
    dest = tmp_path / "out"
    # Without an object, the file's rename is the only one, and nothing was removed before it.
    assert kill_before("renameat2", 1, environment, tmp_path, *COMMAND, *arguments) != 3
    assert not has_failures(dest)
    assert len(list((dest / ".fetchmill/open").iterdir())) == 1
    assert kill_before("unlink", 1, environment, tmp_path, *COMMAND, *arguments) != 3
    assert len(list((dest / ".fetchmill/open").iterdir())) == 1

    assert run(*arguments).code == 3

    assert len(read_failures(dest)) == 2
    assert list((dest / ".fetchmill/open").iterdir()) == []
    # A retry run that is killed before it removes the file has not fetched anything yet.
    asked = len(site.asked("/"))
    assert kill_before("unlink", 1, environment, tmp_path, *COMMAND, *arguments, "--retry-failed") != 3
    assert len(site.asked("/")) == asked
    site.routes["/absent"] = site.routes["/gone"] = reply(b"mended")
    assert run(*arguments).code == 0
    assert not has_failures(dest)


@pytest.mark.one_in(3)
@pytest.mark.sampled(1)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_signal_during_write_leaves_no_partial_failures_file(
    run: Run, start: Start, tmp_path: Path, number: signal.Signals
) -> None:
    """The same command writes the file. If the signal comes too late, the file is complete."""
    count = 300_000
    (tmp_path / "list.txt").write_text("".join(f"no url {line}\n" for line in range(count)))
    arguments = ("get", "list.txt", "out", "--format", "parquet", "--quiet", "--durability", "process")
    process = start(*arguments)
    writing, deadline = tmp_path / "out/.fetchmill/open", time.monotonic() + 120
    while not list(writing.glob("unfetched-*")) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.001)

    process.send_signal(number)
    process.communicate(timeout=60)

    assert process.returncode in (3, 130, -signal.SIGKILL)
    if number == signal.SIGINT:
        assert has_failures(tmp_path / "out") == is_finished(tmp_path / "out")
    assert run(*arguments).code == 3
    assert sorted(line["sequence"] for line in read_failures(tmp_path / "out")) == list(range(count))
    assert list(writing.iterdir()) == []


def test_stopped_job_has_no_failures_file(run: Run, start: Start, server: Serve, tmp_path: Path) -> None:
    """After a signal or a limit, it is not yet known which targets are missing."""
    source = server(synthetic=400, faults=[Fault("status", status=404, rate=0.3)])
    arguments = ("get", source.url, "out", "--format", "parquet", "--quiet", "--commit-window", "0.05")
    process = start(*arguments, "--rate", "50")
    wait_for_rows(tmp_path / "out", 40)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert not has_failures(tmp_path / "out")

    assert run(*arguments).code == 3

    absent = fetchmill.status(tmp_path / "out").absent
    assert absent > 50
    assert len(read_failures(tmp_path / "out")) == absent


def test_foreign_failures_file_is_left_untouched(
    run: Run, environment: dict[str, str], raw: Raw, tmp_path: Path
) -> None:
    """The error names the file. Once it is moved away, the job finishes without further requests."""
    site = serve_sites(raw)
    arguments = ("get", write_list(tmp_path, [f"{site.url}/absent"]), "out", *options_of("tar"), "--threads", "1")
    # Without an object, the rename of the file is the only one.
    assert kill_before("renameat2", 1, environment, tmp_path, *COMMAND, *arguments) != 3
    foreign = tmp_path / "out" / FAILURES
    foreign.write_text("precious")

    refused = [run(*arguments) for _ in range(2)]

    for ended in refused:
        assert ended.code == 10, ended.err
        assert f"{FAILURES} exists, but does not belong to this job; move it away" in ended.err
        assert foreign.read_text() == "precious"
    foreign.unlink()
    assert run(*arguments).code == 3
    assert len(read_failures(tmp_path / "out")) == 1
    assert len(site.asked("/")) == 1


def test_bad_failures_file_is_found_and_restored(run: Run, raw: Raw, tmp_path: Path) -> None:
    """`verify` finds a damaged or missing file. The same command writes it again without a request."""
    site = serve_sites(raw)
    listed = write_list(tmp_path, [f"{site.url}{path}" for path in SITES])
    arguments = ("get", listed, "out", *options_of("tar"))
    assert run(*arguments).code == 3
    file, asked = tmp_path / "out" / FAILURES, len(site.asked("/"))
    good = file.read_bytes()

    for what, damage in (
        ("damaged", lambda: file.write_bytes(good[:99] + b"!" + good[100:])),
        ("damaged", lambda: file.write_bytes(good[:-1])),
        ("missing", file.unlink),
    ):
        damage()
        found = run("verify", "out")
        assert found.code == 10
        assert f"{what}\t{FAILURES}" in found.out
        assert run("verify", "out", "--repair").code == 0
        assert run(*arguments).code == 3
        assert file.read_bytes() == good
        assert fetchmill.verify(tmp_path / "out").ok
    assert len(site.asked("/")) == asked


@pytest.mark.parametrize("more", [(), ("--keep-failed",)], ids=["fetched", "all-rows"])
def test_verify_reports_unknown_failures_file(run: Run, raw: Raw, tmp_path: Path, more: tuple[str, ...]) -> None:
    """Such a file would list fetched objects as missing."""
    site = serve_sites(raw)
    path = "/absent" if more else "/fetched"
    arguments = ("get", write_list(tmp_path, [f"{site.url}{path}"]), "out", *options_of("jsonl"), *more)
    assert run(*arguments).code in (0, 3)
    (tmp_path / "out" / FAILURES).write_text("{}\n")

    found = run("verify", "out")

    assert (found.code, f"unknown\t{FAILURES}" in found.out) == (10, True)


def test_sync_adopting_shards_removes_failures_file(run: Run, server: Serve, tmp_path: Path) -> None:
    """The sync also fetches the missing objects, and reports its own failures."""
    source = server(synthetic=50, faults=[Fault("status", status=500, times=1, rate=0.5)])
    once = ("--format", "parquet", "--quiet")
    assert run("get", source.url, "out", *once, "--attempts", "1").code == 3
    assert has_failures(tmp_path / "out")

    synced = run("sync", source.url, "out", *once)

    assert synced.code == 0, synced.err
    assert not has_failures(tmp_path / "out")
    assert fetchmill.verify(tmp_path / "out").ok
    assert len(fetchmill.open(tmp_path / "out")) == 50
