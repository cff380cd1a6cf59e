"""A job's stored data is read in place with `fetchmill.open`, `ls`, `cat`, `serve` and Arrow, in any format."""

import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest

import fetchmill
from awkward_names import REFUSED, STORED
from conftest import COMMAND, Ended, folder_in_memory, format_options
from fetchmill.testing import Server, serve, synthetic_body
from foreign import SUFFIXES
from independent import synthetic_name
from raw_server import RawServer, in_turn, mirror, reply

Run = Callable[..., Any]
Raw = Callable[..., RawServer]
Serve = Callable[..., Server]

MIB = 1 << 20
FORMATS = ("files", *SUFFIXES)
# Most servers refuse a request for a name of 1 MiB.
NAMES = [name for name, _ in STORED.values()] + [name for key, name in REFUSED.items() if key != "a-mebibyte"]
BODIES = {
    "body/empty": b"",
    "body/all-bytes": bytes(range(256)) * 5,
    "body/block": b"x" * 512,
    "body/text": "größe 文件 \U0001f600\r\n\u2028\x00".encode(),
    "body/64MiB": random.Random(64).randbytes(64 * MIB),
}
FACTS = ("Content-Type: text/plain", 'ETag: "e"', "Last-Modified: Fri, 13 Feb 2015 12:34:56 GMT")
# Data that a format keeps in addition to name and bytes.
KEEPS_FACTS = {"parquet", "warc", "jsonl"}


def contents(format: str) -> dict[str, bytes]:
    """Returns the stored contents of NAMES and BODIES."""
    refused = set(REFUSED.values()) if format == "files" else set()
    return {name: name.encode() for name in NAMES if name not in refused} | BODIES


def small_shards(format: str) -> dict[str, Any]:
    """Returns the options of a job with several shards."""
    return {} if format == "files" else {"shard_size": 64 << 10, "seal_after": 0.3}


def fetch(source: str, dest: Path, format: str, **more: Any) -> fetchmill.Report:  # noqa: ANN401
    """Runs a job in this process."""
    options: dict[str, Any] = {"format": format, **more}
    return fetchmill.get(source, dest, **options)


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Path]]:
    """Destinations with the contents above, by format; each is created on first use."""
    disk = tmp_path_factory.mktemp("stores")
    scripted = {name: reply(name.encode(), *FACTS) for name in NAMES} | {n: reply(b, *FACTS) for n, b in BODIES.items()}
    with folder_in_memory(disk) as folder, RawServer(mirror([*NAMES, *BODIES], scripted)) as origin:

        def make(format: str) -> Path:
            dest = folder / format
            if not dest.exists():
                fetch(origin.url, dest, format, **small_shards(format))
            return dest

        yield make
    shutil.rmtree(disk)


@pytest.fixture(params=FORMATS)
def format(request: pytest.FixtureRequest) -> str:
    """Returns each format."""
    name: str = request.param
    return name


@pytest.fixture
def store(stores: Callable[[str], Path], format: str) -> Path:
    """Returns a destination in that format, which must not be changed."""
    return stores(format)


def make_packs(dest: Path, format: str, count: int = 300) -> None:
    """Fetches synthetic objects into a few shards."""
    with serve(synthetic=count) as origin:
        fetch(origin.url, dest, format, **small_shards(format))


# --- Python ------------------------------------------------------------------------------------------------------


@pytest.mark.one_in(3)
@pytest.mark.sampled(1)
def test_opened_destination_is_mapping(store: Path, format: str) -> None:
    """An opened destination maps names to bytes."""
    expected = contents(format)
    with fetchmill.open(store) as objects:
        assert objects.format == format
        assert len(objects) == len(expected)
        assert {name: objects[name] for name in expected} == expected
        assert {name: objects.length(name) for name in expected} == {name: len(expected[name]) for name in expected}
        assert sorted(objects) == sorted(expected)
        assert {name: body == expected[name] for name, body in objects.items()} == dict.fromkeys(expected, True)
        assert sorted(map(len, objects.values())) == sorted(map(len, expected.values()))
        assert dict(objects.lengths()) == {name: len(body) for name, body in expected.items()}
        assert [name for name in expected if name not in objects] == []


@pytest.mark.sampled(2)
def test_missing_name_raises_key_error(store: Path) -> None:
    """A path that seems to lead outside is just a name."""
    with fetchmill.open(store) as objects:
        for name in ("nothing", "plain/below", "x", "../files/plain", ".fetchmill/job.sqlite.x", "\udcff", "\ud800"):
            assert name not in objects
            assert objects.get(name) is None
            with pytest.raises(KeyError):
                objects.record(name)
            with pytest.raises(KeyError):
                objects.length(name)


def test_record_has_all_stored_metadata(store: Path, format: str) -> None:
    """A record has everything that the format keeps, with times in UTC."""
    with fetchmill.open(store) as objects:
        record = objects.record("body/all-bytes")

    modified = datetime(2015, 2, 13, 12, 34, 56, tzinfo=UTC)
    assert (record.name, record.body) == ("body/all-bytes", BODIES["body/all-bytes"])
    if format in KEEPS_FACTS:
        assert (record.status, record.content_type, record.etag) == (200, "text/plain", '"e"')
        assert record.last_modified == modified
        assert record.fetched_at is not None
        assert abs(datetime.now(UTC) - record.fetched_at).total_seconds() < 3600
    else:
        assert (record.status, record.content_type, record.etag, record.fetched_at) == (None,) * 4
        assert record.last_modified == (modified if format == "tar" else None)
    assert (record.sequence is None) == (format == "files")
    assert (record.url, record.columns) == (None, {})
    assert hash(record) == hash(replace(record))


def test_names_match_shell_patterns(store: Path) -> None:
    """Patterns work as in a shell, but `*` also matches `/`; a name without wildcards is looked up."""
    with fetchmill.open(store) as objects:
        assert sorted(objects.names("body/*")) == sorted(BODIES)
        assert sorted(objects.names("*64MiB")) == ["body/64MiB"]
        assert list(objects.names("body/empty")) == ["body/empty"]
        assert list(objects.names("body/[xyz]*")) == []


def test_duplicate_name_is_returned_once(raw: Raw, dest: Path, format: str) -> None:
    """Every way to read objects returns the one with the lowest sequence number."""
    names = ["same", "other", "same", *(f"fill-{number}" for number in range(50)), "same", "other"]
    scripted = {name: in_turn(reply(b"first"), reply(b"later")) for name in ("same", "other")}

    fetch(raw(mirror(names, scripted)).url, dest, format, limit=1, threads=1)

    with fetchmill.open(dest) as objects:
        assert len(objects) == 52
        assert len(list(objects)) == 52
        assert (objects["same"], objects["other"]) == (b"first", b"first")
        assert sorted(body for name, body in objects.items() if not name.startswith("fill")) == [b"first", b"first"]
        assert sorted(objects.names("[so]*")) == ["other", "same"]
        assert pa.table(objects).num_rows == 52


@pytest.mark.sampled(3)
def test_non_utf8_names_are_found(raw: Raw, run: Run, run_bytes: Callable[..., bytes], dest: Path, format: str) -> None:
    """Python returns them with surrogates, and `--null` as bytes. JSON listings omit and count them."""
    bodies = {b"latin-\xe9": b"1", b"\xff\xfe": b"2", "größe".encode(): b"3", b"cut-\xc3": b"4"}
    entries = b",".join(b'{"name":"%s","type":"file","mtime":"","size":1}' % name for name in bodies)
    routes = {"/" + "".join(percent(byte) for byte in name): reply(body) for name, body in bodies.items()}
    origin = raw(routes | {"/": reply(b"[%s]" % entries, "Content-Type: application/json")})
    fetch(origin.url, dest, format, listing="autoindex")

    with fetchmill.open(dest) as objects:
        assert {os.fsencode(name): body for name, body in objects.items()} == bodies
        assert sorted(map(os.fsencode, objects)) == sorted(bodies)
        assert objects[os.fsdecode(b"latin-\xe9")] == b"1"
    assert sorted(run("ls", dest).out.splitlines()) == ["\\udcff\\udcfe", "cut-\\udcc3", "größe", "latin-\\udce9"]
    assert b"latin-\xe9\0" in run_bytes("ls", dest, "-0")
    assert run("cat", dest, os.fsdecode(b"cut-\xc3")).out == "4"
    found = [json.loads(line) for line in run("ls", dest, "--json").out.splitlines()]
    assert sorted(bytes.fromhex(each["name_hex"]) for each in found if "name_hex" in each) == [
        name for name in sorted(bodies) if name != "größe".encode()
    ]
    with serve(dest) as again:
        copy = dest.with_name("copy")
        assert fetchmill.get(again.url, copy, format="tar").fetched == 1
        assert again.stats()["unlisted"] == 3


def percent(byte: int) -> str:
    """Percent-encodes a byte of a request target."""
    return chr(byte) if (chr(byte).isalnum() and byte < 128) or byte == ord("-") else f"%{byte:02X}"


@pytest.fixture
def run_bytes(environment: dict[str, str]) -> Callable[..., bytes]:
    """Runs the real command. Returns its standard output as bytes."""

    def run_command(*arguments: object) -> bytes:
        command = [*COMMAND, *map(str, arguments)]
        ended = subprocess.run(command, env=environment, capture_output=True, check=True, timeout=120)
        assert ended.stderr == b""
        return ended.stdout

    return run_command


@pytest.mark.sampled(1)
def test_arrow_stream_is_read_by_other_libraries(store: Path, format: str) -> None:
    """All formats have one schema; pyarrow, Polars and DuckDB read the stream directly."""
    expected = contents(format)
    with fetchmill.open(store) as objects:
        table = pa.table(objects)
        stream = objects.arrow()
        assert pl.DataFrame(stream).height == len(expected)
        counted = duckdb.connect().execute("SELECT count(*), sum(octet_length(body)) FROM stream").fetchall()

    assert counted == [(len(expected), sum(map(len, expected.values())))]
    assert table.column_names == [
        *("sequence", "name", "name_raw", "status", "content_type"),
        *("etag", "last_modified", "fetched_at", "crc32c", "body", "content_encoding"),
    ]
    assert dict(zip(table["name"].to_pylist(), table["body"].to_pylist(), strict=True)) == expected
    sequences = table["sequence"].to_pylist()
    assert (set(sequences) == {-1}) if format == "files" else len(set(sequences)) == len(expected)


@pytest.mark.sampled(1)
def test_sealed_objects_are_readable_while_job_runs(start: Run, server: Serve, dest: Path, format: str) -> None:
    """No object is wrong, and no visible object disappears, even if the job is killed."""
    origin = server(synthetic=20_000, delay=(0.02, 0.06))
    process = start("get", origin.url, dest, *format_options(format), "--commit-window", "50ms", "--concurrency", 64)

    seen: dict[str, bytes] = {}
    deadline = time.monotonic() + 60
    looks = 0
    while len(seen) < 4000 or looks < 5:
        assert time.monotonic() < deadline
        assert process.poll() is None
        if not (dest / ".fetchmill" / "job.sqlite").exists():
            continue
        try:
            objects = fetchmill.open(dest)
        except (fetchmill.UsageError, fetchmill.JournalError):  # still being created
            assert not seen
            continue
        with objects:
            found = dict(objects.items())
            assert set(seen) <= set(found)
            assert set(objects) >= set(found)
            assert [name for name, body in found.items() if body != synthetic_body(name, 100)] == []
            seen, looks = found, looks + 1
    process.send_signal(signal.SIGKILL)
    process.wait()

    with fetchmill.open(dest) as objects:
        assert set(seen) <= set(objects)


@pytest.mark.parametrize("format", SUFFIXES)
def test_sealed_shard_is_readable_before_its_rename(dest: Path, format: str) -> None:
    """Between the sealing transaction and the rename, the shard still has its temporary name."""
    make_packs(dest, format)
    expected = dict(fetchmill.open(dest).items())
    with sqlite3.connect(dest / ".fetchmill/job.sqlite") as journal:
        shards = journal.execute("SELECT number - 1, path, manifest FROM shards").fetchall()
    journal.close()
    for number, path, manifest in shards:
        (dest / f"shard-{number:06}{SUFFIXES[format]}").rename(dest / ".fetchmill/open" / path)
        (dest / f".fetchmill/index/shard-{number:06}.manifest").rename(dest / ".fetchmill/open" / manifest)

    with fetchmill.open(dest) as objects:
        assert dict(objects.items()) == expected
        assert objects[synthetic_name(7)] == synthetic_body(synthetic_name(7), 100)


def test_closed_destination_raises_usage_error(store: Path) -> None:
    """A closed destination raises a UsageError."""
    objects = fetchmill.open(store)
    objects.close()
    objects.close()

    with pytest.raises(fetchmill.UsageError, match="closed"):
        len(objects)


# --- the command -------------------------------------------------------------------------------------------------


def test_ls_lists_names(run: Run, run_bytes: Callable[..., bytes], store: Path, format: str) -> None:
    """Each name has a line with escaped control characters. With -0, names are unchanged."""
    expected = contents(format)

    shown = run("ls", store)

    assert (shown.code, shown.err) == (0, "")
    assert len(shown.out.splitlines()) == shown.out.count("\n") == len(expected)
    assert "l\\nf\n" in shown.out
    assert "\x1b" not in shown.out
    ended = b"".join(name.encode() + b"\0" for name in expected)  # a name in a pack may contain a NUL
    assert sorted(run_bytes("ls", store, "--null").split(b"\0")) == sorted(ended.split(b"\0"))


def test_ls_accepts_patterns(run: Run, store: Path) -> None:
    """Each name is printed once, however many patterns match it; a pattern without a match is reported."""
    shown = run("ls", store, "body/*", "*empty", "nothing*", "plain", "no-such")

    assert sorted(shown.out.splitlines()) == sorted([*BODIES, "plain"])
    assert shown.code == 3
    assert shown.err == "fetchmill: no name matches nothing*\nfetchmill: no name matches no-such\n"


@pytest.mark.sampled(3)
def test_ls_prints_metadata(run: Run, store: Path, format: str) -> None:
    """Values are separated by tabs, or in JSON; values that the format does not keep are `-` or missing."""
    size, status, time_text, name = run("ls", store, "body/al*", "--long").out.rstrip("\n").split("\t")
    (line,) = run("ls", store, "body/all-bytes", "--long", "--json").out.splitlines()
    values = json.loads(line)

    assert (size, name) == ("1280", "body/all-bytes")
    assert (values["name"], values["bytes"]) == ("body/all-bytes", 1280)
    if format in KEEPS_FACTS:
        assert status == "200"
        assert datetime.fromisoformat(time_text).tzinfo == UTC
        assert (values["fetched_at"], values["etag"]) == (time_text, '"e"')
    else:
        assert (status, time_text) == ("-", "-")
    assert run("ls", store, "-0", "--json").code == 2


@pytest.mark.parametrize("name", ["body/empty", "body/text", "body/all-bytes", "l\nf"])
def test_cat_writes_exact_bytes(run_bytes: Callable[..., bytes], store: Path, name: str) -> None:
    """The bytes are unchanged, and nothing else is written."""
    wanted = BODIES.get(name, name.encode())

    assert run_bytes("cat", store, name, name) == wanted * 2


def test_cat_reports_missing_names(run: Run, store: Path) -> None:
    """Each missing name has a line after all other output, and the exit code is 3."""
    shown = run("cat", store, "plain", "no\x1bsuch", "plain")

    assert (shown.code, shown.out) == (3, "plainplain")
    assert shown.err == "fetchmill: no object has the name no\\x1bsuch\n"


def test_ls_and_cat_survive_closed_pipe(store: Path, environment: dict[str, str]) -> None:
    """A reader may close the pipe without an error, as in `fetchmill ls | head`."""
    text = f"{sys.executable} -m fetchmill ls {store} | head -1; echo ${{PIPESTATUS[0]}}"
    command = ["bash", "-c", text]
    shown = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)

    assert shown.stdout.splitlines()[-1] == "0"
    assert shown.stderr == ""


@pytest.mark.parametrize("command", ["ls", "cat", "serve"])
def test_folder_without_objects_is_refused(run: Run, server: Serve, tmp_path: Path, command: str) -> None:
    """The exit code is 2 for a folder without a job, and for a job that only counted."""
    (tmp_path / "folder").mkdir()
    fetchmill.get(server(synthetic=5).url, tmp_path / "null", format="null")
    more = {"ls": (), "cat": ("name",), "serve": ("--port", 0)}[command]

    counted = run(command, "null", *more)
    assert (counted.code, counted.out) == (2, "")
    assert "holds no objects" in counted.err
    if command != "serve":
        assert run(command, "folder", *more).code == 2


def damage(path: Path, position: int) -> None:
    """Flips a bit of a file."""
    with path.open("r+b") as file:
        file.seek(position)
        byte = file.read(1)[0]
        file.seek(position)
        file.write(bytes([byte ^ 4]))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("format", SUFFIXES)
def test_damaged_manifest_is_reported(run: Run, dest: Path, format: str) -> None:
    """The one-line error names the manifest, and the exit code is 10. An existing name is never reported as missing.

    The exception is the header of the table: its 16 bytes repeat the footer, and only `verify` checks them.
    """
    make_packs(dest, format)
    all_names = run("ls", dest, "file-*").out
    told = 0
    (manifest, *_) = sorted((dest / ".fetchmill/index").iterdir())
    for position in range(8, manifest.stat().st_size, max(1, manifest.stat().st_size // 12)):
        whole = manifest.read_bytes()
        damage(manifest, position)
        shown: Ended = run("ls", dest, "file-*")
        manifest.write_bytes(whole)

        if shown.code == 0:
            header = whole.index(b"fmT1")
            assert header <= position < header + 16
            assert shown.out == all_names
            continue
        told += 1
        assert shown.code == 10, position
        assert str(manifest) in shown.err
        assert "fetchmill verify" in shown.err
        assert shown.err.count("\n") == 1
    assert told > 8


@pytest.mark.parametrize("format", SUFFIXES)
def test_damaged_objects_are_reported_and_not_returned(run: Run, dest: Path, format: str) -> None:
    """No damaged byte is returned. A missing shard is reported, too."""
    make_packs(dest, format)
    (shard, *_) = sorted(dest.glob("shard-*[!j]"))
    with fetchmill.open(dest) as objects:
        first, *_ = list(objects)
    shard_size = shard.stat().st_size
    whole = shard.read_bytes()
    messages: list[str] = []
    for position in range(0, shard_size, max(1, shard_size // 40)):
        damage(shard, position)
        with fetchmill.open(dest) as objects:
            try:
                wrong = [name for name, body in objects.items() if body != synthetic_body(name, 100)]
            except fetchmill.JournalError as error:
                messages.append(str(error))
            else:
                assert wrong == []
        shard.write_bytes(whole)
    shard.unlink()
    shown: Ended = run("cat", dest, first)

    assert len(messages) > 5
    assert [text for text in messages if str(shard) not in text or "fetchmill verify" not in text] == []
    assert (shown.code, shown.out) == (10, "")
    assert shown.err.startswith(f"fetchmill: error: {shard} is missing")


# --- a mirror of a mirror ----------------------------------------------------------------------------------------


@pytest.mark.sampled(1)
@pytest.mark.parametrize("other", ["parquet", "tar", "files"])
def test_served_destination_can_be_mirrored(start: Run, store: Path, format: str, tmp_path: Path, other: str) -> None:
    """`serve DEST` returns the origin's names and bytes, whatever the format."""
    process = start("serve", store, "--port", 0, "--page-size", 7)
    url = process.stderr.readline().split("http://")[1].split(",")[0]

    report = fetch(f"http://{url}", tmp_path / "copy", other)

    expected = contents(format) if other != "files" else contents("files")
    assert (report.fetched, report.pending) == (len(expected), 0)
    assert report.listed == len(contents(format))
    with fetchmill.open(tmp_path / "copy") as objects:
        assert {name: body == expected[name] for name, body in objects.items()} == dict.fromkeys(expected, True)


def test_served_listing_continues_from_any_marker(store: Path, format: str) -> None:
    """A marker leads to the same page even in another server, and an unknown marker is refused."""
    with serve(store, page_size=5) as first, serve(store, page_size=5) as second:
        pages: list[str] = []
        marker = None
        while marker is not None or not pages:
            query = f"?next-marker={marker}" if marker else ""
            text, again = (read(f"{each.url}/list{query}") for each in (first, second))
            assert text == again
            pages += json.loads(text)["FileNames"]
            marker = json.loads(text).get("NextMarker")
        status = read_status(f"{first.url}/list?next-marker=nonsense")

    assert sorted(pages) == sorted(contents(format))
    assert status == 400


def read(url: str) -> bytes:
    """Returns the body at a URL."""
    with urllib.request.urlopen(url, timeout=10) as answer:  # noqa: S310 - http, from our own server
        body: bytes = answer.read()
    return body


def read_status(url: str) -> int:
    """Returns the status of a refusal."""
    with pytest.raises(urllib.error.HTTPError) as refused:
        read(url)
    refused.value.close()
    return int(refused.value.code)
