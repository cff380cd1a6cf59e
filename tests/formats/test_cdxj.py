"""`--cdxj` (the default) writes the index of `cdxj-indexer` next to each WARC shard, however a run ends.

`FETCHMILL_SEED` reproduces the random moments and URLs of a failed run.
"""

import contextlib
import io
import json
import os
import random
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from surt import surt
from warcio.archiveiterator import ArchiveIterator

import fetchmill
from archive_index import expected_index, index_of
from conftest import COMMAND, Ended, wait_for_rows
from fetchmill.testing import Fault, Server
from raw_server import Behaviour, RawServer
from system_calls import kill_before

Run = Callable[..., Ended]
Serve = Callable[..., Server]
Start = Callable[..., "subprocess.Popen[str]"]
Raw = Callable[[Mapping[str, Behaviour]], RawServer]

SEED = int(os.environ.get("FETCHMILL_SEED") or time.time_ns() % 1_000_000)
HASTE = ("--allow-private", "--limit-per-host", "0", "--rate-per-host", "0", "--attempts", "1", "--quiet")
WARC = ("--format", "warc", "--cdxj")
NO_INDEX = "--no-cdxj"
# URL parts with a special meaning, to be combined at random.
PIECES = (
    *("a", "B", "index", ".aspx", "/", "//", "/./", "/../", ".", "~", "%20", "%2F", "%2520", "%61", "%c3%a9", "%zz"),
    *("'", '"', "\\", "(", ")", "[", "|", "^", ";", ":", "@", "!", "$", "*", ",", "+", "=", "&", "%26", "%3f", "%23"),
    *("?", "?a=1", "&b=2", "&A=", "sid=" + "0a" * 16, "&jsessionid=" + "F" * 32, "&cfid=1&cftoken=2", "PHPSESSID="),
    *("/(" + "a1b2" * 6 + ")/x.aspx", "/(A(" + "a1b2" * 6 + "))/y.aspx", "www.", "%", "%2", "aspsessionid"),
)


def reply(status: int, body: bytes = b"", *fields: str) -> bytes:
    """Returns a reply with a length."""
    head = "".join(f"{field}\r\n" for field in fields)
    return b"HTTP/1.1 %d It\r\n%bContent-Length: %d\r\n\r\n%b" % (status, head.encode("latin-1"), len(body), body)


def shards(dest: Path) -> list[Path]:
    """Returns the sealed shards."""
    return sorted(dest.glob("shard-*.warc.gz"))


def forget_command(dest: Path) -> None:
    """Removes the command from a journal, as if an earlier release had written it."""
    with contextlib.closing(sqlite3.connect(dest / ".fetchmill/job.sqlite")) as journal, journal:
        journal.execute("DELETE FROM job WHERE key = 'command'")


def entries(index: Path) -> Iterator[tuple[str, str, dict[str, str]]]:
    """Returns key, time and fields of each line."""
    for line in index.read_text("ascii").splitlines():
        key, timestamp, fields = line.split(" ", 2)
        yield key, timestamp, json.loads(fields)


def assert_right(dest: Path) -> int:
    """Checks that each shard has the index that other tools create, and that no other index exists.

    Returns the number of lines.
    """
    found = shards(dest)
    assert sorted(dest.glob("*.cdxj")) == [index_of(shard) for shard in found]
    lines = 0
    for shard in found:
        index = index_of(shard).read_text("ascii")
        assert index == expected_index(shard), f"FETCHMILL_SEED={SEED}"
        assert index.encode().splitlines() == sorted(index.encode().splitlines())
        lines += len(index.splitlines())
    return lines


def read_record(dest: Path, fields: dict[str, str]) -> tuple[str, str, bytes]:
    """Returns type, URI and content of the only record that an index line points to."""
    with (dest / fields["filename"]).open("rb") as file:
        file.seek(int(fields["offset"]))
        piece = file.read(int(fields["length"]))
    assert len(piece) == int(fields["length"])
    found = [
        (record.rec_type, record.rec_headers["WARC-Target-URI"], record.content_stream().read())
        for record in ArchiveIterator(io.BytesIO(piece))
    ]
    assert len(found) == 1
    return found[0]


def test_cdxj_index_equals_reference_indexer(run: Run, raw: Raw, tmp_path: Path) -> None:
    """The replies include chunked, empty and oddly typed ones. Each line of the index points to its record."""
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: a/b ;c=d\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
    sites: dict[str, Behaviour] = {
        "/plain": reply(200, b"plain", "Content-Type: text/plain; charset=utf-8"),
        "/none": reply(200, b"no type"),
        "/empty": reply(200, b"", "Content-Type: text/html"),
        "/odd": reply(200, b"odd", 'Content-Type: "\\\xe9/x'),
        "/twice": reply(200, b"twice", "Content-Type: text/a", "Content-Type: text/b"),
        "/chunked": chunked,
        "/large": reply(200, random.Random(SEED).randbytes(3_000_000), "content-type:image/png"),
        "/B/": reply(200, b"upper"),
        "/b": reply(200, b"lower"),
        "/from": reply(302, b"", "Location: /plain?to"),
        "/plain?to": reply(200, b"redirected", "Content-Type: text/plain"),
        "/absent": reply(404, b"no"),
    }
    site = raw(sites)
    (tmp_path / "list.txt").write_text("".join(f"{site.url}{path}\n" for path in sites))

    ended = run("get", "list.txt", "out", *WARC, *HASTE)

    # One is absent.
    assert ended.code == 3, ended.err
    assert assert_right(tmp_path / "out") == len(sites) - 1
    for shard in shards(tmp_path / "out"):
        for key, _, fields in entries(index_of(shard)):
            kind, uri, body = read_record(tmp_path / "out", fields)
            assert (kind, uri) == ("response", fields["url"])
            assert key == surt(fields["url"])
            if fields["url"].endswith("/large"):
                assert body == random.Random(SEED).randbytes(3_000_000)
    assert fetchmill.verify(tmp_path / "out").ok
    # An index is not an object: readers of objects see the same number as before.
    assert len(run("ls", "out").out.splitlines()) == len(sites) - 1


def test_cdxj_keys_of_random_urls_equal_reference(run: Run, raw: Raw, tmp_path: Path) -> None:
    """Keys of random paths and queries equal those of other tools."""
    rng = random.Random(f"{SEED}-urls")
    site = raw({"": reply(200, b"x")})
    made = {"/" + "".join(rng.choices(PIECES, k=rng.randint(0, 7))) for _ in range(3000)}
    site.routes.update({path: reply(200, b"x") for path in made})
    (tmp_path / "list.txt").write_text("".join(f"{site.url}{path}\n" for path in sorted(made)))

    ended = run("get", "list.txt", "out", *WARC, *HASTE, "-j", "16")

    assert ended.code in (0, 3), ended.err
    assert assert_right(tmp_path / "out") > 1000


@pytest.mark.thorough
def test_cdxj_index_larger_than_sort_memory_is_correct(run: Run, server: Serve, tmp_path: Path) -> None:
    """URLs are long, so that few of them exceed the sort memory."""
    count, query = 15_000, "q=" + "a" * 500
    source = server(synthetic=count, size=1)
    urls = (f"{source.url}/get/file-{number:012}?{query}\n" for number in range(count))
    (tmp_path / "list.txt").write_text("".join(urls))

    ended = run("get", "list.txt", "out", *WARC, *HASTE, "--threads", "1", "--durability", "process")

    assert ended.code == 0, ended.err
    (index,) = (tmp_path / "out").glob("*.cdxj")
    assert index.stat().st_size > 16 << 20
    assert assert_right(tmp_path / "out") == count
    assert list((tmp_path / "out/.fetchmill/open").iterdir()) == []


def test_repeatedly_killed_job_has_every_cdxj_index(run: Run, start: Start, server: Serve, tmp_path: Path) -> None:
    """`kill -9` hits at random moments. Indexes appear only at the end."""
    rng = random.Random(f"{SEED}-kills")
    source = server(synthetic=900, faults=[Fault("status", status=404, rate=0.2)])
    arguments = ("get", source.url, "out", *WARC, "--quiet", "--commit-window", "0.05", "--shard-size", "20000")
    for done in sorted(rng.sample(range(20, 500), 3)):
        # Slow enough that the job is certainly still running.
        process = start(*arguments, "--rate", "200")
        wait_for_rows(tmp_path / "out", done)
        process.kill()
        process.wait(30)
        assert not list((tmp_path / "out").glob("*.cdxj"))

    ended = run(*arguments)

    assert ended.code == 3, ended.err
    assert len(shards(tmp_path / "out")) > 4
    assert assert_right(tmp_path / "out") == fetchmill.status(tmp_path / "out").fetched
    assert fetchmill.verify(tmp_path / "out").ok


def some_shards(raw: Raw, folder: Path, count: int = 5) -> tuple[RawServer, tuple[str, ...]]:
    """Returns a site, and the command that puts each of its objects into a separate shard."""
    site = raw({f"/{number}": reply(200, b"body %d" % number, "Content-Type: text/plain") for number in range(count)})
    (folder / "list.txt").write_text("".join(f"{site.url}/{number}\n" for number in range(count)))
    return site, ("get", "list.txt", "out", *WARC, *HASTE, "--threads", "1", "--shard-size", "1")


def test_job_killed_while_writing_indexes_has_every_index(
    run: Run, environment: dict[str, str], raw: Raw, tmp_path: Path
) -> None:
    """The job is killed before one of the final renames, and again before another."""
    rng = random.Random(f"{SEED}-renames")
    site, arguments = some_shards(raw, tmp_path)
    dest = tmp_path / "out"
    # Every shard is sealed, and none has its index. Later runs make such calls only for indexes.
    assert kill_before("renameat2", 1, environment, tmp_path, *COMMAND, *arguments) != 0
    (dest / "shard-000000.cdxj").touch()
    assert run(*arguments).code == 10
    (dest / "shard-000000.cdxj").unlink()
    assert len(shards(dest)) == 5
    asked = len(site.asked("/"))
    for at in (rng.randint(2, 3), rng.randint(1, 2)):
        before = len(list(dest.glob("*.cdxj")))
        assert kill_before("renameat2", at, environment, tmp_path, *COMMAND, *arguments) != 0
        assert before <= len(list(dest.glob("*.cdxj"))) < 5

    ended = run(*arguments)

    assert ended.code == 0, ended.err
    assert assert_right(dest) == 5, f"FETCHMILL_SEED={SEED}"
    assert list((dest / ".fetchmill/open").iterdir()) == []
    assert fetchmill.verify(dest).ok
    assert len(site.asked("/")) == asked


@pytest.mark.parametrize("at", [9, -1], ids=["head of a member", "checksum of a member"])
def test_damaged_shard_gets_no_cdxj_index(
    run: Run, environment: dict[str, str], raw: Raw, tmp_path: Path, at: int
) -> None:
    """The header of a gzip member is covered only by the checksum of the shard."""
    _, arguments = some_shards(raw, tmp_path, 2)
    dest = tmp_path / "out"
    assert kill_before("renameat2", 1, environment, tmp_path, *COMMAND, *arguments) != 0
    (dest / "shard-000000.cdxj").touch()
    assert run(*arguments).code == 10
    (dest / "shard-000000.cdxj").unlink()
    shard = dest / "shard-000001.warc.gz"
    data = bytearray(shard.read_bytes())
    data[at] ^= 1
    shard.write_bytes(data)

    ended = run(*arguments)

    assert (ended.code, "shard-000001.warc.gz is damaged: " in ended.err) == (10, True), ended.err
    assert not (dest / "shard-000001.cdxj").exists()


@pytest.mark.thorough
def test_index_interrupted_by_signal_is_written_by_next_run(
    run: Run, start: Start, server: Serve, tmp_path: Path
) -> None:
    """If the signal comes too late, the index is complete."""
    source = server(synthetic=60_000, size=1)
    arguments = ("get", source.url, "out", *WARC, "--threads", "1", "--quiet", "--durability", "process")
    process = start(*arguments)
    deadline = time.monotonic() + 120
    # The shard gets its final name a moment before its index is started.
    while not shards(tmp_path / "out") and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.001)

    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)

    assert process.returncode in (0, 130)
    assert bool(list((tmp_path / "out").glob("*.cdxj"))) == (process.returncode == 0)
    assert run(*arguments).code == 0
    (index,) = (tmp_path / "out").glob("*.cdxj")
    lines = list(entries(index))
    keys = [key for key, _, _ in lines]
    assert keys == sorted(keys)
    assert {fields["url"] for _, _, fields in lines} == {f"{source.url}/get/file-{at:012}" for at in range(60_000)}
    assert len(lines) == 60_000
    # The whole job would take a minute.
    for _, _, fields in random.Random(SEED).sample(lines, 500):
        assert read_record(tmp_path / "out", fields)[:2] == ("response", fields["url"]), f"FETCHMILL_SEED={SEED}"
    assert fetchmill.verify(tmp_path / "out").ok


def test_foreign_file_with_index_name_is_left_untouched(
    run: Run, environment: dict[str, str], raw: Raw, tmp_path: Path
) -> None:
    """The error names the file, and the job finishes once the file is moved away."""
    _, arguments = some_shards(raw, tmp_path)
    assert kill_before("renameat2", 2, environment, tmp_path, *COMMAND, *arguments) != 0
    foreign = tmp_path / "out/shard-000002.cdxj"
    foreign.write_text("precious")

    refused = [run(*arguments) for _ in range(2)]

    for ended in refused:
        assert ended.code == 10, ended.err
        assert "shard-000002.cdxj exists, but does not belong to this job; move it away" in ended.err
        assert foreign.read_text() == "precious"
    foreign.unlink()
    assert run(*arguments).code == 0
    assert assert_right(tmp_path / "out") == 5


def test_bad_cdxj_indexes_are_found_and_restored(run: Run, raw: Raw, tmp_path: Path) -> None:
    """`verify` finds damaged, missing and unknown indexes. The same command writes them again without a request."""
    site, arguments = some_shards(raw, tmp_path)
    assert run(*arguments).code == 0
    asked = len(site.asked("/"))
    index = tmp_path / "out/shard-000003.cdxj"
    good = index.read_bytes()
    unknown = tmp_path / "out/shard-000099.cdxj"
    unknown.write_bytes(good)
    assert "unknown\tshard-000099.cdxj" in run("verify", "out").out
    unknown.unlink()

    for damage in (lambda: index.write_bytes(good[:9] + b"!" + good[10:]), index.unlink):
        damage()
        found = run("verify", "out")
        assert found.code == 10
        assert "shard-000003.cdxj" in found.out
        assert run("verify", "out", "--repair").code == 0
        assert run(*arguments).code == 0
        assert index.read_bytes() == good
        assert assert_right(tmp_path / "out") == 5
        assert fetchmill.verify(tmp_path / "out").ok
    assert len(site.asked("/")) == asked


def test_lost_shards_index_is_replaced_after_repair(run: Run, raw: Raw, tmp_path: Path) -> None:
    """The old index is removed, and the shard with the objects that were fetched again has one."""
    site, arguments = some_shards(raw, tmp_path)
    assert run(*arguments).code == 0
    (tmp_path / "out/shard-000001.warc.gz").unlink()
    assert run("verify", "out").code == 10
    assert run("verify", "out", "--repair").code == 0

    ended = run(*arguments)

    assert ended.code == 0, ended.err
    assert not (tmp_path / "out/shard-000001.cdxj").exists()
    assert assert_right(tmp_path / "out") == 5
    assert fetchmill.verify(tmp_path / "out").ok
    assert len(site.asked("/")) > 5


def test_retry_run_adds_index_and_keeps_existing_indexes(run: Run, raw: Raw, tmp_path: Path) -> None:
    """Objects that are fetched later are in a separate shard."""
    site, arguments = some_shards(raw, tmp_path)
    site.routes["/3"] = reply(500)
    assert run(*arguments).code == 3
    assert assert_right(tmp_path / "out") == 4
    before = {index: index.stat().st_ino for index in (tmp_path / "out").glob("*.cdxj")}
    site.routes["/3"] = reply(200, b"mended")

    ended = run(*arguments, "--retry-failed")

    assert ended.code == 0, ended.err
    assert assert_right(tmp_path / "out") == 5
    assert {index: index.stat().st_ino for index in before} == before


def test_cdxj_is_available_as_python_keyword(raw: Raw, tmp_path: Path) -> None:
    """`fetchmill.get` accepts `cdxj=True`."""
    site = raw({"/a": reply(200, b"a")})

    report = fetchmill.get([f"{site.url}/a"], tmp_path / "out", format="warc", cdxj=True, allow_private=True)

    assert report.fetched == 1
    assert assert_right(tmp_path / "out") == 1


@pytest.mark.parametrize("format", ["files", "tar", "parquet", "jsonl", "null"])
def test_cdxj_is_refused_for_formats_other_than_warc(run: Run, tmp_path: Path, format: str) -> None:
    """The error is one line, and nothing is created."""
    refused = run("get", "http://127.0.0.1:1/", "out", "--cdxj", "--format", format)

    assert (refused.code, refused.out) == (2, "")
    assert "--cdxj needs --format warc" in refused.err
    assert len(refused.err.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_cdxj_is_refused_for_bucket_destination(run: Run) -> None:
    """The error comes before any request."""
    refused = run("get", "http://127.0.0.1:1/", "s3://bucket/prefix/", *WARC)

    assert (refused.code, refused.out) == (2, "")
    assert "--cdxj needs a folder as its destination, not a bucket (s3://bucket/prefix/)" in refused.err


def test_cdxj_option_is_part_of_job_identity(run: Run, raw: Raw, tmp_path: Path) -> None:
    """A job without indexes refuses the option."""
    _, arguments = some_shards(raw, tmp_path)
    assert run(*(NO_INDEX if word == "--cdxj" else word for word in arguments)).code == 0

    refused = run(*arguments)

    assert refused.code == 2
    assert "belongs to another job: its index is not set, not cdxj" in refused.err


def test_cdxj_is_default_for_warc(run: Run, raw: Raw, tmp_path: Path) -> None:
    """A job has indexes with and without the option, and `--no-cdxj` makes it another job."""
    site, arguments = some_shards(raw, tmp_path)
    without = tuple(word for word in arguments if word != "--cdxj")

    assert run(*without).code == 0

    assert assert_right(tmp_path / "out") == 5
    assert run(*arguments).code == 0
    refused = run(*without, NO_INDEX)
    assert (refused.code, "its index is cdxj, but this command sets none" in refused.err) == (2, True)
    site.routes["/x"] = reply(200, b"x")
    report = fetchmill.get([f"{site.url}/x"], tmp_path / "py", format="warc", cdxj=False, allow_private=True)
    assert (report.fetched, list((tmp_path / "py").glob("*.cdxj"))) == (1, [])


@pytest.mark.parametrize("began_with", ["--cdxj", NO_INDEX])
def test_resumed_job_keeps_its_cdxj_setting(run: Run, raw: Raw, tmp_path: Path, began_with: str) -> None:
    """Without the option, the journal decides, also for `resume` and `retry`."""
    site, arguments = some_shards(raw, tmp_path)
    site.routes["/3"] = reply(500)
    without = tuple(word for word in arguments if word != "--cdxj")
    assert run(*without, began_with, "--first", "2").code == 0
    assert run(*without).code == 3
    site.routes["/3"] = reply(200, b"later")
    forget_command(tmp_path / "out")
    assert run(*without, "--retry-failed").code == 0

    assert run("resume", "out").code == 0

    assert len(shards(tmp_path / "out")) == 5
    if began_with == "--cdxj":
        assert assert_right(tmp_path / "out") == 5
    assert bool(list((tmp_path / "out").glob("*.cdxj"))) == (began_with == "--cdxj")
    assert fetchmill.verify(tmp_path / "out").ok


def test_sync_removes_default_indexes_of_adopted_job(run: Run, server: Serve, tmp_path: Path) -> None:
    """A sync can take over a job with the default, and leaves no index that would become outdated."""
    source = server(synthetic=10)
    dest = tmp_path / "out"
    assert run("get", source.url, "out", "--format", "warc", "--quiet").code == 0
    assert len(list(dest.glob("*.cdxj"))) == len(shards(dest)) > 0

    ended = run("sync", source.url, "out", "--format", "warc")

    assert ended.code == 0, ended.err
    assert not list(dest.glob("*.cdxj"))
    assert run("verify", "out").code == 0


def test_sync_refuses_shards_with_requested_indexes(run: Run, server: Serve, tmp_path: Path) -> None:
    """A sync refuses shards with indexes, because it would change shards but not their indexes."""
    source = server(synthetic=10)
    assert run("get", source.url, "out", *WARC, "--quiet").code == 0

    refused = run("sync", source.url, "out", "--format", "warc")

    assert (refused.code, "whose shards have indexes (--cdxj)" in refused.err) == (2, True), refused.err
    assert assert_right(tmp_path / "out") == 10
