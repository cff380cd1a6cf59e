"""`get --restart`: the files of the earlier job are removed, and nothing else, however a run ends.

`FETCHMILL_SEED` repeats the moments of kills.
"""

import contextlib
import os
import random
import sqlite3
import subprocess
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import fetchmill
from conftest import COMMAND, Ended, wait_for_rows
from fetchmill.testing import Server
from ports import free_ports
from raw_server import Behaviour, Exchange, RawServer
from system_calls import kill_before

Run = Callable[..., Ended]
Serve = Callable[..., Server]
Start = Callable[..., "subprocess.Popen[str]"]
Raw = Callable[[Mapping[str, Behaviour]], RawServer]

SEED = int(os.environ.get("FETCHMILL_SEED") or time.time_ns() % 1_000_000)
FORMATS = ("files", "tar", "jsonl", "parquet", "warc")
HASTE = ("--allow-private", "--limit-per-host", "0", "--rate-per-host", "0", "--attempts", "1")
PENDING = b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n"


def reply(body: bytes) -> bytes:
    """Returns a reply with a body."""
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


def site_of(raw: Raw, folder: Path) -> tuple[RawServer, tuple[str, ...]]:
    """Returns a site with old and new objects, and writes a list of each. The lists share one name."""
    site = raw(
        {"/both": reply(b"old")} | {f"/d/{kind}{n}": reply(kind.encode()) for kind in ("old", "new") for n in (1, 2)}
    )
    for kind in ("old", "new"):
        paths = ("/both", f"/d/{kind}1", f"/d/{kind}2")
        (folder / f"{kind}.txt").write_text("".join(f"{site.url}{path}\n" for path in paths))
    return site, HASTE


def others(dest: Path) -> list[str]:
    """Returns the paths below a destination, without its journal."""
    found = (path.relative_to(dest) for path in dest.rglob("*"))
    return sorted(str(path) for path in found if path.parts[0] != ".fetchmill")


def names(dest: Path) -> set[str]:
    """Returns the last parts of the names of the stored objects."""
    return {name.rpartition("/")[2] for name in fetchmill.open(dest)}


@pytest.mark.parametrize("format", FORMATS)
def test_restart_removes_files_of_earlier_job(run: Run, raw: Raw, tmp_path: Path, format: str) -> None:
    """The message has the number of files. Files of the user stay, and the option is not part of the job."""
    site, haste = site_of(raw, tmp_path)
    assert run("get", "old.txt", "out", "--format", format, *haste).code == 0
    files = [path for path in others(tmp_path / "out") if (tmp_path / "out" / path).is_file()]
    (tmp_path / "out/mine.txt").write_text("mine")
    other = run("get", "new.txt", "out", "--format", format, *haste)
    assert other.code == 2
    assert "\nhint: to remove that job's files and start over, add --restart\n" in other.err
    site.routes["/both"] = reply(b"changed")

    ended = run("get", "new.txt", "out", "--format", format, "--restart", *haste)

    assert ended.code == 0, ended.err
    assert f"removed {len(files)} file" in ended.out + ended.err
    assert (tmp_path / "out/mine.txt").read_text() == "mine"
    (tmp_path / "out/mine.txt").unlink()
    assert names(tmp_path / "out") == {"both", "new1", "new2"}
    assert not [path for path in others(tmp_path / "out") if "old" in path]
    assert run("verify", "out").code == 0
    again = run("get", "new.txt", "out", "--format", format, *haste)
    assert (again.code, "already complete" in again.out + again.err) == (0, True)
    assert run("resume", "out").code == 0


def test_restart_with_other_format_removes_old_files(run: Run, raw: Raw, tmp_path: Path) -> None:
    """This holds in Python, too."""
    _, haste = site_of(raw, tmp_path)
    assert run("get", "old.txt", "out", "--format", "jsonl", *haste).code == 0
    shards = list((tmp_path / "out").glob("shard-*"))

    report = fetchmill.get(tmp_path / "old.txt", tmp_path / "out", restart=True, allow_private=True)

    assert report.fetched == 3
    assert shards
    assert not [shard for shard in shards if shard.exists()]
    with contextlib.closing(sqlite3.connect(tmp_path / "out/.fetchmill/job.sqlite")) as journal:
        facts = dict(journal.execute("SELECT key, value FROM job"))
    assert "restart" not in repr(facts).replace(str(tmp_path), "")


def test_restart_is_accepted_for_new_destination(run: Run, raw: Raw, tmp_path: Path) -> None:
    """There is nothing to remove. A folder with other files is refused as without `--restart`."""
    _, haste = site_of(raw, tmp_path)
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs/x").touch()

    ended = run("get", "new.txt", "out", "--restart", *haste)
    refused = run("get", "new.txt", "theirs", "--restart", *haste)

    assert (ended.code, "removed" in ended.err) == (0, False), ended.err
    assert (refused.code, others(tmp_path / "theirs")) == (2, ["x"])


def test_restart_keeps_user_file_named_like_failed_object(run: Run, raw: Raw, tmp_path: Path) -> None:
    """The job never put its object there, although the file has the same size."""
    _, haste = site_of(raw, tmp_path)
    site = raw({"/a": PENDING, "/b": reply(b"four")})
    (tmp_path / "list.txt").write_text(f"{site.url}/a\n{site.url}/b\n")
    words = ("get", "list.txt", "out", "--names", "seq", *haste)
    assert run(*words).code == 3
    (changed,) = (tmp_path / "out").rglob("*1")
    taken = changed.with_name(changed.name[:-1] + "0")
    taken.write_text("1234")
    site.routes["/a"] = reply(b"4321")
    assert run(*words, "--retry-failed").code == 3
    changed.write_text("edited by hand")

    ended = run("get", "new.txt", "out", "--restart", *haste)

    assert ended.code == 0, ended.err
    assert (taken.read_text(), changed.read_text()) == ("1234", "edited by hand")
    assert "removed 0 files (0 B) of the earlier job; kept 1 file" in ended.out + ended.err


def test_restart_removes_nothing_beyond_link(run: Run, raw: Raw, tmp_path: Path) -> None:
    """A folder or an object of the job was replaced by a link. The files that the link leads to stay."""
    _, haste = site_of(raw, tmp_path)
    assert run("get", "old.txt", "out", *haste).code == 0
    (folder,) = (tmp_path / "out").rglob("d")
    (both,) = (tmp_path / "out").rglob("both")
    folder.rename(tmp_path / "d")
    folder.symlink_to(tmp_path / "d")
    both.rename(tmp_path / "both")
    both.symlink_to(tmp_path / "both")

    ended = run("get", "new.txt", "out", "--restart", "--names", "seq", *haste)

    assert ended.code == 0, ended.err
    assert sorted(path.name for path in (tmp_path / "d").iterdir()) == ["old1", "old2"]
    assert (tmp_path / "both").read_bytes() == b"old"
    assert folder.is_symlink()
    assert both.is_symlink()


@pytest.mark.parametrize("format", ["tar", "warc"])
def test_restart_keeps_link_named_like_shard(run: Run, raw: Raw, tmp_path: Path, format: str) -> None:
    """A link with the name of a shard leads to a file of the user."""
    _, haste = site_of(raw, tmp_path)
    assert run("get", "old.txt", "out", "--format", format, "--threads", "1", *haste).code == 0
    (shard,) = (path for path in (tmp_path / "out").glob("shard-*") if path.suffix != ".cdxj")
    shard.rename(tmp_path / "moved")
    shard.symlink_to(tmp_path / "moved")

    ended = run("get", "new.txt", "out", "--restart", *haste)

    assert ended.code == 0, ended.err
    assert (shard.is_symlink(), (tmp_path / "moved").exists()) == (True, True)


def test_restart_keeps_user_file_named_like_retried_object(run: Run, start: Start, raw: Raw, tmp_path: Path) -> None:
    """A retry was killed, so the target no longer counts as failed, but the file is not from the job."""
    site = raw({"/a": PENDING, "/b": reply(b"four"), "/new": reply(b"new")})
    (tmp_path / "list.txt").write_text(f"{site.url}/a\n{site.url}/b\n")
    (tmp_path / "new.txt").write_text(f"{site.url}/new\n")
    words = ("get", "list.txt", "out", "--names", "seq", "--quiet", *HASTE)
    assert run(*words).code == 3
    (placed,) = (tmp_path / "out").rglob("*1")
    taken = placed.with_name(placed.name[:-1] + "0")
    taken.write_text("1234")
    site.routes["/a"] = reply(b"4321")
    assert run(*words, "--retry-failed").code == 3
    asked = threading.Event()

    def stall(exchange: Exchange) -> None:
        asked.set()
        exchange.stall()

    site.routes["/a"] = stall
    process = start(*words, "--retry-failed")
    assert asked.wait(60)
    process.kill()
    process.wait(30)

    ended = run("get", "new.txt", "out", "--restart", *HASTE)

    assert ended.code == 0, ended.err
    assert (taken.read_text(), placed.exists()) == ("1234", False)


@pytest.mark.parametrize("format", ["jsonl", "warc"])
def test_restart_keeps_replaced_shard_file(run: Run, raw: Raw, tmp_path: Path, format: str) -> None:
    """The size of the file differs from that of the shard. The new job gives its own shard another number."""
    _, haste = site_of(raw, tmp_path)
    assert run("get", "old.txt", "out", "--format", format, "--threads", "1", *haste).code == 0
    (shard,) = (path for path in (tmp_path / "out").glob("shard-*") if path.suffix != ".cdxj")
    shard.write_text("mine")

    ended = run("get", "new.txt", "out", "--format", format, "--threads", "1", "--restart", *haste)

    assert ended.code == 0, ended.err
    assert "kept 1 file that differs from what the job stored" in ended.out + ended.err
    assert shard.read_text() == "mine"
    assert names(tmp_path / "out") == {"both", "new1", "new2"}


def test_restart_refuses_list_in_destination(run: Run, raw: Raw, tmp_path: Path) -> None:
    """The list may be a file of the job that would be removed."""
    _, haste = site_of(raw, tmp_path)
    with (tmp_path / "old.txt").open("a") as urls:
        urls.write((tmp_path / "old.txt").read_text().splitlines()[0] + "-missing\n")
    words = ("--format", "jsonl", *haste)
    assert run("get", "old.txt", "out", *words).code == 3
    before = others(tmp_path / "out")
    (tmp_path / "link.ndjson").symlink_to("out/_failures.ndjson")

    for source in ("out/_failures.ndjson", "out/*.ndjson", "link.ndjson"):
        refused = run("get", source, "out", "--restart", "--list-format", "jsonl", *words)
        message = f"--restart would remove {source}, because it is in out; copy the list to another folder first"
        assert (refused.code, message in refused.err) == (2, True), refused.err
    assert others(tmp_path / "out") == before


def test_restart_with_unusable_list_removes_nothing(run: Run, raw: Raw, tmp_path: Path) -> None:
    """The list lacks a column, which only its first record shows."""
    _, haste = site_of(raw, tmp_path)
    assert run("get", "old.txt", "out", *haste).code == 0
    (tmp_path / "new.csv").write_text("url,rank\nhttp://127.0.0.1:9/,1\n")

    refused = run("get", "new.csv", "out", "--column", "uri", "--restart", *haste)

    assert (refused.code, "has no column uri" in refused.err) == (2, True), refused.err
    assert names(tmp_path / "out") == {"both", "old1", "old2"}
    assert run("verify", "out").code == 0


@pytest.mark.parametrize("source", ["an empty list", "a server that is down", "an empty server"])
def test_restart_with_empty_source_removes_nothing(run: Run, raw: Raw, tmp_path: Path, source: str) -> None:
    """A typing error in a URL does not cost the files of the earlier job."""
    _, haste = site_of(raw, tmp_path)
    assert run("get", "old.txt", "out", *haste).code == 0
    (tmp_path / "empty.txt").write_text("\n")
    empty = raw({"/list": reply(b'{"FileNames": []}')})
    down = f"http://127.0.0.1:{free_ports(1)[0]}"
    words: dict[str, Any] = {"listing": "api", "give_up_after": 0.2} if "server" in source else {}
    given = {"an empty list": "empty.txt", "a server that is down": down, "an empty server": empty.url}[source]

    refused = run(
        "get",
        given,
        "out",
        "--restart",
        *(("--listing", "api", "--give-up-after", "0.2s") if "server" in source else ()),
        *haste,
    )

    assert refused.code in (4, 5), refused.err
    assert names(tmp_path / "out") == {"both", "old1", "old2"}
    assert run("verify", "out").code == 0
    with pytest.raises(fetchmill.FetchmillError):
        fetchmill.get(given, tmp_path / "out", restart=True, allow_private=True, **words)
    assert names(tmp_path / "out") == {"both", "old1", "old2"}


async def empty() -> AsyncIterator[str]:
    """Yields nothing."""
    nothing: tuple[str, ...] = ()
    for item in nothing:
        yield item


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: iter(()), fetchmill.ListingError, "the iterable yields no items; the job in .* was not removed"),
        (empty, fetchmill.ListingError, "the iterable yields no items"),
        (lambda: map(int, ["x"]), ValueError, "invalid literal"),
    ],
    ids=["an empty iterator", "an empty async iterable", "an iterator that raises"],
)
def test_restart_with_empty_iterable_removes_nothing(
    run: Run, raw: Raw, tmp_path: Path, make: Callable[[], Any], error: type[Exception], message: str
) -> None:
    """The first item is read before the removal."""
    _, haste = site_of(raw, tmp_path)
    assert run("get", "old.txt", "out", *haste).code == 0

    with pytest.raises(error, match=message):
        fetchmill.get(make(), tmp_path / "out", restart=True, allow_private=True)

    assert names(tmp_path / "out") == {"both", "old1", "old2"}


def test_restart_fetches_first_item_of_iterable(run: Run, raw: Raw, tmp_path: Path) -> None:
    """This item is read before the removal."""
    _, haste = site_of(raw, tmp_path)
    assert run("get", "old.txt", "out", *haste).code == 0
    urls = (tmp_path / "new.txt").read_text().split()

    report = fetchmill.get((url for url in urls), tmp_path / "out", restart=True, allow_private=True)

    assert (report.fetched, report.failed) == (3, 0)
    assert names(tmp_path / "out") == {"both", "new1", "new2"}


def test_restart_with_empty_stdin_removes_nothing(run: Run, raw: Raw, tmp_path: Path) -> None:
    """The command that should have written the list has failed. A list with lines is used completely."""
    _, haste = site_of(raw, tmp_path)
    assert run("get", "old.txt", "out", *haste).code == 0
    words = ("get", "-", "out", "--restart", *haste)
    (tmp_path / "empty.txt").touch()

    with subprocess.Popen(["true"], stdout=subprocess.PIPE) as writer, (tmp_path / "empty.txt").open() as file:
        of_pipe, of_file = run(*words, stdin=writer.stdout), run(*words, stdin=file)

    message = "fetchmill: error: standard input is empty; the job in out was not removed\n"
    assert (of_pipe.code, of_pipe.err, of_file.code, of_file.err) == (4, message, 4, message)
    assert names(tmp_path / "out") == {"both", "old1", "old2"}
    with subprocess.Popen(["cat", tmp_path / "new.txt"], stdout=subprocess.PIPE) as writer:
        assert run(*words, stdin=writer.stdout).code == 0
    assert names(tmp_path / "out") == {"both", "new1", "new2"}


def test_restart_reads_file_on_stdin_once(run: Run, raw: Raw, tmp_path: Path) -> None:
    """All readers share the file's position, so a trial before the removal would take the first lines."""
    _, haste = site_of(raw, tmp_path)
    assert run("get", "old.txt", "out", *haste).code == 0

    with (tmp_path / "new.txt").open() as file:
        ended = run("get", "-", "out", "--restart", *haste, stdin=file)

    assert ended.code == 0, ended.err
    assert names(tmp_path / "out") == {"both", "new1", "new2"}


def test_restart_reads_list_from_pipe_once(run: Run, raw: Raw, tmp_path: Path) -> None:
    """Nothing is listed from it before the removal, because its lines would be lost."""
    _, haste = site_of(raw, tmp_path)
    assert run("get", "old.txt", "out", *haste).code == 0
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=lambda: (tmp_path / "pipe").write_text((tmp_path / "new.txt").read_text()))
    writer.start()

    ended = run("get", "pipe", "out", "--restart", *haste)

    writer.join()
    assert ended.code == 0, ended.err
    assert names(tmp_path / "out") == {"both", "new1", "new2"}


def test_restart_keeps_journal_of_other_destination(run: Run, raw: Raw, tmp_path: Path) -> None:
    """The user names the state folder of another job, whose files would lose their journal."""
    _, haste = site_of(raw, tmp_path)
    words = ("--state", "state", "--format", "tar", *haste)
    assert run("get", "old.txt", "one", *words).code == 0

    refused = run("get", "new.txt", "two", "--restart", *words)

    message = "state holds the job of another destination, not of two; choose another folder for --state"
    assert (refused.code, message in refused.err) == (2, True), refused.err
    assert not (tmp_path / "two").exists()
    assert names(tmp_path / "one") == {"both", "old1", "old2"}
    (tmp_path / "one").rename(tmp_path / "moved")
    assert run("get", "new.txt", "moved", "--restart", *words).code == 0
    assert names(tmp_path / "moved") == {"both", "new1", "new2"}


def test_restart_refuses_damaged_job_before_removal(run: Run, raw: Raw, tmp_path: Path) -> None:
    """A removal that could never be completed would make every later command fail."""
    _, haste = site_of(raw, tmp_path)
    assert run("get", "old.txt", "out", *haste).code == 0
    # A busy machine may need several commit windows, each with a manifest.
    manifest, *_ = (tmp_path / "out/.fetchmill/manifests").iterdir()
    content = manifest.read_bytes()
    manifest.write_bytes(content[:-4] + bytes(4))

    refused = run("get", "new.txt", "out", "--restart", *haste)

    assert refused.code == 10, refused.err
    manifest.write_bytes(content)
    assert run("verify", "out").code == 0
    assert "already complete" in run("get", "old.txt", "out", *haste).err


def test_resume_fetches_new_job_after_killed_removal(
    run: Run, environment: dict[str, str], raw: Raw, tmp_path: Path
) -> None:
    """The old job is unfinished, and its command is no longer the last one."""
    _, haste = site_of(raw, tmp_path)
    assert run("get", "old.txt", "out", *haste).code == 0
    # The first calls remove the temporary folder in which a target of the new list was listed.
    for number in range(2, 40):
        kill_before("unlinkat", number, environment, tmp_path, *COMMAND, "get", "new.txt", "out", "--restart", *haste)
        if not fetchmill.status(tmp_path / "out").finished:
            break

    ended = run("resume", "out")

    assert ended.code == 0, ended.err
    assert names(tmp_path / "out") == {"both", "new1", "new2"}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("format", FORMATS)
def test_killed_restart_never_mixes_old_and_new_objects(
    run: Run, environment: dict[str, str], raw: Raw, tmp_path: Path, format: str
) -> None:
    """The kill comes before a system call of the removal. Either the old job is left, or the next run starts over."""
    rng = random.Random(f"{SEED}-{format}")
    _, haste = site_of(raw, tmp_path)
    old = ("get", "old.txt", "out", "--format", format, "--quiet", *haste)
    new = ("get", "new.txt", "out", "--format", format, "--quiet", *haste)
    assert run(*old).code == 0
    for call, at in rng.sample(
        [(call, at) for call in ("unlink", "unlinkat", "fdatasync", "syncfs") for at in (1, 2, 3)], 3
    ):
        kill_before(call, at, environment, tmp_path, *COMMAND, *new, "--restart")
        if rng.random() < 0.5:
            # Without `--restart`, the job is the old one, or a new one.
            ended = run(*new)
            if ended.code == 2:
                assert "belongs to another job" in ended.err
                assert names(tmp_path / "out") == {"both", "old1", "old2"}
                continue
            assert ended.code == 0, f"FETCHMILL_SEED={SEED} {call} {at}: {ended.err}"
            assert names(tmp_path / "out") == {"both", "new1", "new2"}, f"FETCHMILL_SEED={SEED} {call} {at}"
            assert run("verify", "out").code == 0

    ended = run(*new, "--restart")

    assert ended.code == 0, f"FETCHMILL_SEED={SEED}: {ended.err}"
    assert names(tmp_path / "out") == {"both", "new1", "new2"}
    assert not [path for path in others(tmp_path / "out") if "old" in path]
    assert run("verify", "out").code == 0


@pytest.mark.parametrize("format", ["files", "tar"])
def test_restart_removes_files_of_killed_job(
    run: Run, start: Start, server: Serve, tmp_path: Path, format: str
) -> None:
    """This includes open shards, and files of committed and uncommitted windows."""
    source = server(synthetic=600)
    words = ("get", source.url, "out", "--format", format, "--quiet", "--commit-window", "0.05", "--shard-size", "5000")
    process = start(*words, "--rate", "300")
    wait_for_rows(tmp_path / "out", random.Random(f"{SEED}-killed").randint(20, 300))
    process.kill()
    process.wait(30)

    ended = run("get", source.url, "out", "--format", format, "--restart", "--include", "*7")

    assert ended.code == 0, ended.err
    assert "removed " in ended.out + ended.err
    assert names(tmp_path / "out") == {f"file-{number:012}" for number in range(600) if number % 10 == 7}
    assert run("verify", "out").code == 0


def test_restart_refuses_running_job(run: Run, start: Start, server: Serve, tmp_path: Path) -> None:
    """Another process holds the lock. The exit code is 9, and that process continues."""
    source = server(synthetic=2000)
    process = start("get", source.url, "out", "--rate", "200", "--quiet")
    wait_for_rows(tmp_path / "out", 20)

    refused = run("get", source.url, "out", "--restart")

    assert refused.code == 9, refused.err
    assert "another fetchmill process is working on out" in refused.err
    assert process.poll() is None
    assert fetchmill.status(tmp_path / "out").fetched >= 20


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("s3://bucket/prefix/", "--format", "tar"), "--restart removes only local files, not objects of a bucket"),
        (("job", "--format", "tar", "--shared"), "other workers may be fetching ranges"),
        (("out", "--retry-failed"), "--restart and --retry-failed cannot be combined"),
    ],
)
def test_unsupported_restart_is_refused_with_reason(
    run: Run, tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    """The error has the reason, and nothing is created."""
    (tmp_path / "urls.txt").write_text("http://127.0.0.1:9/\n")

    refused = run("get", "urls.txt", *words, "--restart")

    assert (refused.code, message in refused.err) == (2, True), refused.err
    assert [path.name for path in tmp_path.iterdir()] == ["urls.txt"]


def test_error_for_other_job_suggests_restart(run: Run, raw: Raw, tmp_path: Path) -> None:
    """The hint fits the command line or Python. With `--retry-failed`, which excludes `--restart`, there is no hint."""
    _, haste = site_of(raw, tmp_path)
    assert run("get", "old.txt", "out", *haste).code == 0

    with pytest.raises(fetchmill.UsageError, match="belongs to another job") as of_list:
        fetchmill.get(tmp_path / "new.txt", tmp_path / "out", allow_private=True)
    with pytest.raises(fetchmill.UsageError, match="belongs to another job") as of_iterable:
        fetchmill.get(["http://127.0.0.1:9/"], tmp_path / "out", allow_private=True)
    with pytest.raises(fetchmill.UsageError, match="belongs to another job") as retrying:
        fetchmill.get(tmp_path / "new.txt", tmp_path / "out", allow_private=True, retry_failed=True)

    hint = "to remove that job's files and start over, pass restart=True"
    assert (of_list.value.hint, of_iterable.value.hint, retrying.value.hint) == (hint, hint, None)
    assert run("get", "new.txt", "out", *haste).err.endswith(
        f"hint: {hint.replace('pass restart=True', 'add --restart')}\n"
    )


def test_restart_refuses_results_and_synced_folders(run: Run, server: Serve, tmp_path: Path) -> None:
    """These belong to other commands, and keep their files."""
    source = server(synthetic=3)
    assert run("sync", source.url, "mirror").code == 0
    before = others(tmp_path / "mirror")

    refused = run("get", source.url, "mirror", "--restart")

    assert (refused.code, "only a sync may change the folder" in refused.err) == (2, True), refused.err
    assert others(tmp_path / "mirror") == before
