"""`fetchmill verify` of jobs with a list: names, URLs, keys and columns are verified, and repaired by URL."""

import json
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import fetchmill
import fetchmill.testing
from conftest import Ended, format_options
from fetchmill.testing import Server
from foreign import STATE
from independent import read_ledger, synthetic_name
from raw_server import RawServer
from stored import FORMATS, find_wrong, shards

Run = Callable[..., Ended]
Serve = Callable[..., Server]
Start = Callable[..., subprocess.Popen[str]]

COUNT = 1500
SIZE = 100
BAD_LINES = ("no url", "ftp://host/x", "http://user:secret@127.0.0.1/x")
KEYED = ("--column", "url", "--key-column", "key")
# All servers are on this machine, so there are no limits per host.
OPTIONS = ("--allow-private", "--limit-per-host", "0", "--rate-per-host", "0")
MOVED = b"HTTP/1.1 302 Found\r\nLocation: /there\r\nContent-Length: 0\r\n\r\n"
GZIP_HEAD = b"\x1f\x8b\x08\0\0\0\0\0"
THERE = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nthere"


@dataclass
class ListJob:
    """A list of URLs, its objects, and the destination of its job."""

    run: Run
    rows: list[dict[str, str]]
    dest: Path
    format: str
    options: tuple[str, ...] = ()

    @property
    def command(self) -> tuple[str, ...]:
        """Returns the command, which is always the same."""
        listed = self.dest.with_name("list.csv")
        fields = ("url", "key", "rank")
        lines = [
            ",".join(row[field] for field in fields) for row in (dict(zip(fields, fields, strict=True)), *self.rows)
        ]
        listed.write_text("\n".join(lines))
        settings = (*OPTIONS, *format_options(self.format), *self.options)
        return ("get", str(listed), str(self.dest), "--quiet", *settings)

    def get(self, code: int = 0) -> None:
        """Runs the command for the first time or again."""
        ended = self.run(*self.command, "--commit-window", "0.1s")
        assert (ended.code, ended.err) == (code, "")

    def verify(self, *more: str, code: int) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """Returns the findings and the report of a verification."""
        ended = self.run("verify", self.dest, "--json", *more)
        assert ended.code == code, ended
        events = [json.loads(line) for line in ended.out.splitlines()]
        return [event for event in events if event["event"] == "finding"], events[-1]

    def stored(self) -> dict[str, tuple[bytes, dict[str, str | int | float | bool | None]]]:
        """Returns the bytes and columns of each object by its name."""
        with fetchmill.open(self.dest) as objects:
            return {name: (objects[name], objects.record(name).columns) for name in objects}

    def damage(self) -> int:
        """Changes bytes in the bodies of some objects. Returns the minimum number of lost objects."""
        if self.format == "files":
            files = sorted(path for path in self.dest.rglob("*") if path.is_file() and STATE not in path.parts)
            for path in files[:5]:
                path.write_bytes(b"x" * path.stat().st_size)
            return 5
        shard = shards(self.dest, self.format)[0]
        data = bytearray(shard.read_bytes())
        at = len(data) // 3
        if self.format == "warc":
            # Some bytes in the header of a gzip member have no meaning, so the damage comes after a header.
            at = data.index(GZIP_HEAD, at) + 2 * len(GZIP_HEAD)
        data[at] ^= 0x55
        shard.write_bytes(data)
        return 1


def rows_of(source: Server, count: int = COUNT) -> list[dict[str, str]]:
    """Returns rows with a URL, a key and a kept column."""
    return [
        {"url": f"{source.url}/get/{synthetic_name(index)}", "key": f"k{index}", "rank": str(index)}
        for index in range(count)
    ]


@pytest.fixture
def job(run: Run, server: Serve, dest: Path) -> Callable[..., ListJob]:
    """Returns a function that fetches a list of synthetic objects."""

    def make(format: str, *options: str) -> ListJob:
        made = ListJob(run, rows_of(server(synthetic=COUNT)), dest, format, options or ("--column", "url"))
        made.get()
        return made

    return make


def options_of(format: str) -> list[tuple[str, ...]]:
    """Returns the naming and column options that a list can have in this format."""
    found = [("--column", "url"), KEYED, ("--column", "url", "--names", "seq")]
    return found + ([(*KEYED, "--keep-columns", "rank")] if format in ("parquet", "jsonl") else [])


CASES = [(format, options) for format in (*FORMATS, "null") for options in options_of(format)]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("format", "options"), CASES)
def test_list_with_redirects_and_failures_passes_verify(
    run: Run,
    server: Serve,
    raw: Callable[..., RawServer],
    dest: Path,
    format: str,
    options: tuple[str, ...],
) -> None:
    """This holds with any names. Missing objects are in the ledger, and every object is read."""
    site = raw({"/moved": MOVED, "/there": THERE})
    lines = [f"{site.url}/moved", f"{site.url}/there", f"{site.url}/gone", *BAD_LINES]
    other = [{"url": url, "key": f"o{index}", "rank": "0"} for index, url in enumerate(lines)]
    made = ListJob(run, rows_of(server(synthetic=COUNT)) + other, dest, format, options)
    made.get(code=3)

    findings, report = made.verify(code=0)

    assert findings == []
    counts = [report[name] for name in ("listed", "fetched", "absent", "failed")]
    assert counts == [COUNT + 6, COUNT + 2, 1, 3]
    assert report["checked"] == (0 if format == "null" else COUNT + 2)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("format", "options"), [case for case in CASES if case[0] != "null"])
def test_verify_accepts_pending_targets_of_killed_list_job(
    run: Run, start: Start, server: Serve, dest: Path, format: str, options: tuple[str, ...]
) -> None:
    """Pending targets are not an error. The same command finishes the job."""
    # Slow replies are confirmed one by one, fast ones once per second.
    rows = rows_of(server(synthetic=COUNT, delay=(0.2, 0.4)))
    made = ListJob(run, [*rows, {"url": "no url", "key": "", "rank": ""}], dest, format, options)
    process = start(*made.command, "--commit-window", "0.05s")
    deadline = time.monotonic() + 60
    while settled(dest) < COUNT / 5:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()

    findings, report = made.verify(code=0)
    assert findings == []
    assert report["pending"] > 0

    made.get(code=3)
    _, report = made.verify(code=0)
    assert (report["fetched"], report["failed"], report["pending"]) == (COUNT, 1, 0)


def settled(dest: Path) -> int:
    """Returns the number of targets with an outcome, or 0 while the journal is being created."""
    try:
        return read_ledger(dest).settled
    except Exception:  # noqa: BLE001 - there is no table, or no file
        return 0


@pytest.mark.one_in(3)
@pytest.mark.sampled(1)
@pytest.mark.parametrize("format", FORMATS)
def test_repair_restores_objects_named_by_their_urls(job: Callable[..., ListJob], format: str) -> None:
    """The name contains the URL; for `files`, the list must have only one scheme."""
    made = job(format)
    before = made.stored()
    lost = made.damage()

    _, report = made.verify("--repair", code=0)

    assert report["mended"]
    assert report["planned"] >= lost
    made.get()
    assert made.stored() == before
    assert len(before) == COUNT
    made.verify(code=0)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("format", "options"),
    [
        ("files", KEYED),
        ("files", ("--column", "url", "--names", "seq")),
        ("tar", KEYED),
        ("warc", KEYED),
        ("parquet", (*KEYED, "--keep-columns", "rank")),
        ("parquet", ("--column", "url", "--names", "seq")),
        ("jsonl", KEYED),
        ("jsonl", ("--column", "url", "--keep-columns", "rank")),
    ],
)
def test_repair_leaves_objects_with_unknown_url(
    job: Callable[..., ListJob], tree: Callable[..., Any], format: str, options: tuple[str, ...]
) -> None:
    """A line says what to do. Nothing is removed or planned, and all other objects can still be read."""
    made = job(format, *options)
    made.damage()
    before = tree(made.dest)

    ended = made.run("verify", made.dest, "--repair")

    assert ended.code == 10
    assert "fetch the list again into another destination" in ended.err
    assert tree(made.dest) == before
    findings, report = made.verify("--repair", code=10)
    assert (report["planned"], report["shards_replaced"], report["pending"]) == (0, 0, 0)
    assert report["without_url"] == sum(finding["objects"] for finding in findings) > 0
    made.get()


def test_repair_does_not_guess_scheme_of_mixed_list(run: Run, server: Serve, dest: Path) -> None:
    """File names do not contain the scheme, so the repair cannot reconstruct the URLs."""
    rows = [*rows_of(server(synthetic=20), 20), {"url": "https://127.0.0.1:1/x", "key": "", "rank": ""}]
    made = ListJob(run, rows, dest, "files", ("--column", "url", "--attempts", "1"))
    made.get(code=3)
    made.damage()

    _, report = made.verify("--repair", code=10)

    assert (report["without_url"], report["planned"]) == (5, 0)


def test_repair_does_not_use_custom_names_as_urls(server: Serve, dest: Path) -> None:
    """If a name resembled another object's URL, that object would be stored under the wrong name."""
    source = server(synthetic=10)
    urls = [f"{source.url}/get/{synthetic_name(index)}" for index in range(10)]
    fetchmill.get(zip(urls, [*urls[1:], urls[0]], strict=True), dest, format="tar")
    for shard in shards(dest, "tar"):
        shard.unlink()

    report = fetchmill.verify(dest, repair=True)

    assert (report.without_url, report.planned) == (10, 0)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("format", "options"),
    [
        ("files", ("--column", "url")),
        ("tar", ("--column", "url")),
        ("parquet", KEYED),
        ("warc", KEYED),
        ("jsonl", (*KEYED, "--keep-columns", "rank")),
    ],
)
def test_each_object_is_compared_with_its_own_url(
    run: Run, server: Serve, raw: Callable[..., RawServer], dest: Path, format: str, options: tuple[str, ...]
) -> None:
    """The objects are on several origins, some of them after redirects. Later changes are reported."""
    site = raw({"/moved": MOVED, "/there": THERE, "/x?a=b&c": THERE})
    folder = dest.with_name("served")
    folder.mkdir()
    for index in range(30):
        (folder / synthetic_name(index)).write_text(str(index))
    other = [{"url": f"{site.url}{path}", "key": path, "rank": ""} for path in ("/moved", "/there", "/x?a=b&c")]
    made = ListJob(run, rows_of(server(folder), 30) + other, dest, format, options)
    made.get()

    _, report = made.verify("--sample", "100", code=0)
    assert report["compared"] == 33

    (folder / synthetic_name(3)).write_text("x")
    (folder / synthetic_name(4)).unlink()
    findings, report = made.verify("--sample", "100", code=3)
    assert sorted(finding["what"] for finding in findings) == ["absent-now", "differs"]
    assert (report["compared"], report["differs"], report["absent_now"]) == (33, 1, 1)


@pytest.mark.parametrize(
    ("format", "options", "more", "word"),
    [
        ("tar", KEYED, ("--sample", "5"), "this job did not store them"),
        ("files", ("--column", "url", "--names", "seq"), ("--sample", "5"), "this job did not store them"),
        ("parquet", ("--column", "url"), ("--against", "http://127.0.0.1:1"), "job with one origin"),
    ],
)
def test_comparison_that_cannot_match_job_is_refused(
    job: Callable[..., ListJob], format: str, options: tuple[str, ...], more: tuple[str, ...], word: str
) -> None:
    """The error is one line with the reason."""
    made = job(format, *options)

    ended = made.run("verify", made.dest, "--quiet", *more)

    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert word in ended.err


def test_comparison_with_https_urls_is_refused(run: Run, server: Serve, dest: Path) -> None:
    """The error comes before any object is read, so http URLs are not compared either."""
    rows = [*rows_of(server(synthetic=20), 20), {"url": "https://127.0.0.1:1/x", "key": "", "rank": ""}]
    made = ListJob(run, rows, dest, "parquet", ("--column", "url", "--attempts", "1"))
    made.get(code=3)

    ended = run("verify", dest, "--sample", "5", "--quiet")

    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert "supports only http" in ended.err


def test_export_to_files_uses_names_of_list_job(run: Run, raw: Callable[..., RawServer], dest: Path) -> None:
    """A name consists of host, path and query. It determines the URL, even if the last segment is empty."""
    site = raw({"/": THERE, "/moved": MOVED, "/there": THERE, "/x?a=b": THERE})
    rows = [{"url": site.url + path, "key": "", "rank": ""} for path in ("/", "/moved", "/x?a=b")]
    made = ListJob(run, rows, dest, "tar", ("--column", "url"))
    made.get()
    files, again = dest.with_name("files"), dest.with_name("again")

    assert run("export", dest, files, "--format", "files").code == 0
    assert run("export", files, again, "--format", "files").code == 0

    host = site.url.removeprefix("http://")
    expected = {f"{host}{path}": b"there" for path in ("/%index", "/moved", "/x?a=b")}
    for exported in (files, again):
        assert find_wrong(exported, "files", expected) == []
        assert fetchmill.verify(exported).ok


@pytest.mark.thorough
def test_objects_fetched_from_list_can_be_served(run: Run, job: Callable[..., ListJob], dest: Path) -> None:
    """A job that fetches from the served destination gets the same objects with their URLs as names."""
    made = job("parquet")
    copy = dest.with_name("copy")

    with fetchmill.testing.serve(made.dest) as source:
        ended = run("get", source.url, copy, "--format", "tar", "--quiet")

    assert (ended.code, ended.err) == (0, "")
    with fetchmill.open(copy) as objects:
        assert {name: objects[name] for name in objects} == {name: body for name, (body, _) in made.stored().items()}


def test_listed_failures_and_names_show_urls(run: Run, raw: Callable[..., RawServer], dest: Path) -> None:
    """The URL is shown if it differs from the name, because a key alone does not locate an object."""
    site = raw({"/there": THERE})
    rows = [{"url": site.url + path, "key": path[1:], "rank": "7"} for path in ("/there", "/gone")]
    made = ListJob(run, rows, dest, "jsonl", (*KEYED, "--keep-columns", "rank"))
    made.get(code=3)

    failures, names = run("status", dest, "--failures"), run("ls", dest, "--long", "--json")

    assert failures.out == f"gone\tabsent\tabsent\t404\t1\t404 Not Found\t{site.url}/gone\n"
    shown = json.loads(names.out)
    assert (shown["name"], shown["url"], shown["columns"]) == ("there", f"{site.url}/there", {"rank": "7"})


def test_comparison_of_null_format_is_refused(job: Callable[..., ListJob]) -> None:
    """The error says that `null` stores no objects."""
    ended = job("null").run("verify", "out", "--sample", "5", "--quiet")

    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert "null stores no objects" in ended.err


@pytest.mark.parametrize("location", ["http://u:p@127.0.0.1/", "http://127.0.0.1:x/", "http://[::1", "ftp://x/"])
def test_invalid_redirect_target_is_reported_as_difference(
    run: Run, raw: Callable[..., RawServer], dest: Path, location: str
) -> None:
    """An invalid `Location` of the server is not an error of the verification."""
    site = raw({"/there": THERE})
    made = ListJob(run, [{"url": f"{site.url}/there", "key": "", "rank": ""}], dest, "tar", ("--column", "url"))
    made.get()
    head = f"HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n"
    site.routes["/there"] = head.encode("latin-1")

    findings, report = made.verify("--sample", "1", code=3)

    assert [finding["detail"] for finding in findings] == ["the origin returned status 302"]
    assert report["differs"] == 1


def test_endless_body_is_reported_as_difference(run: Run, raw: Callable[..., RawServer], dest: Path) -> None:
    """Only as much of the body is read as is needed for the comparison."""
    site = raw({"/there": THERE})
    made = ListJob(run, [{"url": f"{site.url}/there", "key": "", "rank": ""}], dest, "files", ("--column", "url"))
    made.get()
    site.routes["/there"] = b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\nthere and more"

    findings, _ = made.verify("--sample", "1", code=3)

    assert "more than the 5 stored bytes" in findings[0]["detail"]
