"""`fetchmill get LIST DEST`: all list formats, invalid lines, and resuming a killed job."""

import gzip
import io
import json
import os
import signal
import socket
import subprocess
import threading
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fetchmill
from conftest import COMMAND
from fetchmill.testing import Server, synthetic_body
from lists import COMPRESSIONS, FORMATS, compress, encode, write_list
from raw_server import RawServer
from stored import find_wrong, read_objects

Run = Callable[..., Any]
Serve = Callable[..., Server]

SIZE = 100


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx"


def urls_of(source: Server, count: int) -> list[str]:
    """Returns the URLs of the first objects of a synthetic server."""
    return [f"{source.url}/get/file-{index:012}" for index in range(count)]


def bodies_of(urls: list[str]) -> dict[str, bytes]:
    """Returns the expected body of each URL."""
    return {url: synthetic_body(url.rsplit("/", 1)[1], SIZE) for url in urls}


def rows_of(urls: list[str]) -> list[dict[str, str]]:
    """Returns rows with one column before and one after the URL."""
    return [
        {"rank": str(index), "url": url, "name": f"näme {index}", "note": f'a "quoted",\nnote {index}'}
        for index, url in enumerate(urls)
    ]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("suffix", COMPRESSIONS)
@pytest.mark.parametrize("format", FORMATS)
def test_list_of_any_format_is_fetched(
    run: Run, server: Serve, dest: Path, tmp_path: Path, format: str, suffix: str
) -> None:
    """Each URL is fetched once and stored under its URL, with the server's bytes."""
    urls = urls_of(server(synthetic=5000), 5000)
    listed = write_list(tmp_path, rows_of(urls), format, suffix)
    column = [] if format in ("txt", "jsonl", "parquet") else ["--column", "url"]

    ended = run("get", listed, dest, "--allow-private", "--format", "parquet", *column)

    assert ended.code == 0, ended.err
    assert "5,000 listed = 5,000 fetched + 0 absent" in ended.err
    assert find_wrong(dest, "parquet", bodies_of(urls)) == []


@pytest.mark.parametrize("suffix", COMPRESSIONS)
def test_list_is_read_from_standard_input(run: Run, server: Serve, dest: Path, tmp_path: Path, suffix: str) -> None:
    """Compression of standard input is detected by its first bytes."""
    urls = urls_of(server(synthetic=3000), 3000)
    listed = write_list(tmp_path, rows_of(urls), "txt", suffix)

    with listed.open("rb") as stdin:
        ended = run("get", "-", dest, "--allow-private", "--format", "jsonl", stdin=stdin)

    assert ended.code == 0, ended.err
    assert find_wrong(dest, "jsonl", bodies_of(urls)) == []


def test_columns_give_urls_names_and_rows(run: Run, server: Serve, dest: Path, tmp_path: Path) -> None:
    """Columns can be selected by number for URLs, for names, and for kept values."""
    source = server(synthetic=2000)
    lines = [f'{index},file-{index:012},"key {index}"\n' for index in range(2000)]
    (tmp_path / "top.csv").write_text("".join(lines))

    ended = run(
        *("get", "top.csv", dest, "--column", 2, "--template", f"{source.url}/get/{{}}", "--csv-header", "no"),
        *("--key-column", 3, "--keep-columns", "1", "--format", "parquet", "--allow-private"),
    )

    assert ended.code == 0, ended.err
    rows = [row for path in sorted(dest.glob("*.parquet")) for row in pq.read_table(path).to_pylist()]
    assert len(rows) == 2000
    for row in rows:
        index = int(row["1"])
        assert row["name"] == f"key {index}"
        assert row["url"] == f"{source.url}/get/file-{index:012}"
        assert row["body"] == synthetic_body(f"file-{index:012}", SIZE)


@pytest.mark.parametrize("format", ["parquet", "jsonl"])
def test_python_rows_have_kept_columns(run: Run, server: Serve, dest: Path, tmp_path: Path, format: str) -> None:
    """Python rows have the kept columns by name, including values that need quotes, and missing ones."""
    urls = urls_of(server(synthetic=10), 10)
    listed = write_list(tmp_path, rows_of(urls), "csv")

    ended = run(
        "get", listed, dest, "--allow-private", "--column", "url", "--keep-columns", "note,rank", "--format", format
    )

    assert ended.code == 0, ended.err
    with fetchmill.open(dest) as objects:
        found = {name: objects.record(name).columns for name in objects}
    assert found == {url: {"note": f'a "quoted",\nnote {index}', "rank": str(index)} for index, url in enumerate(urls)}


def test_files_are_named_by_host_path_and_query(run: Run, raw: Any, dest: Path, tmp_path: Path) -> None:  # noqa: ANN401
    """An empty last segment becomes %index, and the second of two equal names is reported."""
    reply = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    site: RawServer = raw(dict.fromkeys(("/", "/a/", "/a/b?c=d", "/a/b"), reply))
    urls = [f"{site.url}{path}" for path in ("/", "/a/", "/a/b?c=d", "/a/b", "/a/b#again")]
    (tmp_path / "urls.txt").write_text("\n".join(urls))
    host = site.url.removeprefix("http://")

    ended = run("get", "urls.txt", dest, "--allow-private")

    assert ended.code == 3, ended.err
    files = {
        str(path.relative_to(dest)) for path in dest.rglob("*") if path.is_file() and ".fetchmill" not in path.parts
    }
    assert files == {f"{host}/%index", f"{host}/a/%index", f"{host}/a/b?c=d", f"{host}/a/b"}
    assert "failed: name-taken 1" in ended.err


def test_files_can_be_numbered(run: Run, server: Serve, dest: Path, tmp_path: Path, tree: Callable[..., Any]) -> None:
    """Numbers of files follow the order of the list."""
    urls = urls_of(server(synthetic=1500), 1500)
    listed = write_list(tmp_path, rows_of(urls))

    ended = run("get", listed, dest, "--allow-private", "--names", "seq")

    assert ended.code == 0, ended.err
    files = {name: body for name, body in tree(dest).items() if body is not None}
    assert files == {f"{index // 1000:06}/{index:09}": body for index, body in enumerate(bodies_of(urls).values())}


def test_invalid_line_fails_with_its_number(run: Run, server: Serve, dest: Path, tmp_path: Path) -> None:
    """Invalid lines fail alone; comments and empty lines are not targets."""
    good = urls_of(server(synthetic=3), 3)
    bad = ["no url", "ftp://host/x", "http://", "http://user:secret@127.0.0.1/x", "http://a b/", "http://[::1/x"]
    text = "\n".join([good[0], "", "# comment", *bad, f"  {good[1]}  ", good[2]])
    (tmp_path / "urls.txt").write_bytes(text.encode() + b"\nhttp://127.0.0.1/\xff\n")

    ended = run("get", "urls.txt", dest, "--allow-private", "--format", "tar")

    assert ended.code == 3, ended.err
    assert "10 listed = 3 fetched + 0 absent + 7 failed" in ended.err
    assert find_wrong(dest, "tar", bodies_of(good)) == []
    failures = list(fetchmill.failures(dest))
    assert {failure.kind for failure in failures} == {"url"}
    assert sorted(failure.name for failure in failures) == sorted(f"line {line}" for line in (4, 5, 6, 7, 8, 9, 12))
    assert "secret" not in ended.err


def test_packs_keep_both_objects_of_one_name(run: Run, server: Serve, dest: Path, tmp_path: Path) -> None:
    """Packs keep all objects of one name, with different sequence numbers."""
    url = urls_of(server(synthetic=1), 1)[0]
    (tmp_path / "urls.csv").write_text("url,rank\n" + "".join(f"{url},{rank}\n" for rank in range(3)))

    ended = run("get", "urls.csv", dest, "--allow-private", "--format", "jsonl", "--keep-columns", "rank")

    assert ended.code == 0, ended.err
    assert [name for name, _ in read_objects(dest, "jsonl")] == [url] * 3


def test_filtered_targets_are_counted_as_skipped(run: Run, server: Serve, dest: Path, tmp_path: Path) -> None:
    """Globs and regular expressions exclude targets, which count as skipped."""
    urls = urls_of(server(synthetic=100), 100)
    listed = write_list(tmp_path, rows_of(urls))

    ended = run(
        *("get", listed, dest, "--format", "jsonl", "--include", "*file-00000000001?", "--include", r"re:file-0+2\d$"),
        *("--exclude", "*5", "--allow-private"),
    )

    assert ended.code == 0, ended.err
    assert "100 listed = 18 fetched + 0 absent + 0 failed + 82 skipped" in ended.err
    kept = [url for index, url in enumerate(urls) if 10 <= index < 30 and index % 10 != 5]
    assert sorted(name for name, _ in read_objects(dest, "jsonl")) == kept


def test_filters_apply_to_server_listings(run: Run, server: Serve, dest: Path, tree: Callable[..., Any]) -> None:
    """Filters match the names that a server lists."""
    ended = run("get", server(synthetic=50).url, dest, "--exclude", "*[1-9]")

    assert ended.code == 0, ended.err
    assert sorted(tree(dest)) == [f"file-{index:012}" for index in range(0, 50, 10)]
    assert "50 listed = 5 fetched + 0 absent + 0 failed + 45 skipped" in ended.err


def test_sample_has_requested_size_and_is_reproducible(run: Run, server: Serve, tmp_path: Path) -> None:
    """A sample has the requested size, is spread over the list, and is the same each time."""
    urls = urls_of(server(synthetic=1000), 1000)
    listed = write_list(tmp_path, rows_of(urls))

    for dest in ("one", "two"):
        assert run("get", listed, dest, "--allow-private", "--sample", 100, "--format", "jsonl").code == 0
    one, two = ({name for name, _ in read_objects(tmp_path / dest, "jsonl")} for dest in ("one", "two"))

    assert len(one) == 100
    assert one == two
    assert min(urls.index(url) for url in one) < 100
    assert max(urls.index(url) for url in one) > 900


def test_dry_run_prints_targets_without_requests(run: Run, server: Serve, dest: Path, tmp_path: Path) -> None:
    """URLs and names go to standard output, counts to standard error."""
    source = server(synthetic=10)
    rows = rows_of(urls_of(source, 3))
    listed = write_list(tmp_path, rows, "csv")

    ended = run("get", listed, dest, "--column", "url", "--key-column", "name", "--exclude", "*2", "--dry-run")

    assert ended.code == 0, ended.err
    assert ended.out == "".join(f"{row['url']}\t{row['name']}\n" for row in rows[:2])
    assert ended.err == "2 targets would be fetched, 0 lines without a URL, 1 left out\n"
    assert source.stats()["requests"] == 0
    assert not dest.exists()


def test_truncated_compressed_list_is_reported(run: Run, server: Serve, dest: Path, tmp_path: Path) -> None:
    """A compressed list that is truncated is an error of the listing."""
    urls = urls_of(server(synthetic=100), 100)
    whole = compress(".gz", encode("txt", rows_of(urls)))
    (tmp_path / "urls.txt.gz").write_bytes(whole[:-20])

    ended = run("get", "urls.txt.gz", dest, "--allow-private")

    assert ended.code == 4
    assert "urls.txt.gz" in ended.err


def peak_of(command: list[str], folder: Path) -> tuple[int, str, float]:
    """Runs a command. Returns its exit code, its output, and its peak memory in MiB."""
    said = folder / "said"
    peak = 0
    with said.open("wb") as err:
        process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=err)
        # `wait4` would include the memory of this process at the fork.
        while process.poll() is None:
            text = Path(f"/proc/{process.pid}/status").read_text()
            peak = max([peak, *(int(line.split()[1]) for line in text.splitlines() if line.startswith("VmHWM"))])
            time.sleep(0.01)
    return process.returncode, said.read_text(), peak / 1024


@pytest.mark.one_in(3)
@pytest.mark.sampled(1)
@pytest.mark.parametrize("writer", [{"use_dictionary": True}, {"use_dictionary": False}, {"version": "1.0"}], ids=str)
@pytest.mark.parametrize("verb", ["get", "list"])
def test_large_parquet_value_stays_within_memory_limit(tmp_path: Path, writer: dict[str, Any], verb: str) -> None:
    """A Parquet value of 300 MB takes some kilobytes on disk.

    Its page header shows the size, so it is not decompressed.
    """
    value = pa.array(["http://127.0.0.1:1/" + "x" * 300_000_000])
    columns = {"url": value, "name": pa.array(["a"]), "size": pa.array([1]), "etag": pa.array(["e"])}
    pq.write_table(pa.table(columns), tmp_path / "list.parquet", compression="zstd", write_statistics=False, **writer)
    assert (tmp_path / "list.parquet").stat().st_size < 100_000

    dest = ["out", "--format", "null", "--allow-private"] if verb == "get" else ["manifest.csv"]
    code, said, peak = peak_of([*COMMAND, verb, "list.parquet", *dest, "--quiet"], tmp_path)

    assert (code, said.count("\n")) == (2, 1), said
    assert "list.parquet" in said
    assert "287 MiB" in said
    assert "1 MiB pages" in said
    assert peak < 256


def hide_size(path: Path, size: int) -> None:
    """Changes the header of the only page to claim 1 MiB, although the page has `size` bytes."""
    data = bytearray(path.read_bytes())
    start = pq.read_metadata(path).row_group(0).column(0).data_page_offset
    place = start + 3
    assert data[start] == data[start + 2] == 0x15
    said, digits = 0, 0
    while digits == 0 or data[place + digits - 1] & 0x80:
        said |= (data[place + digits] & 0x7F) << (7 * digits)
        digits += 1
    assert size <= said // 2 < size + 100
    for digit in range(digits):
        data[place + digit] = ((2 << 20) >> (7 * digit) & 0x7F) | (0x80 if digit < digits - 1 else 0)
    path.write_bytes(data)


@pytest.mark.parametrize("codec", ["gzip", "zstd", "brotli"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_parquet_page_with_wrong_size_is_refused(dest: Path, tmp_path: Path, codec: str, version: str) -> None:
    """A page that decodes to more than its header says is refused before it fills memory."""
    size = 300 << 20
    pages = {"compression": codec, "use_dictionary": False, "write_statistics": False, "data_page_version": version}
    level = {} if codec == "zstd" else {"compression_level": 1}
    pq.write_table(pa.table({"url": ["x" * size]}), tmp_path / "list.parquet", **pages, **level)
    hide_size(tmp_path / "list.parquet", size)

    code, said, peak = peak_of([*COMMAND, "get", "list.parquet", str(dest), "--dry-run"], tmp_path)

    assert code == 4, said
    assert "a page is larger than its header says" in said
    assert peak < 150


def test_json_list_may_have_bare_urls(run: Run, server: Serve, dest: Path, tmp_path: Path) -> None:
    """A line of a JSON list may be a URL without quotes, also among objects and strings."""
    urls = urls_of(server(synthetic=3), 3)
    (tmp_path / "urls.json").write_text(f'{urls[0]}\n"{urls[1]}"\n{{"url": "{urls[2]}"}}\nbare\n')
    ended = run("get", "urls.json", dest, "--allow-private", "--format", "jsonl")
    assert (ended.code, "3 fetched + 0 absent + 1 failed" in ended.err) == (3, True), ended.err
    assert find_wrong(dest, "jsonl", bodies_of(urls)) == []
    (tmp_path / "bare.json").write_text("".join(f"{url}\n" for url in urls))
    assert run("get", "bare.json", dest.with_name("bare"), "--allow-private").code == 0


def test_repeated_parquet_values_are_not_copied(dest: Path, tmp_path: Path) -> None:
    """A dictionary has a long value once. Its 200 rows fail one by one as too long, and the others are fetched."""
    long = "http://127.0.0.1:1/" + "x" * 3_000_000
    urls = pa.array([long] * 200 + ["http://127.0.0.1:1/y"])
    pq.write_table(
        pa.table({"url": urls}), tmp_path / "list.parquet", compression="zstd", dictionary_pagesize_limit=2**23
    )

    code, said, peak = peak_of([*COMMAND, "get", "list.parquet", str(dest), "--dry-run"], tmp_path)

    assert code == 0, said
    assert peak < 256


def test_zstd_list_with_long_window_is_read(run: Run, server: Serve, dest: Path, tmp_path: Path) -> None:
    """The output of `zstd --long` is read.

    For a larger window, the error says what to do instead of reporting damage.
    """
    urls = urls_of(server(synthetic=100), 100)
    listed = write_list(tmp_path, rows_of(urls))
    for log in (27, 30):
        # A window larger than the input is reduced to its size, unless the input is a pipe, as here.
        command = ["zstd", "--quiet", f"--long={log}", "-o", str(tmp_path / f"{log}.txt.zst")]
        subprocess.run(command, input=listed.read_bytes(), check=True)

    ended = run("get", "27.txt.zst", dest, "--allow-private", "--format", "jsonl")
    assert ended.code == 0, ended.err
    assert find_wrong(dest, "jsonl", bodies_of(urls)) == []
    refused = run("get", "30.txt.zst", tmp_path / "other", "--allow-private", "--quiet")
    assert (refused.code, refused.err.count("\n")) == (2, 1), refused.err
    assert "--long=27" in refused.err


def test_template_values_cannot_change_host_or_path(run: Run, raw: Callable[..., RawServer], tmp_path: Path) -> None:
    """A value cannot change the host or the path of a template; only `!r` inserts it verbatim."""
    server = raw({"/in/..%2Fadmin%3Fx%3D1%23/of": OK, "/in/x%2Fy/of": OK})
    host = server.url.removeprefix("http://")
    (tmp_path / "list.csv").write_text(f"v,w\n../admin?x=1#,a&b\n..,c\nx/y,@127.0.0.2/{host}\n")
    places = f"http://{host}/in/{{v}}/of?w={{w}}"

    ended = run(
        "get", "list.csv", "a.null", "--template", places, "--format", "null", "--allow-private", "--concurrency", 1
    )
    assert ended.code == 3, ended.err
    assert sorted(server.requests) == [
        "/in/..%2Fadmin%3Fx%3D1%23/of?w=a%26b",
        f"/in/x%2Fy/of?w=%40127.0.0.2%2F{host.replace(':', '%3A')}",
    ]
    (tmp_path / "two.csv").write_text(f"v\n{host}/other\n127.0.0.1\n")
    hosts = run("get", "two.csv", "b.null", "--template", "http://{v}:1/", "--format", "null", "--dry-run")
    assert hosts.out.splitlines() == ["line 2 is not a URL", "http://127.0.0.1:1/"]
    (tmp_path / "three.csv").write_text("v\nx/y?z\n")
    whole = run("get", "three.csv", "c.null", "--template", f"http://{host}/{{v!r}}", "--format", "null", "--dry-run")
    assert whole.out.splitlines() == [f"http://{host}/x/y?z"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["missing.txt", "out"], ["missing.txt", "http://HOST:PORT"]),
        (["urls.csv", "out", "--column", "nothing"], ["nothing", "url"]),
        (["urls.txt", "out", "--bearer", "hidden"], ["--credentials-for"]),
        (["urls.txt", "out", "--keep-columns", "x"], ["plain text", "x"]),
        (["urls.txt", "out", "--list-path", "/x"], ["--list-path"]),
        (["urls.csv", "out", "--include", "re:("], ["re:("]),
        (["urls.csv", "out", "--template", "nothing"], ["{}"]),
    ],
)
def test_invalid_list_options_get_one_line_error(
    run: Run, tmp_path: Path, arguments: list[str], words: list[str]
) -> None:
    """The error comes before anything is created."""
    (tmp_path / "urls.txt").write_text("http://127.0.0.1:1/x\n")
    (tmp_path / "urls.csv").write_text("url,rank\nhttp://127.0.0.1:1/x,1\n")

    ended = run("get", *arguments)

    assert ended.code == 2, ended.err
    assert ended.err.count("\n") == 1
    assert all(word in ended.err for word in words), ended.err
    assert "hidden" not in ended.err


@pytest.mark.thorough
@pytest.mark.parametrize(("format", "suffix"), [("txt", ""), ("csv", ".gz"), ("jsonl", ".zst"), ("parquet", "")])
def test_killed_job_resumes_at_right_line(
    run: Run,
    start: Callable[..., subprocess.Popen[str]],
    server: Serve,
    dest: Path,
    tmp_path: Path,
    format: str,
    suffix: str,
) -> None:
    """A job that is killed while reading its list neither loses nor duplicates an object."""
    count = 400_000
    source = server(synthetic=count)
    urls = urls_of(source, count)
    listed = write_list(tmp_path, [{"url": url} for url in urls], format, suffix)
    arguments = ["get", listed, dest, "--allow-private", "--format", "null", "--commit-window", "100ms"]
    arguments += [] if format == "txt" else ["--column", "url"]

    process = start(*arguments)
    while source.stats()["get"] < 50_000:
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    asked = source.stats()["get"]
    ended = run(*arguments, timeout=120)

    assert asked < count
    assert ended.code == 0, ended.err
    assert f"{count:,} listed = {count:,} fetched" in ended.err
    assert count <= source.stats()["get"] < count + 100_000


@pytest.mark.thorough
@pytest.mark.parametrize(("format", "suffix"), [("txt", ""), ("csv", ".gz"), ("jsonl", ".zst"), ("parquet", "")])
def test_changed_list_is_refused(
    run: Run,
    start: Callable[..., subprocess.Popen[str]],
    server: Serve,
    dest: Path,
    tmp_path: Path,
    format: str,
    suffix: str,
) -> None:
    """If the read part of a list changes without changing its length, the job stops.

    It continues with the original list.
    """
    count = 400_000
    source = server(synthetic=count)
    rows = [{"url": url} for url in urls_of(source, count)]
    listed = write_list(tmp_path, rows, format, suffix)
    old = listed.read_bytes()
    arguments = ("get", listed, dest, "--allow-private", "--format", "null", "--commit-window", "100ms")
    process = start(*arguments)
    while source.stats()["get"] < 50_000:
        time.sleep(0.01)
    process.kill()
    process.wait()
    rows[5], rows[6] = rows[6], rows[5]
    write_list(tmp_path, rows, format, suffix)
    if suffix or format == "parquet":
        changed = listed.read_bytes().ljust(len(old), b"\0")[: max(len(old), len(listed.read_bytes()))]
        listed.write_bytes(changed)

    ended = run(*arguments)

    assert ended.code == 2, ended.err
    assert "has changed" in ended.err
    listed.write_bytes(old)
    assert run(*arguments, timeout=120).code == 0


def test_list_that_has_grown_is_refused(run: Run, server: Serve, dest: Path, tmp_path: Path) -> None:
    """A list that has grown is refused, even if its job is finished.

    Otherwise, the job would wrongly be reported as complete.
    """
    urls = urls_of(server(synthetic=20), 20)
    listed = write_list(tmp_path, rows_of(urls[:10]))
    assert run("get", listed, dest, "--allow-private").code == 0
    write_list(tmp_path, rows_of(urls))

    ended = run("get", listed, dest, "--allow-private")

    assert ended.code == 2, ended.err
    assert "has changed" in ended.err


def test_retried_target_keeps_key_and_columns(run: Run, server: Serve, dest: Path, tmp_path: Path) -> None:
    """With `--retry-failed`, a target keeps its key and its kept columns."""
    folder = tmp_path / "served"
    folder.mkdir()
    (folder / "there").write_text("there")
    source = server(folder)
    rows = [
        {"url": f"{source.url}/get/there", "key": "k1", "rank": "1"},
        {"url": f"{source.url}/get/late", "key": "k2", "rank": "2"},
    ]
    listed = write_list(tmp_path, rows, "csv")
    arguments = ("--column", "url", "--key-column", "key", "--keep-columns", "rank", "--format", "jsonl")
    assert run("get", listed, dest, "--allow-private", *arguments).code == 3
    (folder / "late").write_text("late")

    ended = run("get", listed, dest, "--allow-private", *arguments, "--retry-failed")

    assert ended.code == 0, ended.err
    with fetchmill.open(dest) as objects:
        found = {name: (objects[name], objects.record(name).columns) for name in objects}
    assert found == {"k1": (b"there", {"rank": "1"}), "k2": (b"late", {"rank": "2"})}


def test_first_request_does_not_wait_for_end_of_list(start: Callable[..., Any], server: Serve, dest: Path) -> None:
    """The first line of an endless pipe is fetched immediately, and a signal ends the job."""
    source = server(synthetic=10)
    process = start("get", "-", dest, "--allow-private", stdin=subprocess.PIPE)

    process.stdin.write(urls_of(source, 1)[0] + "\n")
    process.stdin.flush()
    deadline = time.monotonic() + 60
    while source.stats()["get"] < 1:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)

    assert process.wait(10) == 130


def test_redirects_are_followed_up_to_limit(run: Run, raw: Any, dest: Path, tmp_path: Path) -> None:  # noqa: ANN401
    """Redirects are followed up to the limit. Loops and too many redirects have their own failure kinds."""

    def to(location: str) -> bytes:
        return f"HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n".encode()

    site: RawServer = raw(
        {
            "/a": to("/b"),
            "/b": b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nb",
            "/loop": to("/pool"),
            "/pool": to("/loop"),
            "/ftp": to("ftp://127.0.0.1/"),
            "/nowhere": b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n",
            **{f"/n{index}": to(f"/n{index + 1}") for index in range(10)},
        }
    )
    paths = ("/a", "/loop", "/n0", "/ftp", "/nowhere")
    (tmp_path / "urls.txt").write_text("\n".join(site.url + path for path in paths))

    ended = run("get", "urls.txt", dest, "--allow-private", "--format", "jsonl")

    assert ended.code == 3, ended.err
    kinds = {failure.name.removeprefix(site.url): failure.kind for failure in fetchmill.failures(dest)}
    assert kinds == {
        "/loop": "redirect-loop",
        "/n0": "redirect-limit",
        "/ftp": "redirect-refused",
        "/nowhere": "redirect-refused",
    }
    rows = [json.loads(line) for path in dest.glob("*.jsonl*") for line in _text_of(path).splitlines()]
    assert [(row["name"], row["url"]) for row in rows] == [(f"{site.url}/a", f"{site.url}/b")]


def _text_of(path: Path) -> str:
    """Returns the text of a shard, compressed or not."""
    return gzip.decompress(path.read_bytes()).decode() if path.suffix == ".gz" else path.read_text()


def test_rate_limit_is_kept(run: Run, server: Serve, dest: Path, tmp_path: Path) -> None:
    """At 100 requests per second with a burst of a tenth of a second, 60 targets take at least half a second."""
    urls = urls_of(server(synthetic=60), 60)
    listed = write_list(tmp_path, rows_of(urls))

    for option in ("--rate", "--rate-per-host"):
        started = time.monotonic()
        assert run("get", listed, dest.with_name(option), "--allow-private", option, 100, "--format", "null").code == 0
        assert time.monotonic() - started > 0.5


def test_headers_are_sent_to_their_origin_only(run: Run, dest: Path, tmp_path: Path) -> None:
    """Other origins get neither the token nor possibly secret headers, because a list may lead anywhere."""
    seen: dict[str, list[bytes]] = {"own": [], "other": []}
    own, other = _recorder(seen["own"]), _recorder(seen["other"])
    try:
        lines = [f"http://127.0.0.1:{own[1]}/x", f"http://127.0.0.1:{other[1]}/x"]
        (tmp_path / "urls.txt").write_text("\n".join(lines))
        ended = run(
            *("get", "urls.txt", dest, "--bearer", "hidden", "-H", "X-Key: also", "--header", "Accept: text/x"),
            *("--user-agent", "crawler (me@example.org)", "-q", "--timeout", "20s"),
            *("--credentials-for", f"http://127.0.0.1:{own[1]}", "--allow-private"),
        )
    finally:
        own[0].close()
        other[0].close()

    assert ended.code == 0, ended.err
    assert b"Authorization: Bearer hidden\r\n" in seen["own"][0]
    assert b"X-Key: also\r\n" in seen["own"][0]
    assert b"hidden" not in seen["other"][0]
    assert b"also" not in seen["other"][0]
    assert b"Accept: text/x\r\n" in seen["other"][0]
    assert [b"User-Agent: crawler (me@example.org)\r\n" in heads[0] for heads in seen.values()] == [True, True]


@pytest.mark.parametrize("source", ["urls.txt", "-"])
def test_list_cannot_lead_to_private_addresses(run: Run, dest: Path, tmp_path: Path, source: str) -> None:
    """A list may come from a stranger, so private addresses need --allow-private."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        urls = [
            f"http://{host}:{listener.getsockname()[1]}/x" for host in ("127.0.0.1", "localhost", "[::ffff:7f00:1]")
        ]
        (tmp_path / "urls.txt").write_text("\n".join(urls))

        with (tmp_path / "urls.txt").open("rb") as stdin:
            ended = run("get", source, dest, "--format", "jsonl", stdin=stdin)

        with pytest.raises(BlockingIOError):
            listener.accept()
    assert ended.code == 3, ended.err
    assert "3 listed = 0 fetched + 0 absent + 3 failed" in ended.err
    assert {each.name: each.kind for each in fetchmill.failures(dest)} == dict.fromkeys(urls, "private-address")
    assert "--allow-private" in ended.err


def _recorder(seen: list[bytes]) -> tuple[Any, int]:
    """Starts a listener that records the heads of requests. Returns it and its port."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                seen.append(connection.recv(65536))
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")

    threading.Thread(target=serve, daemon=True).start()
    return listener, listener.getsockname()[1]


def archive(files: dict[str, bytes]) -> bytes:
    """Creates a zip archive."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as opened:
        for name, content in files.items():
            opened.writestr(name, content)
    return made.getvalue()


def test_zip_archive_of_one_file_is_read_as_list(run: Run, tmp_path: Path) -> None:
    """The format follows from the name of the file in the archive, whatever the archive's name."""
    text = "".join(f"{number},site-{number}.test\r\n" for number in range(1, 2000)).encode()
    options = ("--column", "2", "--template", "https://www.{}")
    for name, inside in (("top-1m.csv.zip", "top-1m.csv"), ("download", "a/top.csv"), ("b.zip", "c.csv.gz")):
        content = gzip.compress(text) if inside.endswith(".gz") else text
        (tmp_path / name).write_bytes(archive({inside: content, "__MACOSX/._x": b"\0"}))
        urls, said = urls_in(run, tmp_path / name, *options)
        assert (urls, said) == ([f"https://www.site-{number}.test/" for number in range(1, 2000)], [])


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("two.zip", archive({"a.csv": b"x", "b.csv": b"y"}), "is a zip archive of 2 files (a.csv, b.csv); unpack it"),
        ("none.zip", archive({}), "is a zip archive that contains no files"),
        ("cut.csv.zip", archive({"a.csv": b"http://a.test/\n" * 100})[:60], "is a zip archive that cannot be read"),
        ("book.xlsx", archive({"[Content_Types].xml": b"<x/>", "xl/a.xml": b""}), "save the sheet as CSV"),
        ("urls.txt", b"PAR1\x15\x04", "is not a list of URLs, but Parquet; set --list-format parquet"),
        ("urls.csv", b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n", "is not a list of URLs, but a PDF"),
        ("page.txt", b"<!DOCTYPE html>\n<p>", "is not a list of URLs, but an HTML or XML page"),
        ("urls.json", b'{\n  "urls": ["http://a.test/"]\n}\n', "convert it with jq -c '.FIELD[]' FILE"),
        ("urls.bin", bytes(range(8)) * 9 + bytes(9), "is not a list of URLs, but binary data"),
        ("urls.gz", gzip.compress(b"a" * 257 + b"ustar\x0000"), "is not a list of URLs, but a tar archive"),
        ("urls.7z", b"7z\xbc\xaf\x27\x1c\0\4", "is not a list of URLs, but a 7z archive"),
    ],
    ids=lambda value: value if isinstance(value, str) and " " not in value else "",
)
@pytest.mark.parametrize("command", ["list", "check"])
def test_non_list_file_gets_one_line_error(
    run: Run, tmp_path: Path, command: str, name: str, content: bytes, message: str
) -> None:
    """A file that is not a list is refused, because its lines would become targets by mistake."""
    (tmp_path / name).write_bytes(content)
    ended = run(command, tmp_path / name)
    assert ended.code == 2, ended.err
    assert message in ended.err
    assert len(ended.err.splitlines()) == 1


def events_of(run: Run, listed: Path, *options: object) -> list[dict[str, Any]]:
    """Returns the events of `fetchmill list` for a list."""
    ended = run("list", listed, "--json", *options)
    assert ended.code == 0, ended.err
    return [json.loads(line) for line in ended.out.splitlines()]


def urls_in(run: Run, listed: Path, *options: object) -> tuple[list[str], list[str]]:
    """Returns the URLs of a list, and the messages about it."""
    events = events_of(run, listed, *options)
    urls = [event["url"] for event in events if event["event"] == "target"]
    return urls, [event["message"] for event in events if event["event"] == "notice"]


def test_delimiter_is_detected_or_given(run: Run, tmp_path: Path) -> None:
    """The header shows a delimiter such as a semicolon, a tab or a bar. A URL with a semicolon is not a header."""
    listed = tmp_path / "urls.csv"
    for delimiter in (";", "\t", "|", ","):
        listed.write_text(f'id{delimiter}url\n1{delimiter}"http://a.test/x;y"\n')
        assert urls_in(run, listed) == (["http://a.test/x;y"], [])
    listed.write_text("http://a.test/;x=1\nhttp://b.test/;x=2\n")
    assert urls_in(run, listed)[0] == ["http://a.test/;x=1", "http://b.test/;x=2"]
    listed.write_text("1;http://a.test/\n")
    assert urls_in(run, listed, "--column", "2")[0] == ["http://a.test/"]
    other = tmp_path / "urls.dat"
    other.write_text("url~x\nhttp://a.test/~'b~c'\n")
    assert urls_in(run, other, "--delimiter", "~", "--quote", "'") == (["http://a.test/"], [])
    refused = run("list", tmp_path / "urls.jsonl", "--delimiter", "long")
    assert refused.code == 2
    assert "cannot open the list" in refused.err or "--delimiter must be" in refused.err


def test_quote_in_tsv_loses_no_line(run: Run, tmp_path: Path) -> None:
    """Quotes in TSV are usually plain characters, but TSV with fully quoted fields is read as well."""
    listed = tmp_path / "captions.tsv"
    captions = ["plain", '"Is it dangerous?', "plain", 'he said "no" to me', '"', "plain"]
    lines = [f"http://a.test/{number}\t{caption}\n" for number, caption in enumerate(captions)]
    listed.write_text("url\tcaption\n" + "".join(lines))
    events = events_of(run, listed, "--column", "url", "--keep-columns", "caption")
    assert [event["columns"]["caption"] for event in events if event["event"] == "target"] == captions
    strict = urls_in(run, listed, "--column", "url", "--quote", '"')
    assert len(strict[0]) < len(captions)
    listed.write_text('url\tcaption\nhttp://a.test/1\t"two\nlines ""here"""\nhttp://a.test/2\t"a\tb"\n')
    assert urls_in(run, listed) == (["http://a.test/1", "http://a.test/2"], [])


def test_records_with_wrong_field_count_are_reported(run: Run, tmp_path: Path) -> None:
    """Records with more or fewer fields are reported, and are targets if they have the required columns."""
    listed = tmp_path / "urls.csv"
    listed.write_text("url,a,b\nhttp://a.test/1,x,y\n\nhttp://a.test/2,x, and more,y\nhttp://a.test/3\n")
    urls, said = urls_in(run, listed)
    assert urls == [f"http://a.test/{number}" for number in (1, 2, 3)]
    assert len(said) == 1
    assert "2 records have a different number of fields than the first record (3), starting with line 4 (4)" in said[0]
