"""`fetchmill list SOURCE [MANIFEST]` writes the targets of a source without fetching them; `get` reads the manifest."""

import csv
import gzip
import io
import json
import os
import signal
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import pyarrow.parquet as pq
import pytest

import fetchmill
from conftest import wait_for_rows
from fetchmill.testing import Server, synthetic_body
from raw_server import Exchange, RawServer, page, reply

Run = Callable[..., Any]
Serve = Callable[..., Server]
Raw = Callable[..., RawServer]
Row = dict[str, Any]

COLUMNS = ["name", "url", "size", "etag", "last_modified"]
MANIFESTS = ("m.parquet", "m.csv", "m.csv.gz", "m.jsonl")
# Pages take a tenth of a second, so that the kill hits an unfinished listing.
SLOW: dict[str, Any] = {"synthetic": 3000, "page_size": 100, "list_delay": (0.05, 0.1)}
ODD = ("a b", "100%", "q?x=1&y", "#a#b", "café", "sub/folder/x.bin", 'comma,quote"', "line\nbreak", "two  spaces ")


def read_rows(path: Path) -> list[Row]:
    """Returns the rows of a manifest. In CSV, all values are strings, and an empty one stands for None."""
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    if ".parquet" in path.suffixes:
        table: list[Row] = pq.read_table(path).to_pylist()
        return table
    if ".csv" in path.suffixes:
        return list(csv.DictReader(io.StringIO(data.decode(), newline="")))
    return [json.loads(line) for line in data.decode().splitlines()]


def odd_folder(folder: Path) -> Path:
    """Creates files whose names need encoding."""
    for number, name in enumerate(ODD):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"{number}")
    return folder


@pytest.mark.parametrize("manifest", MANIFESTS)
def test_every_name_has_one_row_in_every_format(run: Run, server: Serve, tmp_path: Path, manifest: str) -> None:
    """Each row has the URL of its request, and nothing is fetched."""
    source = server(synthetic=2500)

    ended = run("list", source.url, manifest)

    assert (ended.code, ended.out) == (0, ""), ended.err
    assert "2,500 targets in " in ended.err
    assert f"manifest: {manifest}" in ended.err
    rows = read_rows(tmp_path / manifest)
    assert list(rows[0]) == COLUMNS
    assert {row["name"]: row["url"] for row in rows} == {
        f"file-{index:012}": f"{source.url}/get/file-{index:012}" for index in range(2500)
    }
    assert len(rows) == 2500
    assert {row["size"] or None for row in rows} == {None}
    assert source.stats().get("get", 0) == 0


@pytest.mark.sampled(4)
@pytest.mark.parametrize("manifest", MANIFESTS)
@pytest.mark.parametrize("format", ["files", "jsonl"])
def test_get_of_manifest_equals_get_of_source(
    run: Run, server: Serve, tmp_path: Path, tree: Callable[..., Any], manifest: str, format: str
) -> None:
    """`get` of a manifest stores the same tree as `get` of the source, for any names."""
    url = server(odd_folder(tmp_path / "served")).url
    assert run("get", url, "direct", "--format", format).code == 0
    assert run("list", url, manifest).code == 0

    ended = run("get", manifest, "later", "--format", format, "--allow-private")

    assert ended.code == 0, ended.err
    with fetchmill.open(tmp_path / "direct") as direct, fetchmill.open(tmp_path / "later") as later:
        assert dict(later) == dict(direct)
        assert len(direct) == len(ODD)
    if format == "files":
        assert tree(tmp_path / "later") == tree(tmp_path / "direct")


def test_folders_of_web_server_are_listed(run: Run, raw: Raw, tmp_path: Path) -> None:
    """`autoindex` lists folders. A folder without a listing is missing, which the exit code shows."""

    def folder(*found: tuple[str, str]) -> bytes:
        return reply(json.dumps([{"name": name, "type": kind} for name, kind in found]).encode())

    source = raw(
        {
            "/": folder(("a b", "file"), ("sub", "directory"), ("bad", "directory")),
            "/sub/": folder(("c", "file")),
            "/bad/": reply(status="403 Forbidden"),
        }
    )

    ended = run("list", source.url, "m.csv", "--listing", "autoindex")

    assert ended.code == 3, ended.err
    assert "folders that could not be listed: 1" in ended.err
    rows = {row["name"]: row["url"] for row in read_rows(tmp_path / "m.csv")}
    assert rows == {"a b": f"{source.url}/a%20b", "sub/c": f"{source.url}/sub/c"}


def test_list_command_normalises_list(run: Run, tmp_path: Path) -> None:
    """Filters, keys and kept columns apply to the rows; a line without a URL is a row without one."""
    lines = ["HTTP://A.test/x,k1,7", "http://b.test/y#z,,8", "nonsense,k3,9", "http://c.test/skip,k4,1"]
    (tmp_path / "urls.csv").write_text("url,key,rank\n" + "".join(f"{line}\n" for line in lines))
    options = ("--key-column", "key", "--keep-columns", "rank", "--exclude", "*skip*")

    ended = run("list", "urls.csv", "m.jsonl", *options)

    assert ended.code == 0, ended.err
    assert "without a URL: 1;" in ended.err
    assert "left out: 1" in ended.err
    found = [(row["name"], row["url"], row.get("rank")) for row in read_rows(tmp_path / "m.jsonl")]
    assert found == [("k1", "http://a.test/x", "7"), (None, "http://b.test/y", "8"), ("line 4", None, "9")]


def test_names_go_to_stdout_without_files(run: Run, server: Serve, tmp_path: Path) -> None:
    """Names are escaped, one per line, and the summary goes to standard error. No file is left."""
    source = server(odd_folder(tmp_path / "served"))
    (tmp_path / "tmp").mkdir()
    environment = {"PATH": os.environ["PATH"], "TMPDIR": str(tmp_path / "tmp"), "LC_ALL": "C.UTF-8"}

    ended = run("list", source.url, "--exclude", "sub/*", env=environment)

    assert ended.code == 0, ended.err
    expected = [name.replace("\n", "\\n") for name in ODD if not name.startswith("sub/")]
    assert sorted(ended.out.splitlines()) == sorted(expected)
    assert "8 targets in " in ended.err
    assert list((tmp_path / "tmp").iterdir()) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["served", "tmp"]


def test_closed_output_pipe_ends_list(start: Callable[..., Any], server: Serve) -> None:
    """With `fetchmill list ... | head`, the command ends silently, long before the end of the listing."""
    source = server(synthetic=2_000_000)
    process = start("list", source.url)
    assert process.stdout is not None

    assert process.stdout.readline() == "file-000000000000\n"
    process.stdout.close()

    assert process.wait(30) == 0
    assert process.stderr is not None
    assert process.stderr.read() == ""
    assert source.stats()["list"] < 2000


def test_json_events_have_each_target_and_report(run: Run, server: Serve) -> None:
    """With --json, there is an event for each target, and then the report."""
    source = server(synthetic=2)

    ended = run("list", source.url, "--json")

    events = [json.loads(line) for line in ended.out.splitlines()]
    targets = [event for event in events if event["event"] == "target"]
    assert [event["name"] for event in targets] == ["file-000000000000", "file-000000000001"]
    assert targets[0]["url"] == f"{source.url}/get/file-000000000000"
    assert events[-1]["event"] == "report"
    assert (events[-1]["rows"], events[-1]["manifest"]) == (2, None)


def test_killed_list_resumes_with_one_row_per_name(
    run: Run, server: Serve, start: Callable[..., Any], tmp_path: Path
) -> None:
    """After two runs of `kill -9`, listed pages are not requested again."""
    source = server(**SLOW)
    manifest = tmp_path / "m.parquet"
    for done in (300, 1000):
        process = start("list", source.url, manifest, "--commit-window", "0.05")
        wait_for_rows(manifest, done)
        process.send_signal(signal.SIGKILL)
        process.wait(30)
        assert not manifest.exists()

    ended = run("list", source.url, manifest, "--commit-window", "0.05")

    assert ended.code == 0, ended.err
    assert "resuming: " in ended.err
    counts = Counter(row["name"] for row in read_rows(manifest))
    assert counts == {f"file-{index:012}": 1 for index in range(3000)}
    assert source.stats()["list"] < 40


def test_list_resumes_after_signal(run: Run, server: Serve, start: Callable[..., Any], tmp_path: Path) -> None:
    """A signal ends the list after a checkpoint, with its exit code."""
    source = server(**SLOW)
    process = start("list", source.url, "m.csv")
    wait_for_rows(tmp_path / "m.csv", 100)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=120)

    ended = run("list", source.url, "m.csv")

    assert process.returncode == 130, said
    assert "run the same command again to resume" in said
    assert ended.code == 0, ended.err
    assert len(read_rows(tmp_path / "m.csv")) == 3000


def test_finished_list_sends_no_requests(run: Run, server: Serve, tmp_path: Path) -> None:
    """The same command leaves a finished manifest unchanged. With another source, it is refused as another job."""
    source = server(synthetic=10)
    assert run("list", source.url, "m.csv").code == 0
    before, asked = (tmp_path / "m.csv").read_bytes(), source.stats()["list"]

    again = run("list", source.url, "m.csv")
    other = run("list", server(synthetic=10).url, "m.csv")

    assert again.code == 0
    assert "already complete: 10 targets" in again.err
    assert (source.stats()["list"], (tmp_path / "m.csv").read_bytes()) == (asked, before)
    assert other.code == 2
    assert "belongs to another job" in other.err


def test_unrelated_file_at_manifest_path_is_refused(run: Run, server: Serve, tmp_path: Path) -> None:
    """If another file is at the manifest's path, nothing is replaced, and no request is sent."""
    source = server(synthetic=3)
    (tmp_path / "precious.csv").write_text("mine")

    refused = {
        "precious.csv": "exists, but was not written by this job",
        "m.txt": "does not give the format of the results",
        "missing/m.csv": "the folder missing does not exist",
    }

    for manifest, reason in refused.items():
        ended = run("list", source.url, manifest)
        assert ended.code == 2, manifest
        assert reason in ended.err
    assert (tmp_path / "precious.csv").read_text() == "mine"
    assert source.stats().get("list", 0) == 0


@pytest.mark.parametrize("option", ["--limit", "--bwlimit", "--retry-failed", "--transform", "--max-size"])
def test_fetch_options_are_refused_by_list(run: Run, option: str) -> None:
    """`list` refuses options for fetching, because it fetches nothing."""
    ended = run("list", "http://127.0.0.1:1", "m.csv", option, "1")

    assert ended.code == 2
    assert f"{option}: not an option of list" in ended.err


def test_ls_refuses_manifest_but_status_accepts_it(run: Run, server: Serve) -> None:
    """`ls` refuses a manifest, because it has no objects. `status` shows the progress."""
    assert run("list", server(synthetic=2).url, "m.csv").code == 0

    refused = run("ls", "m.csv")

    assert refused.code == 2
    assert "m.csv holds the results of `fetchmill list` (one row per target), not objects" in refused.err
    assert "fetched      2" in run("status", "m.csv").out


def test_name_without_url_fetches_no_other_object(run: Run, raw: Raw, tmp_path: Path) -> None:
    """A listed name `a/../b` has no URL, because it would be the URL of `b`."""
    source = raw({"/list": page(["a/../b", "c"]), "/get/b": reply(b"x"), "/get/c": reply(b"x")})

    listed = run("list", source.url, "m.csv")
    ended = run("get", "m.csv", "out", "--format", "jsonl", "--allow-private")

    assert listed.code == 0
    assert [(row["name"], row["url"]) for row in read_rows(tmp_path / "m.csv")] == [
        ("a/../b", ""),
        ("c", f"{source.url}/get/c"),
    ]
    assert ended.code == 3
    with fetchmill.open(tmp_path / "out") as objects:
        assert dict(objects) == {"c": b"x"}


def write_manifest(path: Path, rows: list[Row]) -> Path:
    """Writes a manifest as another program might."""
    complete = [dict.fromkeys(COLUMNS) | row for row in rows]
    path.write_text("".join(json.dumps(row) + "\n" for row in complete))
    return path


def test_changed_size_or_etag_is_detected(run: Run, raw: Raw, tmp_path: Path) -> None:
    """A changed object fails, and unchanged ones are stored."""
    names = ("same", "longer", "other", "silent")
    source = raw({f"/{name}": reply(b"abc", 'ETag: "e1"') for name in names})
    said: dict[str, Row] = {
        "same": {"size": 3, "etag": "e1"},
        "longer": {"size": 4, "etag": "e1"},
        "other": {"size": 3, "etag": "e2"},
        "silent": {},
    }
    rows = [{"name": f"called {name}", "url": f"{source.url}/{name}", **said[name]} for name in names]
    manifest = write_manifest(tmp_path / "m.jsonl", rows)

    ended = run("get", manifest, "out", "--allow-private")

    assert ended.code == 3, ended.err
    failed = {failure.name: failure.kind for failure in fetchmill.failures(tmp_path / "out")}
    assert failed == {"called longer": "changed", "called other": "changed"}
    assert sorted(path.name for path in (tmp_path / "out").iterdir() if path.is_file()) == [
        "called same",
        "called silent",
    ]


def test_invalid_size_in_manifest_is_reported(run: Run, tmp_path: Path) -> None:
    """An invalid size is an error, and not treated as unknown."""
    rows = [{"name": "x", "url": "http://127.0.0.1:1/x", "size": "many"}]
    manifest = write_manifest(tmp_path / "m.jsonl", rows)

    assert run("get", manifest, "out", "--allow-private").code == 3
    [failure] = fetchmill.failures(tmp_path / "out")
    assert (failure.kind, failure.detail) == ("url", "its size is not a number")


@pytest.mark.parametrize("name", ["list.csv", "list.jsonl"])
def test_list_with_manifest_columns_is_read_as_list(run: Run, server: Serve, tmp_path: Path, name: str) -> None:
    """A list with columns called `name` and `url` is read as a list of URLs."""
    url = f"{server(synthetic=1).url}/get/file-000000000000"
    row = {"name": "not this", "url": url, "size": 7}
    text = f"name,url,size\nnot this,{url},7\n" if name.endswith("csv") else json.dumps(row) + "\n"
    (tmp_path / name).write_text(text)

    assert run("get", name, "out", "--allow-private", "--format", "jsonl").code == 0
    with fetchmill.open(tmp_path / "out") as objects:
        assert dict(objects) == {url: synthetic_body("file-000000000000", 100)}


def listing_of(keys: dict[str, bytes]) -> Callable[[Exchange], bytes]:
    """Returns a ListObjectsV2 page with these keys."""

    def answer(exchange: Exchange) -> bytes:
        after = parse_qs(urlsplit(exchange.target).query).get("start-after", [""])[0]
        found = sorted((key for key in keys if key.encode() > after.encode()), key=str.encode)
        contents = "".join(
            f"<Contents><Key>{quote(key)}</Key><LastModified>2026-11-22T08:30:00.000Z</LastModified>"
            f"<ETag>&quot;e-{len(keys[key])}&quot;</ETag><Size>{len(keys[key])}</Size></Contents>"
            for key in found
        )
        text = (
            '<?xml version="1.0" encoding="UTF-8"?><ListBucketResult><Name>bucket</Name><Prefix></Prefix>'
            f"<KeyCount>{len(found)}</KeyCount><MaxKeys>1000</MaxKeys><EncodingType>url</EncodingType>"
            f"<IsTruncated>false</IsTruncated>{contents}</ListBucketResult>"
        )
        return reply(text.encode())

    return answer


def test_bucket_is_listed_and_fetched_later(run: Run, raw: Raw, tmp_path: Path, environment: dict[str, str]) -> None:
    """The manifest has size, ETag and time, and an object that has changed since then fails."""
    keys = {"a b": b"1", "x/é?#%": b"22", "changed": b"333"}
    routes = {f"/bucket/{quote(key)}": reply(body, f'ETag: "e-{len(body)}"') for key, body in keys.items()}
    routes["/bucket/changed"] = reply(b"4444", 'ETag: "e-4"')
    source = raw(routes | {"/bucket": listing_of(keys)})
    access = ("--endpoint-url", source.url, "--no-sign-request", "--region", "us-east-1")
    alone = {"AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": os.devnull, "no_proxy": "*"}

    listed = run("list", "s3://bucket/", "m.parquet", *access, env=environment | alone)
    assert listed.code == 0, listed.err
    ended = run("get", "m.parquet", "out", "--allow-private", *access, env=environment | alone)

    rows = {row["name"]: row for row in read_rows(tmp_path / "m.parquet")}
    assert rows["x/é?#%"] == {
        "name": "x/é?#%",
        "url": "s3://bucket/x/%C3%A9%3F%23%25",
        "size": 2,
        "etag": "e-2",
        "last_modified": datetime(2026, 11, 22, 8, 30, tzinfo=UTC),
    }
    assert rows.keys() == keys.keys()
    assert ended.code == 3, ended.err
    assert [(failure.name, failure.kind) for failure in fetchmill.failures(tmp_path / "out")] == [
        ("changed", "changed")
    ]
    with fetchmill.open(tmp_path / "out") as objects:
        assert dict(objects) == {"a b": b"1", "x/é?#%": b"22"}


def test_python_function_gets_targets_as_listed(server: Serve) -> None:
    """The function runs on the caller's thread, with several targets per call. An exception ends the list."""
    source = server(synthetic=5000)
    taken: list[fetchmill.ListedTarget] = []

    report = fetchmill.list(source.url, each=taken.extend)

    assert (report.rows, report.manifest, report.interrupted) == (5000, None, False)
    assert [target.name for target in taken] == [f"file-{index:012}" for index in range(5000)]
    assert taken[0] == (taken[0].name, f"{source.url}/get/{taken[0].name}", None, None, None, {})

    def refuse(targets: object) -> None:
        raise LookupError(targets)

    with pytest.raises(LookupError):
        fetchmill.list(source.url, each=refuse)


def test_python_list_writes_manifest_for_get(server: Serve, tmp_path: Path) -> None:
    """`fetchmill.list` and `fetchmill.get` work together like the commands."""
    source = server(synthetic=50)

    report = fetchmill.list(source.url, tmp_path / "m.parquet")
    got = fetchmill.get(tmp_path / "m.parquet", tmp_path / "out", allow_private=True)

    assert (report.rows, report.without_url, report.manifest) == (50, 0, str(tmp_path / "m.parquet"))
    assert (got.fetched, got.failed) == (50, 0)
    assert (tmp_path / "out" / "file-000000000007").read_bytes() == synthetic_body("file-000000000007", 100)


def test_invalid_list_arguments_are_usage_errors(tmp_path: Path) -> None:
    """The error comes before anything is created."""
    url = "http://127.0.0.1:1"
    with pytest.raises(fetchmill.UsageError, match="cannot be combined"):
        fetchmill.list(url, tmp_path / "m.csv", each=print)
    with pytest.raises(fetchmill.UsageError, match="state needs a manifest"):
        fetchmill.list(url, state=tmp_path / "state")
    with pytest.raises(fetchmill.UsageError, match="column is for lists of URLs"):
        fetchmill.list(url, tmp_path / "m.csv", column="1")
    with pytest.raises(fetchmill.UsageError, match="size_from is for buckets"):
        fetchmill.list(url, tmp_path / "m.csv", size_from=1)
    assert list(tmp_path.iterdir()) == []
