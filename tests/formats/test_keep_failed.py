"""`--keep-failed` writes one output row per input row, whatever happens to a target and however a run ends.

`FETCHMILL_SEED` reproduces the random moments of a failed run. Rows are read by pyarrow, DuckDB and the standard
library.
"""

import json
import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fetchmill
from conftest import COMMAND, Ended, wait_for_rows
from fetchmill.testing import Fault, Server
from independent import is_finished
from raw_server import Behaviour, RawServer
from system_calls import kill_before

Run = Callable[..., Ended]
Serve = Callable[..., Server]
Start = Callable[..., "subprocess.Popen[str]"]
Raw = Callable[[Mapping[str, Behaviour]], RawServer]
Row = dict[str, Any]

SEED = int(os.environ.get("FETCHMILL_SEED") or time.time_ns() % 1_000_000)
FORMATS = ("parquet", "jsonl")
# Files next to the shards of a finished job with failures.
UNFETCHED = "unfetched-*"
# Hosts of this machine are allowed and not rate-limited, and a target has two attempts.
HASTE = ("--allow-private", "--limit-per-host", "0", "--rate-per-host", "0", "--attempts", "2", "--quiet")
LARGE = b"large" * 700_000
REFUSED = "http://127.0.0.1:1/refused"


def reply(status: int, body: bytes = b"") -> bytes:
    """Returns a reply with a length."""
    return b"HTTP/1.1 %d It\r\nContent-Length: %d\r\n\r\n%s" % (status, len(body), body)


# By path: the site's answer, and the expected row: outcome, kind, status, attempts.
SITES: dict[str, tuple[bytes, tuple[str, str | None, int | None, int]]] = {
    "/fetched": (reply(200, b"body"), ("fetched", None, 200, 1)),
    "/empty": (reply(200), ("fetched", None, 200, 1)),
    "/binary": (reply(200, b"\xff\x00"), ("fetched", None, 200, 1)),
    "/absent": (reply(404, b"no"), ("absent", None, 404, 1)),
    "/gone": (reply(410), ("absent", None, 410, 1)),
    "/error": (reply(500), ("failed", "server-error", 500, 2)),
    "/forbidden": (reply(403), ("failed", "status", 403, 1)),
    "/too-large": (reply(200, b"x" * 5000), ("failed", "body-too-large", None, 1)),
    "/not-modified": (reply(304), ("skipped", None, 304, 1)),
}
OPTIONS = ("--max-size", "4000", "--column", "url", "--keep-columns", "rank,country")


def serve_sites(raw: Raw) -> RawServer:
    """Serves all sites."""
    return raw({path: answer for path, (answer, _) in SITES.items()})


def write_list(folder: Path, urls: list[str], name: str = "list.csv") -> str:
    """Writes a list with its own columns; a URL with `/not-modified` has an ETag."""
    lines = ["url,rank,country,etag"]
    for rank, url in enumerate(urls):
        lines.append(f"{url},{rank},{'' if rank % 2 else 'de'},{'e' if url.endswith('/not-modified') else ''}")
    (folder / name).write_text("".join(f"{line}\n" for line in lines))
    return name


def read_rows(dest: Path, format: str) -> list[Row]:
    """Returns all rows that a reader of `dest/*.FORMAT` sees, with bodies as bytes and the kept columns."""
    files = sorted(dest.glob(f"*.{format}"))
    if format == "parquet":
        rows: list[Row] = [row for file in files for row in pq.read_table(file).to_pylist()]
        return rows
    rows = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    for row in rows:
        body = row.get("body")
        row["body"] = body if body is None else body.encode()
        if "body_base64" in row:
            # Only its existence counts here.
            row["body"] = row["body_base64"].encode()
        row.update(row.pop("columns", {}))
    return rows


def count_names(rows: list[Row]) -> Counter[str]:
    """Counts the rows of each name."""
    return Counter(row["name"] for row in rows)


def outcomes(rows: list[Row]) -> Counter[str]:
    """Counts the rows of each outcome."""
    return Counter(row["outcome"] for row in rows)


@pytest.mark.parametrize("engine", ["native", "threads"])
@pytest.mark.parametrize("format", FORMATS)
def test_keep_failed_writes_one_row_per_list_line(run: Run, raw: Raw, tmp_path: Path, format: str, engine: str) -> None:
    """The row has the outcome and the columns of the line, even if the line is not a URL."""
    site = serve_sites(raw)
    known = {path: said for path, (_, said) in SITES.items()}
    header: tuple[str, ...] = ("--header", "If-None-Match: {etag}")
    if engine != "native":
        # Python engines send no conditional requests.
        del known["/not-modified"]
        header = ()
    urls = [f"{site.url}{path}" for path in known]
    listed = write_list(tmp_path, [*urls, REFUSED, "no url"])
    options = (*HASTE, *OPTIONS, *header, "--engine", engine)

    ended = run("get", listed, "out", "--format", format, "--keep-failed", *options)

    assert ended.code == 3, ended.err
    rows = {row["name"]: row for row in read_rows(tmp_path / "out", format)}
    expected = {f"{site.url}{path}": said for path, said in known.items()}
    expected[REFUSED] = ("failed", "refused", None, 2)
    expected[f"line {len(urls) + 3}"] = ("failed", "url", None, 0)
    assert {
        name: (row["outcome"], row["kind"], row.get("status"), row["attempts"]) for name, row in rows.items()
    } == expected
    assert sorted(row["sequence"] for row in rows.values()) == list(range(len(expected)))
    assert count_names(read_rows(tmp_path / "out", format)) == dict.fromkeys(expected, 1)
    for name, row in rows.items():
        assert (row["body"] is None) == (row["crc32c"] is None) == (row["outcome"] != "fetched"), name
        rank = row["sequence"]
        assert (row["rank"], row["country"]) == (str(rank), "" if rank % 2 else "de"), name
    assert "no url" in rows[f"line {len(urls) + 3}"]["detail"]
    assert rows[f"{site.url}/empty"]["body"] == b""


@pytest.mark.parametrize("format", FORMATS)
def test_duckdb_counts_all_rows_with_keep_failed(run: Run, raw: Raw, tmp_path: Path, format: str) -> None:
    """The documented query covers both kinds of files. A large body has its own row group."""
    routes = {path: answer for path, (answer, _) in SITES.items()} | {"/large": reply(200, LARGE)}
    site = raw(routes)
    listed = write_list(tmp_path, [f"{site.url}{path}" for path in routes] * 5)

    ended = run(
        "get", listed, "out", "--format", format, "--keep-failed", "--allow-private", "--quiet", "--attempts", "1"
    )

    assert ended.code == 3, ended.err
    read: Any = {"parquet": duckdb.read_parquet, "jsonl": duckdb.read_json}[format]
    rows = read(f"{tmp_path}/out/*.{format}")
    found = rows.aggregate("outcome, kind, count(*), count(name), count(crc32c)").fetchall()
    assert sorted(found, key=str) == sorted(
        [
            ("fetched", None, 25, 25, 25),
            ("absent", None, 10, 10, 0),
            ("failed", "server-error", 5, 5, 0),
            ("failed", "status", 5, 5, 0),
            ("failed", "redirect", 5, 5, 0),
        ],
        key=str,
    )
    large = [row for row in read_rows(tmp_path / "out", format) if row["name"].endswith("/large")]
    assert [row["body"] for row in large] == [LARGE] * 5
    assert fetchmill.verify(tmp_path / "out").ok


@pytest.mark.parametrize("format", FORMATS)
def test_object_readers_ignore_rows_without_object(run: Run, raw: Raw, tmp_path: Path, format: str) -> None:
    """`open`, its Arrow stream, `ls`, `cat`, `verify` and exports into either format never show an empty object."""
    site = serve_sites(raw)
    listed = write_list(tmp_path, [f"{site.url}{path}" for path in SITES])
    options = (*HASTE, *OPTIONS, "--header", "If-None-Match: {etag}")
    assert run("get", listed, "out", "--format", format, "--keep-failed", *options).code == 3
    fetched = {f"{site.url}{path}" for path, (_, said) in SITES.items() if said[0] == "fetched"}

    objects = fetchmill.open(tmp_path / "out")
    table = duckdb.from_arrow(pa.table(objects.arrow()))

    assert set(objects) == fetched
    assert {row[0] for row in table.project("name").fetchall()} == fetched
    assert "outcome" not in table.columns
    assert set(run("ls", "out").out.split()) == fetched
    assert run("cat", "out", f"{site.url}/absent").code != 0
    proved = run("verify", "out")
    assert proved.code == 0, proved.out
    assert "9 listed = 3 fetched + 2 absent + 3 failed + 1 skipped" in proved.err
    for other in FORMATS:
        assert run("export", "out", f"export-{other}", "--format", other, "--quiet").code == 0
        rows = read_rows(tmp_path / f"export-{other}", other)
        assert count_names(rows) == dict.fromkeys(fetched, 1)
        assert not any("outcome" in row for row in rows)
        assert fetchmill.verify(tmp_path / f"export-{other}").ok


@pytest.mark.sampled(1)
@pytest.mark.parametrize("format", FORMATS)
def test_repeatedly_killed_job_has_each_row_once(
    run: Run, start: Start, server: Serve, tmp_path: Path, format: str
) -> None:
    """`kill -9` hits at random moments. Rows without an object appear only at the end."""
    rng = random.Random(f"{SEED}-{format}")
    count = 900
    faults = [Fault("status", status=404, rate=0.2), Fault("status", status=403, rate=0.2)]
    source = server(synthetic=count, faults=faults)
    arguments = ("get", source.url, "out", "--format", format, "--keep-failed", "--quiet", "--commit-window", "0.05")
    for done in sorted(rng.sample(range(20, 500), 3)):
        # Slow enough that the job is certainly still running.
        process = start(*arguments, "--rate", "200")
        wait_for_rows(tmp_path / "out", done)
        process.kill()
        process.wait(30)
        assert not list((tmp_path / "out").glob(UNFETCHED))

    ended = run(*arguments)

    assert ended.code == 3, ended.err
    rows = read_rows(tmp_path / "out", format)
    assert count_names(rows) == {f"file-{index:012}": 1 for index in range(count)}, f"FETCHMILL_SEED={SEED}"
    status = fetchmill.status(tmp_path / "out")
    assert outcomes(rows) == {"fetched": status.fetched, "absent": status.absent, "failed": status.failed}
    assert status.absent > 100
    assert status.failed > 100


@pytest.mark.sampled(1)
@pytest.mark.parametrize("format", FORMATS)
def test_job_killed_while_renaming_row_files_has_each_row_once(
    run: Run, environment: dict[str, str], raw: Raw, tmp_path: Path, format: str
) -> None:
    """Each row has its own file. The job is killed before a rename, and then before one of the following removals."""
    rng = random.Random(f"{SEED}-renames-{format}")
    site = serve_sites(raw)
    absent = [f"{site.url}/absent?{number}" for number in range(6)]
    listed = write_list(tmp_path, [f"{site.url}/fetched", *absent])
    arguments = (
        "get",
        listed,
        "out",
        "--format",
        format,
        "--keep-failed",
        *HASTE,
        "--threads",
        "1",
        "--shard-size",
        "1",
    )
    # The only shard costs its thread two renames, including its manifest's.
    for at in rng.sample(range(3, 7), 2):
        assert kill_before("renameat2", at, environment, tmp_path, *COMMAND, *arguments) != 3
        assert not is_finished(tmp_path / "out")
        assert len(list((tmp_path / "out").glob(UNFETCHED))) == at - 1
        assert kill_before("unlink", rng.randint(1, at - 1), environment, tmp_path, *COMMAND, *arguments) != 3

    ended = run(*arguments)

    assert ended.code == 3, ended.err
    named = count_names(read_rows(tmp_path / "out", format))
    assert named == dict.fromkeys([f"{site.url}/fetched", *absent], 1), f"FETCHMILL_SEED={SEED}"
    assert len(list((tmp_path / "out").glob(UNFETCHED))) == 6
    assert list((tmp_path / "out/.fetchmill/open").iterdir()) == []
    assert fetchmill.verify(tmp_path / "out").ok


def test_foreign_file_with_row_file_name_is_left_untouched(
    run: Run, environment: dict[str, str], raw: Raw, tmp_path: Path
) -> None:
    """The error names the file, and the job finishes once the file is moved away."""
    site = serve_sites(raw)
    listed = write_list(tmp_path, [f"{site.url}/absent?{number}" for number in range(3)])
    arguments = ("get", listed, "out", "--format", "jsonl", "--keep-failed", *HASTE, "--shard-size", "1")
    assert kill_before("renameat2", 2, environment, tmp_path, *COMMAND, *arguments) != 3
    foreign = tmp_path / "out/unfetched-000001.jsonl"
    foreign.write_text("precious")

    refused = [run(*arguments) for _ in range(2)]

    for ended in refused:
        assert ended.code == 10, ended.err
        assert "unfetched-000001.jsonl exists, but does not belong to this job; move it away" in ended.err
        assert foreign.read_text() == "precious"
    foreign.unlink()
    assert run(*arguments).code == 3
    assert outcomes(read_rows(tmp_path / "out", "jsonl")) == {"absent": 3}


@pytest.mark.parametrize("format", FORMATS)
def test_retry_run_leaves_one_row_per_target(run: Run, start: Start, raw: Raw, tmp_path: Path, format: str) -> None:
    """Targets that are now fetched, that still fail, or that are not tried have one row each.

    During the run, no target appears twice.
    """
    site = serve_sites(raw)
    urls = [f"{site.url}{path}" for path in SITES]
    listed = write_list(tmp_path, [*urls, REFUSED, "no url"])
    arguments = ("get", listed, "out", "--format", format, "--keep-failed", *HASTE, *OPTIONS)
    assert run(*arguments).code == 3
    before = count_names(read_rows(tmp_path / "out", format))
    site.routes["/error"] = reply(200, b"mended")
    site.routes["/gone"] = lambda exchange: exchange.stall()

    process = start(*arguments, "--retry-failed")
    deadline = time.monotonic() + 60
    while not site.count("/gone") > 1 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not list((tmp_path / "out").glob(UNFETCHED))
    process.kill()
    process.wait(30)
    site.routes["/gone"] = reply(410)
    ended = run(*arguments, "--retry-failed=5xx,410")

    assert ended.code == 3, ended.err
    rows = {row["name"]: row for row in read_rows(tmp_path / "out", format)}
    assert count_names(read_rows(tmp_path / "out", format)) == before == dict.fromkeys(rows, 1)
    assert (rows[f"{site.url}/error"]["outcome"], rows[f"{site.url}/error"]["body"]) == ("fetched", b"mended")
    assert outcomes(list(rows.values())) == {"fetched": 4, "absent": 2, "failed": 5}
    bad = rows[f"line {len(urls) + 3}"]
    assert (bad["kind"], bad["rank"]) == ("url", str(len(urls) + 1))

    for path in SITES:
        site.routes[path] = reply(200, b"mended")
    last = run(*arguments, "--retry-failed", "--max-failed", "2")
    assert last.code == 0, last.err
    rows = {row["name"]: row for row in read_rows(tmp_path / "out", format)}
    assert count_names(read_rows(tmp_path / "out", format)) == before
    assert outcomes(list(rows.values())) == {"fetched": len(SITES), "failed": 2}
    assert fetchmill.verify(tmp_path / "out").ok


def test_failed_rows_are_written_by_run_after_signal(run: Run, start: Start, server: Serve, tmp_path: Path) -> None:
    """After a signal, fetched objects are there, and the next run writes the other rows."""
    source = server(synthetic=400, faults=[Fault("status", status=404, rate=0.3)])
    arguments = ("get", source.url, "out", "--format", "parquet", "--keep-failed", "--quiet", "--commit-window", "0.05")
    process = start(*arguments, "--rate", "50")
    wait_for_rows(tmp_path / "out", 40)

    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)

    assert process.returncode == 130
    assert not list((tmp_path / "out").glob(UNFETCHED))
    rows = read_rows(tmp_path / "out", "parquet")
    assert outcomes(rows) == {"fetched": fetchmill.status(tmp_path / "out").fetched}
    assert run(*arguments).code == 3
    rows = read_rows(tmp_path / "out", "parquet")
    assert count_names(rows) == {f"file-{index:012}": 1 for index in range(400)}
    assert outcomes(rows)["absent"] > 50


@pytest.mark.one_in(3)
@pytest.mark.sampled(1)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_signal_while_writing_failed_rows_leaves_none(
    run: Run, start: Start, tmp_path: Path, number: signal.Signals
) -> None:
    """The same command writes these rows. If the signal comes too late, all of them are there."""
    count = 300_000
    (tmp_path / "list.txt").write_text("".join(f"no url {line}\n" for line in range(count)))
    arguments = ("get", "list.txt", "out", "--format", "jsonl", "--keep-failed", "--quiet", "--durability", "process")
    process = start(*arguments)
    writing, deadline = tmp_path / "out/.fetchmill/open", time.monotonic() + 120
    while not list(writing.glob(UNFETCHED)) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.001)

    process.send_signal(number)
    process.communicate(timeout=60)

    assert process.returncode in (3, 130, -signal.SIGKILL)
    if number == signal.SIGINT:
        assert bool(list((tmp_path / "out").glob(UNFETCHED))) == is_finished(tmp_path / "out")
    assert run(*arguments).code == 3
    rows = read_rows(tmp_path / "out", "jsonl")
    assert len(rows) == count
    assert {row["sequence"] for row in rows} == set(range(count))
    assert list(writing.iterdir()) == []


@pytest.mark.parametrize("format", FORMATS)
def test_job_without_targets_has_empty_table(run: Run, tmp_path: Path, format: str) -> None:
    """The table has columns, so that reading all files works. If there are objects, no file is empty."""
    (tmp_path / "list.csv").write_text("url,rank\n")

    ended = run("get", "list.csv", "out", "--format", format, "--keep-failed", *OPTIONS[2:4], "--keep-columns", "rank")

    assert ended.code == 3, ended.err
    (file,) = (tmp_path / "out").glob(f"*.{format}")
    assert file.name == f"unfetched-000000.{format}"
    if format == "parquet":
        table = pq.read_table(file)
        assert table.num_rows == 0
        assert table.column_names[-6:] == ["outcome", "kind", "detail", "attempts", "url", "rank"]
    else:
        assert file.read_text() == ""
    assert fetchmill.verify(tmp_path / "out").ok


def test_fully_fetched_job_has_only_shards(raw: Raw, tmp_path: Path) -> None:
    """A complete job has no other files, even if its targets are from a Python iterable."""
    site = serve_sites(raw)
    urls = [f"{site.url}/fetched?{number}" for number in range(20)]

    report = fetchmill.get(urls, tmp_path / "out", format="parquet", keep_failed=True)

    assert report.fetched == 20
    assert not list((tmp_path / "out").glob(UNFETCHED))
    assert outcomes(read_rows(tmp_path / "out", "parquet")) == {"fetched": 20}


def test_merged_rows_keep_their_attempts(run: Run, server: Serve, tmp_path: Path) -> None:
    """Small Parquet shards are merged, which rewrites their rows."""
    # Such slow replies become certain one by one, so that there are many small shards.
    source = server(synthetic=700, delay=(0.16, 0.2), faults=[Fault("status", status=500, times=1, rate=0.2)])
    often = ("--seal-after", "50ms", "--commit-window", "20ms", "--concurrency", "48", "--threads", "1", "--quiet")

    ended = run("get", source.url, "out", "--format", "parquet", "--keep-failed", *often)

    assert ended.code == 0, ended.err
    shards = sorted((tmp_path / "out").glob("shard-*"))
    assert int(shards[-1].stem.removeprefix("shard-")) >= len(shards), "none was merged"
    rows = read_rows(tmp_path / "out", "parquet")
    assert len(rows) == 700
    assert sum(row["attempts"] for row in rows) == source.stats()["get"]
    assert Counter(row["attempts"] for row in rows)[2] > 70


@pytest.mark.parametrize("format", FORMATS)
def test_keep_failed_has_row_for_dropped_and_failed_transform(run: Run, raw: Raw, tmp_path: Path, format: str) -> None:
    """The row has the list's columns. Those of the function and of `--hash` are null."""
    (tmp_path / "functions.py").write_text(
        "def change(replies):\n"
        "    for reply in replies:\n"
        "        if reply.name.endswith('raise'):\n"
        "            raise ValueError('no')\n"
        "        yield None if reply.name.endswith('drop') else {'title': 't', 'body': reply.body}\n"
    )
    site = raw({path: reply(200, b"body") for path in ("/keep", "/drop", "/raise")})
    listed = write_list(tmp_path, [f"{site.url}/{path}" for path in ("keep", "drop", "raise")])
    more = ("--transform", "functions:change", "--transform-columns", "title", "--hash", "sha256")

    ended = run("get", listed, "out", "--format", format, "--keep-failed", *HASTE, *OPTIONS, *more)

    assert ended.code == 3, ended.err
    rows = {row["name"].rpartition("/")[2]: row for row in read_rows(tmp_path / "out", format)}
    assert {name: (row["outcome"], row["kind"]) for name, row in rows.items()} == {
        "keep": ("fetched", None),
        "drop": ("skipped", None),
        "raise": ("failed", "transform"),
    }
    assert [rows[name]["rank"] for name in ("keep", "drop", "raise")] == ["0", "1", "2"]
    assert [rows[name]["sha256"] is None for name in ("keep", "drop", "raise")] == [False, True, True]
    assert [rows[name]["body"] for name in ("drop", "raise")] == [None, None]
    assert [rows[name]["title"] for name in ("keep", "drop", "raise")] == ["t", None, None]
    assert "ValueError: no" in rows["raise"]["detail"]


def test_bad_row_files_are_found_and_restored(run: Run, raw: Raw, tmp_path: Path) -> None:
    """`verify` finds damaged, missing and unknown files. The same command writes them again without a request."""
    site = serve_sites(raw)
    listed = write_list(tmp_path, [f"{site.url}{path}" for path in SITES])
    arguments = ("get", listed, "out", "--format", "parquet", "--keep-failed", *HASTE)
    assert run(*arguments).code == 3
    whole, asked = read_rows(tmp_path / "out", "parquet"), len(site.asked("/"))
    file = tmp_path / "out/unfetched-000000.parquet"
    good = file.read_bytes()
    (tmp_path / "out/unfetched-000007.parquet").write_bytes(good)
    assert "unknown\tunfetched-000007.parquet" in run("verify", "out").out
    (tmp_path / "out/unfetched-000007.parquet").unlink()

    for damage in (lambda: file.write_bytes(good[:99] + b"!" + good[100:]), file.unlink):
        damage()
        found = run("verify", "out")
        assert found.code == 10
        assert "unfetched-000000.parquet" in found.out
        assert run("verify", "out", "--repair").code == 0
        assert run(*arguments).code == 3
        assert read_rows(tmp_path / "out", "parquet") == whole
        assert fetchmill.verify(tmp_path / "out").ok
    assert len(site.asked("/")) == asked


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--format", "tar"), "--keep-failed needs --format parquet, jsonl or warc"),
        ((), "--keep-failed needs --format parquet, jsonl or warc"),
        (("--format", "null"), "--keep-failed needs --format parquet, jsonl or warc"),
        (("--format", "jsonl", "--keep-columns", "kind"), '--keep-failed adds a column "kind"; rename your column'),
    ],
)
def test_keep_failed_is_refused_with_incompatible_options(
    run: Run, tmp_path: Path, more: tuple[str, ...], message: str
) -> None:
    """The error is one line, and nothing is created."""
    (tmp_path / "list.csv").write_text("url,kind\nhttp://127.0.0.1:1/,x\n")

    refused = run("get", "list.csv", "out", "--keep-failed", *more)

    assert (refused.code, refused.out) == (2, "")
    assert message in refused.err
    assert len(refused.err.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_keep_failed_is_refused_for_bucket_destination(run: Run) -> None:
    """The error comes before any request."""
    refused = run("get", "http://127.0.0.1:1/", "s3://bucket/prefix/", "--format", "parquet", "--keep-failed")

    assert (refused.code, refused.out) == (2, "")
    assert "--keep-failed needs a folder as its destination, not a bucket (s3://bucket/prefix/)" in refused.err


def test_keep_failed_is_part_of_job_identity(run: Run, raw: Raw, tmp_path: Path) -> None:
    """The option changes the columns of shards, so it cannot change during a job."""
    site = serve_sites(raw)
    listed = write_list(tmp_path, [f"{site.url}/fetched", f"{site.url}/absent"])
    arguments = ("get", listed, "out", "--format", "jsonl", *HASTE)
    assert run(*arguments).code == 3

    refused = run(*arguments, "--keep-failed")

    assert refused.code == 2
    assert "belongs to another job: its rows is not set, not all" in refused.err
