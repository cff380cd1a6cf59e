"""Lists of several files, JSON arrays, and wrong columns."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fetchmill
from fetchmill.testing import Server, synthetic_body
from lists import FORMATS, encode
from stored import find_wrong

Run = Callable[..., Any]
Serve = Callable[..., Server]


def urls_of(source: Server, count: int) -> list[str]:
    """Returns the URLs of the first objects of a synthetic server."""
    return [f"{source.url}/get/file-{index:012}" for index in range(count)]


def bodies_of(urls: list[str]) -> dict[str, bytes]:
    """Returns the expected body of each URL."""
    return {url: synthetic_body(url.rsplit("/", 1)[1], 100) for url in urls}


def rows_of(urls: list[str]) -> list[dict[str, str]]:
    """Returns rows with one column before and one after the URL."""
    return [{"id": url[-4:], "url": url, "note": f'a "quoted",\nnote {url[-4:]}'} for url in urls]


def write_parts(folder: Path, urls: list[str], format: str, count: int = 3) -> Path:
    """Writes list files as Spark does, with its marker files."""
    folder.mkdir()
    for part in range(count):
        (folder / f"part-{part:05}.{format}").write_bytes(encode(format, rows_of(urls[part::count])))
        (folder / f".part-{part:05}.{format}.crc").write_bytes(b"\0\1")
    (folder / "_SUCCESS").touch()
    return folder


@pytest.mark.parametrize("format", FORMATS)
def test_folder_or_glob_is_one_list(run: Run, server: Serve, tmp_path: Path, format: str) -> None:
    """`get`, `list` and `check` take each URL of the files once, in every format."""
    urls = urls_of(server(synthetic=600), 600)
    parts = write_parts(tmp_path / "parts", urls, format)
    column = ["--column", "url"] if format in ("csv", "tsv") else []

    for source, dest in ((parts, tmp_path / "a"), (parts / f"part-*.{format}", tmp_path / "b")):
        ended = run("get", source, dest, "--allow-private", "--format", "jsonl", *column)
        assert ended.code == 0, ended.err
        assert find_wrong(dest, "jsonl", bodies_of(urls)) == []
    checked = run("check", parts, tmp_path / "rows.csv", "--allow-private", *column)

    assert checked.code == 0, checked.err
    assert len((tmp_path / "rows.csv").read_text().splitlines()) == 601
    report = fetchmill.get(parts, tmp_path / "c", allow_private=True, format="tar", column="url" if column else None)
    assert report.fetched == 600


def test_list_files_of_different_kinds_are_refused(run: Run, tmp_path: Path) -> None:
    """The error comes before any request, and before the destination exists."""
    for name, files, message in (
        ("formats", {"a.csv": b"url\n", "b.jsonl": b"{}\n"}, r"different formats \(a.csv and b.jsonl\)"),
        ("columns", {"a.csv": b"url,x\n", "b.csv": b"x,url\n"}, r"different columns \(a.csv: url, x; b.csv: x, url\)"),
        ("missing", {"a.csv": b"url,x\n", "b.csv": b"x,link\n"}, r"b.csv has no column url"),
        ("nothing", {"_SUCCESS": b"", ".a.csv": b""}, "no file found"),
        ("inventory", {"manifest.json": b"{}"}, "give the path of that file"),
    ):
        folder = tmp_path / name
        folder.mkdir()
        for file, content in files.items():
            (folder / file).write_bytes(content)
        ended = run("get", folder, tmp_path / "out", "--column", "url")
        assert ended.code == 2, ended.err
        assert re.search(message, ended.err), ended.err
        assert not (tmp_path / "out").exists()
    ended = run("get", tmp_path / "*.none", tmp_path / "out")
    assert (ended.code, "no file found" in ended.err) == (2, True), ended.err


def test_changed_list_files_are_refused_on_resume(run: Run, server: Serve, dest: Path, tmp_path: Path) -> None:
    """Added, renamed or changed files are refused. The original list completes the job."""
    urls = urls_of(server(synthetic=300), 300)
    gone = [f"http://127.0.0.1:9/{number}" for number in range(3)]
    parts = write_parts(tmp_path / "parts", [*urls, *gone], "txt")
    command = ("get", parts, dest, "--allow-private", "--format", "jsonl")
    begun = run(*command, "--max-failed", 0, "--attempts", 1, "-j", 1)
    assert begun.code == 8, begun.err

    second = parts / "part-00001.txt"
    extra = parts / "part-00009.txt"
    extra.write_text("http://127.0.0.1:9/x\n")
    assert "3 files then, 4 now" in run(*command).err
    extra.unlink()
    second.rename(parts / "part-00008.txt")
    assert "3 files then, 3 now, or with different names" in run(*command).err
    (parts / "part-00008.txt").rename(second)
    first = parts / "part-00000.txt"
    text = first.read_text()
    first.write_text(text + "\n")
    ended = run(*command)
    assert (ended.code, "changed since the job started" in ended.err) == (2, True), ended.err
    first.write_text(text)
    ended = run(*command, "--attempts", 1)
    assert ended.code == 3, ended.err
    assert "300 fetched" in ended.err


def test_json_array_is_read_as_list(run: Run, server: Serve, tmp_path: Path) -> None:
    """A JSON array has strings or objects, pretty-printed or not. A truncated array is an error of the listing."""
    urls = urls_of(server(synthetic=50), 50)
    rows = [{"id": number, "link": url} for number, url in enumerate(urls)]
    for number, (text, options) in enumerate(
        (
            (json.dumps(urls), []),
            (json.dumps(rows, indent=2), ["--column", "link"]),
            ("".join(json.dumps(row) + "\n" for row in rows), ["--column", "link"]),
        )
    ):
        (tmp_path / "urls.json").write_text(text)
        ended = run("get", "urls.json", tmp_path / str(number), "--allow-private", "--format", "jsonl", *options)
        assert ended.code == 0, ended.err
        assert find_wrong(tmp_path / str(number), "jsonl", bodies_of(urls)) == []
    for text, code, message in (
        (json.dumps([urls[0], 7]), 3, "failed: url 1"),
        (json.dumps(urls)[:-30], 4, "its array is not closed"),
        (json.dumps({"urls": urls}, indent=1), 2, "one JSON object, not an array"),
    ):
        (tmp_path / "odd.json").write_text(text)
        ended = run("get", "odd.json", tmp_path / f"odd-{code}", "--allow-private", "--format", "jsonl")
        assert (ended.code, message in ended.err) == (code, True), ended.err


@pytest.mark.parametrize("format", ["csv", "jsonl", "parquet"])
def test_wrong_column_error_shows_existing_names(run: Run, tmp_path: Path, format: str) -> None:
    """A wrong column is refused before any request, and the error has the existing names."""
    path = tmp_path / f"list.{format}"
    path.write_bytes(encode(format, [{"id": "1", "url": "http://127.0.0.1:9/"}]))
    wrong = [("--column", "link"), ("--column", "url", "--keep-columns", "nosuch")]
    wrong += [] if format == "jsonl" else [("--column", "3"), ("--column", "2", "--keep-columns", "9")]
    for options in wrong:
        ended = run("get", path, tmp_path / "out", "--allow-private", "--format", "parquet", *options)
        assert ended.code == 2, ended.err
        assert re.search(rf"has no column {options[-1]} \(.*\bid\b.*\burl\b", ended.err), ended.err
        assert "attempts" not in ended.err


def test_bare_domains_get_template_hint(run: Run, tmp_path: Path) -> None:
    """Failed lines with a bare domain get the hint, also with a port or a path."""
    (tmp_path / "urls.txt").write_text("example.com\nexample.com:8080/a\nlocalhost:80\n")

    run("get", "urls.txt", tmp_path / "out")
    ended = run("status", tmp_path / "out", "--failures")

    assert ended.out.count("add --template 'https://{}'") == 3, ended.out


@pytest.mark.parametrize("compression", ["brotli", "gzip", "lz4"])
def test_parquet_of_any_compression_is_read(run: Run, server: Serve, dest: Path, compression: str) -> None:
    """Parquet with any compression of pandas and pyarrow is read."""
    urls = urls_of(server(synthetic=50), 50)
    path = dest.parent / "list.parquet"
    pq.write_table(pa.table({"url": urls}), path, compression=compression)

    ended = run("get", path, dest, "--allow-private", "--format", "jsonl")

    assert ended.code == 0, ended.err
    assert find_wrong(dest, "jsonl", bodies_of(urls)) == []


def test_sparse_column_is_kept(run: Run, server: Serve, tmp_path: Path) -> None:
    """A column that few rows have is kept, even if a file of the list lacks it, and in a shared job.

    Unknown names are refused.
    """
    urls = urls_of(server(synthetic=3000), 3000)
    rows = [{"url": url} | ({"caption": f"of {url}"} if number == 2400 else {}) for number, url in enumerate(urls)]
    parts = tmp_path / "parts"
    parts.mkdir()
    for name, part in (("parts/0.jsonl", rows[:2500]), ("parts/1.jsonl", rows[2500:]), ("all.jsonl", rows)):
        (tmp_path / name).write_text("".join(f"{json.dumps(row)}\n" for row in part))
    options = ("--format", "jsonl", "--allow-private")

    for source, more in (("all.jsonl", ()), ("parts", ()), ("all.jsonl", ("--shared",)), ("parts", ("--shared",))):
        dest = tmp_path / f"{source}{len(more)}"
        ended = run("get", tmp_path / source, dest, *options, "--keep-columns", "caption", *more)
        assert ended.code == 0, ended.err
        with fetchmill.open(dest) as objects:
            found = {name: objects.record(name).columns for name in objects}
        assert found == {row["url"]: {"caption": row.get("caption")} for row in rows}
    for more in ((), ("--shared",)):
        ended = run("get", tmp_path / "all.jsonl", tmp_path / "none", *options, "--keep-columns", "capton", *more)
        assert ended.code == 2, ended.err
        assert "has no column capton" in ended.err
        assert "caption, url" in ended.err
        assert not (tmp_path / "none" / "job.json").exists()
