"""After a kill, a clock change, a changed list or an unusual file system, no command fails or waits for ever."""

import contextlib
import json
import os
import shutil
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

import fetchmill
from conftest import COMMAND, Ended, format_options
from failing_listings import NAMES, make_listing
from fetchmill.errors import UsageError
from fetchmill.testing import Fault, Server
from independent import find_problems, synthetic
from raw_server import Exchange, RawServer, reply, then_stall
from stored import find_wrong
from synced import bodies, kill_in

Run = Callable[..., Ended]
Serve = Callable[..., Server]
Raw = Callable[..., RawServer]
Start = Callable[..., "subprocess.Popen[str]"]

DAY_MS = 86_400_000


def test_clock_set_back_delays_no_target(start: Start, server: Serve, dest: Path) -> None:
    """Times in the journal are limited to the longest possible wait from now."""
    faults = [Fault("status", status=503, match="file-00000000001*", times=1, retry_after=30)]
    source = server(synthetic=40, faults=faults)
    process = start("get", source.url, dest)
    deadline = time.monotonic() + 30
    waiting = 0
    while waiting < 8:
        assert time.monotonic() < deadline
        time.sleep(0.05)
        if (dest / ".fetchmill/job.sqlite").exists():
            with closing(sqlite3.connect(dest / ".fetchmill/job.sqlite")) as journal:
                rows = journal.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'waiting'").fetchone()
                waiting = journal.execute("SELECT count(*) FROM waiting").fetchone()[0] if rows[0] else 0
    process.kill()
    process.communicate()
    with closing(sqlite3.connect(dest / ".fetchmill/job.sqlite")) as journal, journal:
        journal.execute(
            "UPDATE waiting SET not_before = not_before + ?, throttled_since = throttled_since + ?", (DAY_MS,) * 2
        )

    resumed = start("get", source.url, dest)
    time.sleep(1.5)
    resumed.terminate()
    resumed.communicate(timeout=30)

    with closing(sqlite3.connect(dest / ".fetchmill/job.sqlite")) as journal:
        latest = journal.execute("SELECT max(not_before) FROM waiting").fetchone()[0]
    assert latest <= time.time() * 1000 + 330_000


def test_changed_list_is_read_again_after_killed_listing(
    run: Run, start: Start, server: Serve, dest: Path, tmp_path: Path
) -> None:
    """A sync that was killed while listing reads the list from its start, even if the list has changed."""
    source = server(synthetic=300)
    urls = tmp_path / "urls.txt"

    def write(count: int) -> None:
        urls.write_text("".join(f"{source.url}/get/file-{number:012}\n" for number in range(count)))

    command = ("sync", urls, dest, "--allow-private", "--quiet")
    write(400_000)
    assert kill_in("listing", start(*command), dest / ".fetchmill/sync", 0.3)
    write(250)

    ended = run(*command)

    assert ended.code == 0, ended.err
    assert len(bodies(dest)) == 250


@pytest.mark.sampled(2)
@pytest.mark.parametrize("format", ["files", "parquet", "jsonl", "warc"])
def test_job_completes_without_rename_noreplace(
    run: Run, environment: dict[str, str], server: Serve, dest: Path, tmp_path: Path, format: str
) -> None:
    """NFS, sshfs, 9p and most FUSE file systems return EINVAL for this flag."""
    strace = shutil.which("strace")
    assert strace, "strace is missing: make servers"
    refuse = [strace, "-f", "--seccomp-bpf", "-qq", "-o", os.devnull]
    refuse += ["-e", "trace=renameat2", "-e", "inject=renameat2:error=EINVAL"]
    source = server(synthetic=300)

    for command in (("get", source.url, dest, *format_options(format)), ("sync", source.url, dest, "--format", format)):
        ended = subprocess.run(
            [*refuse, *COMMAND, *map(str, command), "--quiet"],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr
        if command[0] == "get":
            assert find_problems(dest, synthetic(300), format) == []

    assert len(run("ls", dest).out.splitlines()) == 300 or format == "files"


@pytest.fixture
def fuse(tmp_path: Path) -> Iterator[Path]:
    """Mounts a file system in user space without RENAME_NOREPLACE."""
    bindfs, unmount = shutil.which("bindfs"), shutil.which("fusermount") or shutil.which("fusermount3")
    assert bindfs, "bindfs is missing: make servers"
    assert unmount, "fusermount is missing: make servers"
    real, mounted = tmp_path / "real", tmp_path / "mounted"
    real.mkdir()
    mounted.mkdir()
    subprocess.run([bindfs, "--no-allow-other", real, mounted], check=True, timeout=20)
    try:
        yield mounted
    finally:
        subprocess.run([unmount, "-u", "-z", mounted], check=True, timeout=20)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("format", ["files", "parquet", "jsonl", "warc"])
def test_get_and_sync_work_on_fuse_destination(
    run: Run, start: Start, server: Serve, fuse: Path, tmp_path: Path, format: str
) -> None:
    """This includes a kill, a resumed job, `verify`, and syncs that change and delete files."""
    source, expected = server(synthetic=600, delay=(0.0, 0.01)), synthetic(600)
    dest = fuse / "out"
    options = format_options(format)
    killed = start("get", source.url, dest, *options, "--rate", "400", "--commit-window", "50ms")
    deadline = time.monotonic() + 30
    fetched = 0
    while fetched < 50:
        assert time.monotonic() < deadline
        time.sleep(0.05)
        # At first there is no journal, and then one without tables.
        with contextlib.suppress(UsageError):
            fetched = fetchmill.status(dest).fetched
    killed.kill()
    killed.communicate()

    ended = run("get", source.url, dest, *options)

    assert ended.code == 0, ended.err
    assert find_problems(dest, expected, format) == []
    assert run("verify", dest).code == 0
    content, synced = tmp_path / "content", fuse / "synced"
    content.mkdir()
    for number in range(100):
        (content / f"n{number}").write_text(str(number))
    command = ("sync", server(folder=content).url, synced, "--format", format, "--delete", "--max-delete", "50%")
    assert run(*command).code == 0
    for number in range(20):
        (content / f"n{number}").unlink()
    (content / "n99").write_text("changed")
    ended = run(*command, "--json")
    report = json.loads(ended.out.splitlines()[-1])
    assert (ended.code, report["removed"]) == (0, 20), ended.out
    assert find_wrong(synced, format, {path.name: path.read_bytes() for path in content.iterdir()}) == []


def asked(server: RawServer) -> list[str]:
    """Returns the objects that were requested from the server."""
    return [target for target in server.asked("/") if target.rsplit("/", 1)[-1] in NAMES]


def kill_while_listing(process: "subprocess.Popen[str]", server: RawServer, stalled: str, objects: int) -> None:
    """Kills the job while it waits for a page, after the earlier pages were stored."""
    deadline = time.monotonic() + 60
    while server.count(stalled) == 0 or len(set(asked(server))) < objects:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    time.sleep(0.4)
    process.kill()
    process.communicate()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("format", ["files", "jsonl", "parquet"])
@pytest.mark.parametrize("way", ["api", "json-marker", "json-url", "json-page"])
def test_listing_restarts_when_marker_has_expired(
    run: Run, start: Start, raw: Raw, dest: Path, way: str, format: str
) -> None:
    """Fetched objects stay and are not requested again, even if the second listing is killed."""
    server = raw({})
    listing = make_listing(way)(server.url)
    server.routes |= listing.routes()
    (third, page), (fourth, _) = listing.pages[2:4]
    command = ("get", server.url + listing.source, dest, *listing.options, "--format", format, "--quiet")
    server.routes[third] = then_stall(b"")
    kill_while_listing(start(*command, "--commit-window", "20ms"), server, third, 8)
    # The marker of that page is no longer known; the restarted listing has another one.
    asked_before = server.count(third)

    def expired_once(exchange: Exchange) -> bytes:
        return page if exchange.number > asked_before + 1 else reply(status="410 Gone")

    server.routes |= {third: expired_once, fourth: then_stall(b"")}
    kill_while_listing(start(*command, "--commit-window", "20ms"), server, fourth, 12)
    server.routes |= listing.routes()

    ended = run(*command)

    assert ended.code == 0, ended.err
    assert fetchmill.status(dest).listed == len(NAMES)
    assert sorted(name.rsplit("/", 1)[-1] for name in run("ls", dest).out.split()) == NAMES
    assert len(asked(server)) == len(NAMES)
    # A restarted listing starts again, because the names that have arrived since then are not known.
    assert server.count(listing.pages[0][0]) == 3
    assert run("verify", dest).code == 0


def test_expired_marker_is_error_when_job_keeps_no_names(run: Run, start: Start, raw: Raw, dest: Path) -> None:
    """The error says why, and what to do."""
    server = raw({})
    listing = make_listing("api")(server.url)
    server.routes |= listing.routes()
    third = listing.pages[2][0]
    command = ("get", server.url, dest, *listing.options, "--format", "null", "--quiet")
    server.routes[third] = then_stall(b"")
    kill_while_listing(start(*command, "--commit-window", "20ms"), server, third, 8)
    server.routes[third] = reply(status="410 Gone")

    ended = run(*command)

    assert ended.code == 4
    assert "the marker from an earlier run may have expired, and the listing cannot start over" in ended.err
    assert "use another destination" in ended.err


@pytest.mark.parametrize("status", ["401 Unauthorized", "410 Gone"])
def test_marker_is_kept_when_listing_start_is_also_refused(
    run: Run, start: Start, raw: Raw, dest: Path, status: str
) -> None:
    """An expired token, or a server that is gone, is not an expired marker."""
    server = raw({})
    listing = make_listing("json-url")(server.url)
    server.routes |= listing.routes()
    third = listing.pages[2][0]
    command = ("get", server.url + listing.source, dest, *listing.options, "--quiet")
    server.routes[third] = then_stall(b"")
    kill_while_listing(start(*command, "--commit-window", "20ms"), server, third, 8)
    server.routes |= {target: reply(status=status) for target, _ in listing.pages}

    refused = run(*command)
    server.routes |= listing.routes()
    before = server.count(listing.pages[0][0])
    ended = run(*command)

    assert (refused.code, ended.code) == (4, 0), ended.err
    assert server.count(listing.pages[0][0]) == before
    assert fetchmill.status(dest).fetched == len(NAMES)


@pytest.mark.parametrize("format", ["jsonl", "files"])
def test_duplicate_names_stay_two_targets_in_restarted_listing(
    run: Run, start: Start, raw: Raw, dest: Path, format: str
) -> None:
    """Both count as listed, and the second URL is requested, too."""
    options: tuple[str, ...] = ("--listing", "json", "--items-field", "items", "--url-field", "u", "--name-field", "n")
    options += ("--next-page", "url", "--next-field", "next", "--format", format)
    pages = [[("x", "/o/a"), ("y", "/o/b")], [("x", "/o/c"), ("z", "/o/d")]]

    def page(number: int, lead: str | None) -> bytes:
        items = [{"n": name, "u": url} for name, url in pages[number]]
        return reply(json.dumps({"items": items, "next": lead}).encode())

    server = raw({url: reply(url.encode()) for part in pages for _, url in part})
    server.routes |= {"/v1": page(0, "/v2"), "/v2": then_stall(b"")}
    command = ("get", f"{server.url}/v1", dest, *options, "--quiet")
    process = start(*command, "--commit-window", "20ms")
    while server.count("/v2") == 0 or server.count("/o/b") == 0:
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    time.sleep(0.4)
    process.kill()
    process.communicate()
    server.routes["/v2"] = lambda exchange: page(1, None) if exchange.number > 2 else reply(status="410 Gone")

    ended = run(*command)

    assert fetchmill.status(dest).listed == 4
    assert server.count("/o/c") == 1
    assert ended.code == (0 if format == "jsonl" else 3), ended.err


@pytest.mark.sampled(2)
@pytest.mark.parametrize("format", ["tar", "jsonl", "warc", "parquet"])
@pytest.mark.parametrize("file", ["path", "manifest"])
@pytest.mark.parametrize("damage", ["flipped", "cut", "gone"])
def test_damaged_open_shard_is_not_sealed(
    run: Run, start: Start, server: Serve, dest: Path, format: str, file: str, damage: str
) -> None:
    """The next run says what to do. Damaged objects are fetched again, but lost names stay lost."""
    source = server(synthetic=400, size=300, delay=(0.02, 0.03))
    command = ("get", source.url, dest, "--format", format, "-j", "4", "--commit-window", "20ms", "--quiet")
    process = start(*command)
    journal = dest / ".fetchmill/job.sqlite"
    row = None
    while row is None:
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
        with contextlib.suppress(sqlite3.OperationalError), closing(sqlite3.connect(journal)) as db:
            row = db.execute(f"SELECT {file}, end, manifest_end FROM open_shards WHERE end > 4000").fetchone()  # noqa: S608
    process.kill()
    process.communicate()
    with closing(sqlite3.connect(journal)) as db:
        row = db.execute(f"SELECT {file}, end, manifest_end FROM open_shards").fetchone()  # noqa: S608 - names of this file
    path, end = dest / ".fetchmill/open" / row[0], row[1 if file == "path" else 2]
    found = bytearray(path.read_bytes())
    if damage == "gone":
        path.unlink()
    else:
        found[end // 2] ^= 0x10
        path.write_bytes(found if damage == "flipped" else found[: end // 2])

    refused = run(*command)

    assert (refused.code, refused.err.count("\n")) == (10, 1), refused
    if file == "manifest":
        assert "the names of its objects are lost" in refused.err
        return
    assert "verify --repair" in refused.err
    repaired = run("verify", dest, "--repair")
    ended = run(*command)
    assert repaired.code in {0, 10}, repaired
    assert ended.code == 0, ended.err
    assert run("verify", dest).code == 0
    assert [each for each in find_problems(dest, synthetic(400, 300), format) if "job.sqlite-" not in each] == []
