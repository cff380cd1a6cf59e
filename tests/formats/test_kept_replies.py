"""`--keep-failed`: an archive also has redirects, and replies that are not objects.

`FETCHMILL_SEED` reproduces the random moments of a failed run.
"""

import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
from warcio.archiveiterator import ArchiveIterator

import fetchmill
from archive_index import expected_index, index_of
from conftest import COMMAND, Ended, wait_for_rows
from fetchmill.testing import Fault, Server
from raw_server import Behaviour, Exchange, RawServer, bare_reply, reply
from system_calls import kill_before

Run = Callable[..., Ended]
Serve = Callable[..., Server]
Start = Callable[..., "subprocess.Popen[str]"]
Raw = Callable[[Mapping[str, Behaviour]], RawServer]

SEED = int(os.environ.get("FETCHMILL_SEED") or time.time_ns() % 1_000_000)
HASTE = ("--allow-private", "--limit-per-host", "0", "--rate-per-host", "0", "--attempts", "1", "--quiet")
WARC = ("--format", "warc", "--keep-failed")
KEPT_BYTES = 64 * 1024
REVISIT = "http://netpreserve.org/warc/1.1/revisit/server-not-modified"


class Stored(NamedTuple):
    """A record of a reply."""

    file: str
    kind: str
    status: str
    body: bytes
    truncated: str | None


def records(dest: Path, start: str = "") -> dict[str, list[Stored]]:
    """Returns the replies of an archive by URI; every digest is right, and each reply has its request."""
    found: dict[str, list[Stored]] = {}
    asked, answered = Counter[str](), Counter[str]()
    for file in sorted(dest.glob(f"{start}*.warc.gz")):
        with file.open("rb") as stream:
            for record in ArchiveIterator(stream, check_digests="raise"):
                fields = record.rec_headers
                uri = fields["WARC-Target-URI"]
                body = record.content_stream().read()
                if record.rec_type == "request":
                    asked[uri] += 1
                elif record.rec_type in ("response", "revisit"):
                    answered[uri] += 1
                    status = record.http_headers.get_statuscode()
                    stored = Stored(file.name, record.rec_type, status, body, fields["WARC-Truncated"])
                    found.setdefault(uri, []).append(stored)
                    if record.rec_type == "revisit":
                        assert (fields["WARC-Profile"], fields["WARC-Refers-To-Target-URI"]) == (REVISIT, uri)
    assert asked == answered
    return found


def assert_indexed(dest: Path) -> int:
    """Checks that each file has the index that `cdxj-indexer --sort` creates. Returns the number of lines."""
    files = sorted(dest.glob("*.warc.gz"))
    assert sorted(dest.glob("*.cdxj")) == [index_of(file) for file in files]
    lines = 0
    for file in files:
        index = index_of(file).read_text("ascii")
        assert index == expected_index(file)
        lines += len(index.splitlines())
    return lines


def write_list(folder: Path, site: RawServer, *paths: str) -> Path:
    """Writes a list of these URLs."""
    listed = folder / "list.txt"
    listed.write_text("".join(f"{site.url}{path}\n" for path in paths))
    return listed


def test_warc_keep_failed_stores_every_reply(run: Run, raw: Raw, tmp_path: Path) -> None:
    """Redirects follow the object that they led to. Other replies are in separate files. Each file has an index."""
    chunked = b"HTTP/1.1 404 No\r\nTransfer-Encoding: chunked\r\nContent-Type: text/plain\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
    huge = random.Random(SEED).randbytes(3_000_000)
    site = raw(
        {
            "/plain": reply(b"plain", "Content-Type: text/plain"),
            "/one": reply(b"moved", "Location: /two", "Content-Type: text/html", status="301 Moved"),
            "/two": reply(b"", "Location: /plain?x", status="302 Found"),
            "/plain?x": reply(b"behind", "Content-Type: text/plain"),
            "/absent": reply(b"no such page", "Content-Type: text/html", status="404 No"),
            "/gone": reply(status="410 Gone"),
            "/chunked": chunked,
            "/lost": reply(b"", "Location: /absent?from", status="307 Go"),
            "/absent?from": reply(b"not here, either", status="404 No"),
            "/error": reply(b"out of order", status="500 No"),
            "/forbidden": reply(b"x" * (KEPT_BYTES + 1), status="403 No"),
            "/huge": reply(huge, status="404 No"),
            "/loop": reply(b"", "Location: /loop", status="302 Found"),
            "/unchanged": reply(status="304 Not Modified").replace(b"Content-Length: 0\r\n", b'ETag: "a"\r\n'),
            "/too-large": reply(b"y" * 5_000_000),
        }
    )
    paths = ("/plain", "/one", "/absent", "/gone", "/chunked", "/lost", "/error", "/forbidden", "/huge", "/loop")
    listed = write_list(tmp_path, site, *paths, "/unchanged", "/too-large")

    ended = run("get", listed, "out", *WARC, "--cdxj", "--max-size", "4MB", *HASTE)

    assert ended.code == 3, ended.err
    dest = tmp_path / "out"
    objects = records(dest, "shard-")
    others = records(dest, "unfetched-")

    def of(found: dict[str, list[Stored]], path: str) -> list[tuple[str, bytes, str | None]]:
        return [(each.status, each.body, each.truncated) for each in found.pop(site.url + path)]

    assert of(objects, "/plain") == [("200", b"plain", None)]
    assert of(objects, "/plain?x") == [("200", b"behind", None)]
    assert of(objects, "/one") == [("301", b"moved", None)]
    assert of(objects, "/two") == [("302", b"", None)]
    assert of(others, "/absent") == [("404", b"no such page", None)]
    assert of(others, "/gone") == [("410", b"", None)]
    assert of(others, "/chunked") == [("404", b"abc", None)]
    assert of(others, "/lost") == [("307", b"", None)]
    assert of(others, "/absent?from") == [("404", b"not here, either", None)]
    assert of(others, "/error") == [("500", b"out of order", None)]
    assert of(others, "/forbidden") == [("403", b"x" * KEPT_BYTES, "length")]
    assert of(others, "/huge") == [("404", huge[:KEPT_BYTES], "length")]
    assert of(others, "/loop") == [("302", b"", None)]
    assert [each.kind for each in others[f"{site.url}/unchanged"]] == ["revisit"]
    assert of(others, "/unchanged") == [("304", b"", None)]
    # A body that is too large is not kept in part, because its status is that of an object.
    assert (objects, others) == ({}, {})
    assert assert_indexed(dest) == 15 - 1
    assert fetchmill.verify(dest).ok
    # Readers of objects see only objects.
    assert sorted(run("ls", dest).out.split()) == sorted([f"{site.url}/one", f"{site.url}/plain"])
    assert run("cat", dest, f"{site.url}/one").out == "behind"
    assert run("export", dest, "copy", "--format", "parquet").code == 0
    assert len(run("ls", "copy").out.split()) == 2


def test_warc_has_only_objects_by_default(run: Run, raw: Raw, tmp_path: Path) -> None:
    """Redirects and error replies are not stored."""
    site = raw(
        {"/a": reply(b"a"), "/from": reply(b"", "Location: /a", status="301 Moved"), "/b": reply(status="404 No")}
    )
    listed = write_list(tmp_path, site, "/from", "/b")

    assert run("get", listed, "out", "--format", "warc", *HASTE).code == 3

    assert [*records(tmp_path / "out")] == [f"{site.url}/a"]
    assert not [*(tmp_path / "out").glob("unfetched-*")]


def test_warc_keep_failed_stores_replies_of_listed_objects(run: Run, server: Serve, tmp_path: Path) -> None:
    """The URLs of the replies are derived from the names of the objects."""
    source = server(synthetic=300, faults=[Fault("status", status=404, rate=0.3)])

    assert run("get", source.url, "out", *WARC, "--quiet").code == 3

    counts = fetchmill.status(tmp_path / "out")
    objects = records(tmp_path / "out", "shard-")
    others = records(tmp_path / "out", "unfetched-")
    assert (len(objects), len(others)) == (counts.fetched, counts.absent)
    assert counts.absent > 0
    assert {each.status for stored in others.values() for each in stored} == {"404"}
    assert {uri.startswith(f"{source.url}/get/") for uri in (*objects, *others)} == {True}
    assert objects.keys().isdisjoint(others)


def test_retry_run_rewrites_kept_failed_replies(run: Run, raw: Raw, tmp_path: Path) -> None:
    """Replies of targets that are now fetched are no longer included."""
    site = raw({"/a": reply(status="500 No"), "/b": reply(b"no", status="404 No")})
    arguments = ("get", write_list(tmp_path, site, "/a", "/b"), "out", *WARC, "--cdxj", *HASTE)
    assert run(*arguments).code == 3
    assert len(records(tmp_path / "out", "unfetched-")) == 2
    site.routes["/a"] = reply(b"mended")

    assert run(*arguments, "--retry-failed").code == 3

    assert [*records(tmp_path / "out", "shard-")] == [f"{site.url}/a"]
    assert [*records(tmp_path / "out", "unfetched-")] == [f"{site.url}/b"]
    site.routes["/b"] = reply(b"mended, too")
    assert run(*arguments, "--retry-failed=404").code == 0
    assert len(records(tmp_path / "out", "shard-")) == 2
    assert not [*(tmp_path / "out").glob("unfetched-*")]
    assert assert_indexed(tmp_path / "out") == 2
    assert fetchmill.verify(tmp_path / "out").ok


def test_bad_reply_files_are_found_and_restored(run: Run, raw: Raw, tmp_path: Path) -> None:
    """The repair sends no request, and a file that the job did not write is reported."""
    site = raw({"/a": reply(b"a"), "/b": reply(b"no", status="404 No")})
    arguments = ("get", write_list(tmp_path, site, "/a", "/b"), "out", *WARC, "--cdxj", *HASTE)
    assert run(*arguments).code == 3
    asked = len(site.requests)
    for name in ("unfetched-000000.warc.gz", "unfetched-000000.cdxj"):
        file = tmp_path / "out" / name
        file.write_bytes(file.read_bytes()[:-1] + b"?")
        found = run("verify", "out")
        assert (found.code, name in found.out) == (10, True)
        assert run("verify", "out", "--repair").code == 0
        assert run(*arguments).code == 3
        assert fetchmill.verify(tmp_path / "out").ok
    assert [*records(tmp_path / "out", "unfetched-")] == [f"{site.url}/b"]
    assert assert_indexed(tmp_path / "out") == 2
    assert len(site.requests) == asked
    (tmp_path / "out/unfetched-000001.warc.gz").touch()
    assert "unknown\tunfetched-000001.warc.gz" in run("verify", "out").out


def test_repeatedly_killed_job_keeps_each_reply_once(run: Run, start: Start, raw: Raw, tmp_path: Path) -> None:
    """`kill -9` hits at random moments. Redirects stay with their objects."""
    count = 400
    rng = random.Random(f"{SEED}-kills")
    routes: dict[str, Behaviour] = {}
    for number in range(count):
        routes[f"/{number}"] = (
            reply(b"", f"Location: /to/{number}", status="302 Found"),
            reply(b"no %d" % number, status="404 No"),
            reply(b"body %d" % number),
        )[number % 3]
        routes[f"/to/{number}"] = reply(b"behind %d" % number, status="200 OK" if number % 2 else "404 No")
    site = raw(routes)
    listed = write_list(tmp_path, site, *(f"/{number}" for number in range(count)))
    arguments = ("get", listed, "out", *WARC, *HASTE, "--commit-window", "0.05", "--shard-size", "20000")
    for done in sorted(rng.sample(range(20, 300), 3)):
        process = start(*arguments, "--rate", "200")
        wait_for_rows(tmp_path / "out", done)
        process.kill()
        process.wait(30)
        assert not [*(tmp_path / "out").glob("unfetched-*")]

    ended = run(*arguments)

    assert ended.code == 3, ended.err
    found = records(tmp_path / "out")
    assert {len(stored) for stored in found.values()} == {1}, f"FETCHMILL_SEED={SEED}"
    redirected = [f"/to/{number}" for number in range(0, count, 3)]
    assert found.keys() == {site.url + path for path in (*(f"/{number}" for number in range(count)), *redirected)}
    for number in range(0, count, 3):
        [hop], [last] = found[f"{site.url}/{number}"], found[f"{site.url}/to/{number}"]
        assert (hop.file, last.body) == (last.file, b"behind %d" % number)
        assert last.file.startswith("shard" if number % 2 else "unfetched")
    assert fetchmill.verify(tmp_path / "out").ok


def test_warc_keep_failed_error_names_missing_requirement(run: Run, tmp_path: Path) -> None:
    """The option needs rows or an archive, in a local folder."""
    (tmp_path / "list.txt").write_text("http://127.0.0.1:9/a\n")
    for dest, format, said in (
        ("out", "tar", "--keep-failed needs --format parquet, jsonl or warc"),
        ("s3://bucket/there", "warc", "--keep-failed needs a folder as its destination"),
    ):
        ended = run("get", "list.txt", dest, "--keep-failed", "--format", format)

        assert ended.code == 2
        assert said in ended.err


def test_warc_keep_failed_is_part_of_job_identity(run: Run, raw: Raw, tmp_path: Path) -> None:
    """A job with the option refuses a command without it. Python has the option as a keyword."""
    site = raw({"/a": reply(b"no", status="404 No")})
    listed = write_list(tmp_path, site, "/a")
    fetchmill.get(listed, tmp_path / "out", format="warc", keep_failed=True, allow_private=True)

    refused = run("get", listed, "out", "--format", "warc", *HASTE)

    assert refused.code == 2
    assert "its replies is all" in refused.err
    assert [*records(tmp_path / "out")] == [f"{site.url}/a"]


class Page:
    """A page that answers conditional requests according to its version."""

    def __init__(self, body: bytes) -> None:
        self.body = body

    def __call__(self, exchange: Exchange) -> bytes:
        """Returns the page, whose ETag is its body."""
        if b'If-None-Match: "%s"' % self.body in exchange.head:
            return bare_reply(f'ETag: "{self.body.decode()}"', status="304 Not Modified")
        return reply(self.body, f'ETag: "{self.body.decode()}"')


def replies_of(dest: Path) -> list[tuple[str, str, str]]:
    """Returns path, kind and status of the stored replies that are not objects."""
    found = [(uri, each.kind, each.status) for uri, stored in records(dest, "unfetched-").items() for each in stored]
    return sorted((f"/{uri.rpartition('/')[2]}", kind, status) for uri, kind, status in found)


def test_sync_keep_failed_writes_revisits_for_unchanged(run: Run, raw: Raw, tmp_path: Path) -> None:
    """The kept records are those of the last pass. Stored objects stay unchanged."""
    pages = {"/a": Page(b"one"), "/b": Page(b"two"), "/c": Page(b"three")}
    site = raw({**pages, "/gone": reply(b"no", status="404 No")})
    listed = write_list(tmp_path, site, *pages, "/gone")
    words = ("sync", listed, "out", "--format", "warc", "--allow-private", "--quiet")
    dest = tmp_path / "out"

    assert run(*words, "--keep-failed").code == 3
    assert replies_of(dest) == [("/gone", "response", "404")]
    pages["/b"].body = b"changed"
    assert run(*words, "--keep-failed").code == 3

    assert replies_of(dest) == [("/a", "revisit", "304"), ("/c", "revisit", "304"), ("/gone", "response", "404")]
    objects = {uri.rpartition("/")[2]: stored for uri, stored in records(dest, "shard-").items()}
    assert {name: [each.body for each in stored] for name, stored in objects.items()} == {
        "a": [b"one"],
        "b": [b"changed"],
        "c": [b"three"],
    }
    assert fetchmill.verify(dest).ok
    assert not (dest / "_failures.ndjson").exists()
    assert run(*words).code == 3
    assert [path.name for path in dest.glob("unfetched-*")] == []
    assert fetchmill.verify(dest).ok


def test_next_sync_pass_replaces_damaged_reply_file(run: Run, raw: Raw, tmp_path: Path) -> None:
    """`verify` reports the damage. Repair is impossible, because the same replies cannot be requested again."""
    site = raw({"/a": Page(b"one")})
    words = ("sync", write_list(tmp_path, site, "/a"), "out", "--format", "warc", "--keep-failed", "--allow-private")
    for _ in range(2):
        assert run(*words).code == 0
    (tmp_path / "out/unfetched-000000.warc.gz").write_bytes(b"damaged")

    found = run("verify", "out")
    assert (found.code, "unfetched-000000.warc.gz" in found.out) == (10, True)

    assert run(*words).code == 0

    assert fetchmill.verify(tmp_path / "out").ok
    assert replies_of(tmp_path / "out") == [("/a", "revisit", "304")]


def test_sync_adopts_archive_with_kept_replies(run: Run, raw: Raw, tmp_path: Path) -> None:
    """The job's replies that are not objects are removed, because the pass has its own."""
    site = raw(
        {"/a": Page(b"one"), "/b": reply(b"no", status="404 No"), "/r": reply(b"", "Location: /a", status="301 Go")}
    )
    listed = write_list(tmp_path, site, "/a", "/b", "/r")
    assert run("get", listed, "out", *WARC, *HASTE).code == 3
    assert len(records(tmp_path / "out")) == 3

    assert run("sync", listed, "out", "--format", "warc", "--keep-failed", "--allow-private", "--quiet").code == 3

    assert ("/a", "revisit", "304") in replies_of(tmp_path / "out")
    assert fetchmill.verify(tmp_path / "out").ok
    assert sorted(fetchmill.open(tmp_path / "out")) == [f"{site.url}/a", f"{site.url}/r"]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("call", ["renameat2", "unlink"])
def test_sync_killed_while_ending_keeps_each_reply_once(
    run: Run, environment: dict[str, str], raw: Raw, tmp_path: Path, call: str
) -> None:
    """The sync is killed before one of its renames or removals."""
    rng = random.Random(f"{SEED}-{call}")
    pages = {f"/{number}": Page(b"body %d" % number) for number in range(5)}
    site = raw({**pages, "/gone": reply(b"no", status="404 No")})
    listed = write_list(tmp_path, site, *pages, "/gone")
    words = ("sync", str(listed), "out", "--format", "warc", "--keep-failed", "--allow-private", "--quiet")
    assert run(*words).code == 3
    pages["/1"].body = b"new"
    ended = [kill_before(call, at, environment, tmp_path, *COMMAND, *words) for at in rng.sample(range(1, 6), 3)]
    assert -signal.SIGKILL in ended

    assert run(*words).code == 3

    unchanged = [number for number in range(5) if number != 1]
    found = replies_of(tmp_path / "out")
    # A kill may have come after the first pass that saw the change: the next pass then sees no change.
    assert [(f"/{number}", "revisit", "304") for number in unchanged] == [
        each for each in found if each[0] not in ("/1", "/gone")
    ]
    assert ("/gone", "response", "404") in found
    assert len(records(tmp_path / "out", "shard-")) == 5
    assert fetchmill.verify(tmp_path / "out").ok
    assert os.listdir(tmp_path / "out/.fetchmill/open") == []
