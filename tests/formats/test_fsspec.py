"""A destination as an fsspec file system: the same for any format, and for all readers that use fsspec."""

import errno
import hashlib
import io
import multiprocessing
import os
import pickle
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import fsspec
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from fsspec.implementations.local import LocalFileSystem
from fsspec.tests.abstract import AbstractFixtures, AbstractGetTests

import fetchmill
from awkward_names import REFUSED, STORED
from conftest import folder_in_memory
from fetchmill._destination.object_paths import from_spelling, to_name, to_path
from fetchmill.file_system import FetchmillFileSystem, ObjectFile
from fetchmill.testing import Server, synthetic_body
from foreign import SUFFIXES
from raw_server import RawServer, mirror, reply

FORMATS = ("files", *SUFFIXES)
FACTS = ("Content-Type: text/plain", 'ETag: "e"', "Last-Modified: Fri, 13 Feb 2015 12:34:56 GMT")
MODIFIED = datetime(2015, 2, 13, 12, 34, 56, tzinfo=UTC)
URL = "http://192.0.2.1/a%20b?x=1&y=[2]#part"


def parquet_of(numbers: list[int]) -> bytes:
    """Returns a table as the bytes of a Parquet file."""
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"number": numbers}), sink)
    return bytes(sink.getvalue())


def zip_of(members: dict[str, bytes]) -> bytes:
    """Returns an archive."""
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, body in members.items():
            archive.writestr(name, body)
    return sink.getvalue()


BODIES = {
    "top.csv": b"a,b\n1,2\n3,4\n",
    "empty": b"",
    "year=2025/part.parquet": parquet_of([1, 2, 3]),
    "year=2026/part.parquet": parquet_of([4, 5]),
    "deep/er/x.json": b'{"x": 1}\n{"x": 2}\n',
    "deep/er/y.json": b"{}",
    "deep/z.json": b"[]",
    "archive.zip": zip_of({"a.txt": b"in a zip", "folder/b.txt": b"deeper"}),
    "100%.txt": b"percent",
    "what?.txt": b"question",
    "what1.txt": b"other",
    "[a]*.txt": b"magic",
} | {f"many/{number:03}": b"%03d" % number for number in range(60)}
# Names that cannot be paths unchanged. `files` can hold only those that look like escapes.
AWKWARD = {
    URL: b"a URL",
    "/top.csv": b"not top.csv",
    "//top.csv": b"nor this",
    "top.csv/": b"nor that",
    "top.csv/below": b"below an object",
    "../top.csv": b"outside",
    "deep/../top.csv": b"not top.csv either",
    "deep//z.json": b"two slashes",
    "%empty": b"like an escape",
    "%2E%2E/top.csv": b"another one",
    "": b"no name",
}
ESCAPED = {
    URL: "http:/%empty/192.0.2.1/a%20b?x=1&y=[2]#part",
    "/top.csv": "%empty/top.csv",
    "//top.csv": "%empty/%empty/top.csv",
    "top.csv/": "top.csv/%empty",
    "top.csv/below": "top.csv/below",
    "../top.csv": "%2E%2E/top.csv",
    "deep/../top.csv": "deep/%2E%2E/top.csv",
    "deep//z.json": "deep/%empty/z.json",
    "%empty": "%25empty",
    "%2E%2E/top.csv": "%252E%2E/top.csv",
    "": "%empty",
}


def names_and_bodies(format: str) -> dict[str, bytes]:
    """Returns the contents of a destination in a format, by name."""
    return BODIES | {name: body for name, body in AWKWARD.items() if format != "files" or name.startswith("%")}


def contents(format: str) -> dict[str, bytes]:
    """Returns the same contents by path."""
    return {ESCAPED.get(name, name): body for name, body in names_and_bodies(format).items()}


def fetch(source: str, dest: Path, format: str) -> fetchmill.Report:
    """Runs a job in this process; packs have several shards."""
    more: dict[str, Any] = {} if format == "files" else {"shard_size": 64 << 10, "seal_after": 0.3}
    return fetchmill.get(source, dest, format=format, **more)  # type: ignore[arg-type] # one of FORMATS


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Path]]:
    """Destinations with the contents above, by format; each is created on first use."""
    disk = tmp_path_factory.mktemp("stores")
    with folder_in_memory(disk) as folder:

        def make(format: str) -> Path:
            dest = folder / format
            if not dest.exists():
                bodies = names_and_bodies(format)
                scripted = {name: reply(body, *FACTS) for name, body in bodies.items()}
                with RawServer(mirror([*bodies], scripted)) as origin:
                    assert fetch(origin.url, dest, format).fetched == len(bodies)
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


@pytest.fixture
def fs(store: Path) -> FetchmillFileSystem:
    """Returns this destination as a file system."""
    made = fsspec.filesystem("fetchmill", dest=store)
    assert isinstance(made, FetchmillFileSystem)
    return made


@pytest.fixture
def packed(stores: Callable[[str], Path]) -> FetchmillFileSystem:
    """Returns a tar destination, for tests where the format does not matter."""
    return FetchmillFileSystem(stores("tar"))


# --- one object --------------------------------------------------------------------------------------------------


def test_fsspec_reads_objects_by_path(fs: FetchmillFileSystem, format: str) -> None:
    """Objects are read whole, in slices, and as files."""
    for path, body in contents(format).items():
        assert fs.cat_file(path) == body
        assert (fs.size(path), fs.isfile(path), fs.isdir(path), fs.exists(path)) == (len(body), True, False, True)
        with fs.open(path) as file:
            assert (file.read(), file.size, file.path, file.mode) == (body, len(body), path, "rb")
    csv = BODIES["top.csv"]
    assert (fs.cat_file("top.csv", 4), fs.cat_file("top.csv", -4, -1)) == (csv[4:], csv[-4:-1])
    assert (fs.cat_file("top.csv", 2, 6), fs.cat_file("top.csv", 99)) == (csv[2:6], b"")
    assert (fs.head("top.csv", 3), fs.tail("top.csv", 3)) == (csv[:3], csv[-3:])
    assert fs.read_block("top.csv", 1, 6, delimiter=b"\n") == csv[4:8]
    assert fs.cat(["top.csv", "empty"]) == {"top.csv": csv, "empty": b""}
    with fs.open("top.csv", "rt") as text:
        assert list(text) == ["a,b\n", "1,2\n", "3,4\n"]


def test_fsspec_reads_ranges_of_one_object_in_order(
    packed: FetchmillFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ranges are returned in the requested order."""
    looked: list[str] = []
    read = packed.objects.record

    def look(name: str) -> fetchmill.Object:
        looked.append(name)
        return read(name)

    monkeypatch.setattr(packed.objects, "record", look)

    ranges = packed.cat_ranges(["top.csv", "many/001", "top.csv", "nothing", "top.csv"], [0, 1, 4, 0, -4], None)
    failed = packed.cat_ranges(["nothing", "top.csv"], [0, 0], [1, 1])

    csv = BODIES["top.csv"]
    assert ranges[:3] == [csv, b"01", csv[4:]]
    assert isinstance(ranges[3], FileNotFoundError)
    assert ranges[4] == csv[-4:]
    assert looked[:3] == ["top.csv", "many/001", "nothing"]
    assert (type(failed[0]), failed[1]) == (FileNotFoundError, b"a")
    with pytest.raises(FileNotFoundError):
        packed.cat_ranges(["nothing"], 0, 1, on_error="raise")


def test_fsspec_info_has_all_stored_metadata(fs: FetchmillFileSystem, format: str) -> None:
    """`info` has everything that the format keeps, even for directories."""
    info = fs.info("top.csv")

    assert (info["name"], info["size"], info["type"]) == ("top.csv", 12, "file")
    if format in {"parquet", "warc", "jsonl"}:
        assert (info["status"], info["etag"], info["content_type"]) == (200, '"e"', "text/plain")
    if format == "files":
        assert set(info) == {"name", "size", "type"}
        assert fs.modified("top.csv") == datetime.fromtimestamp(Path(fs.dest).stat().st_mtime, UTC)
    else:
        assert (info["last_modified"], info["mtime"]) == (MODIFIED, MODIFIED.timestamp())
        assert info["crc32c"] == fetchmill.open(fs.dest).record("top.csv").crc32c
        assert fs.modified("top.csv") == MODIFIED
    assert fs.info("deep/er") == {"name": "deep/er", "size": 0, "type": "directory"}
    assert fs.info("")["type"] == "directory"
    assert fs.modified("deep").tzinfo == UTC


def test_fsspec_missing_path_is_not_found(fs: FetchmillFileSystem) -> None:
    """Paths that seem to lead outside, and other spellings of an escape, are not found either."""
    for path in ("nothing", "deep/e", "many/000/x", "../etc/passwd", "%bytes:top.csv", "deep/%252E%2E/top.csv"):
        assert not fs.exists(path)
        assert (fs.isfile(path), fs.isdir(path), fs.find(path), fs.glob(path)) == (False, False, [], [])
        for call in (fs.info, fs.size, fs.cat_file, fs.open, fs.ls):
            with pytest.raises(FileNotFoundError) as caught:
                call(path)
            assert caught.value.errno == errno.ENOENT
    with pytest.raises(FileNotFoundError):
        fs.open("deep")


# --- many objects ------------------------------------------------------------------------------------------------


def test_fsspec_directories_follow_from_slashes_in_names(fs: FetchmillFileSystem, format: str) -> None:
    """`ls`, `find`, `glob`, `walk` and `du` agree about directories."""
    expected = contents(format)

    assert fs.find("") == sorted(expected)
    assert fs.find("deep/er") == ["deep/er/x.json", "deep/er/y.json"]
    assert fs.find("deep", maxdepth=1) == ["deep/z.json"]
    assert fs.find("deep/er", withdirs=True) == ["deep/er", "deep/er/x.json", "deep/er/y.json"]
    assert fs.find("top.csv")[0] == "top.csv"
    assert fs.ls("deep/er/", detail=False) == ["deep/er/x.json", "deep/er/y.json"]
    assert fs.ls("empty") == [{"name": "empty", "size": 0, "type": "file"}]
    first = {path.partition("/")[0] for path in expected}
    assert {entry["name"] for entry in fs.ls("")} == first
    assert fs.glob("deep/**/*.json")[-1] == "deep/z.json"
    assert fs.glob("*/part.parquet") == ["year=2025/part.parquet", "year=2026/part.parquet"]
    assert fs.glob("what?.txt") == ["what1.txt", "what?.txt"]
    walked = {f"{folder}/{name}".strip("/") for folder, _, files in fs.walk("") for name in files}
    assert walked == set(expected)
    assert fs.du("") == sum(map(len, expected.values()))
    assert fs.du("deep", total=False) == {path: len(expected[path]) for path in fs.find("deep")}
    assert [entry["size"] for entry in fs.find("deep/er", detail=True).values()] == [18, 2]


def test_fsspec_walk_can_be_pruned_and_bounded(packed: FetchmillFileSystem) -> None:
    """`walk` can be pruned from the top; from the bottom, the root comes last."""
    seen = []
    for folder, folders, _ in packed.walk("deep"):
        seen.append(folder)
        folders[:] = [name for name in folders if name == "er"]
    assert seen == ["deep", "deep/er"]
    assert [folder for folder, _, _ in packed.walk("", maxdepth=1)] == [""]
    assert [folder for folder, _, _ in packed.walk("year=2025", topdown=False)] == ["year=2025"]
    assert list(packed.walk("nothing")) == []
    with pytest.raises(FileNotFoundError):
        list(packed.walk("nothing", on_error="raise"))


def test_fsspec_reads_object_below_another_object(packed: FetchmillFileSystem) -> None:
    """The object is a file, and names below it are listed as in a directory."""
    assert packed.info("top.csv")["type"] == "file"
    assert [entry["type"] for entry in packed.ls("") if entry["name"] == "top.csv"] == ["directory", "file"]
    assert packed.ls("top.csv", detail=False) == ["top.csv/%empty", "top.csv/below"]
    assert packed.find("top.csv") == ["top.csv", "top.csv/%empty", "top.csv/below"]


def test_fsspec_object_name_is_not_treated_as_pattern(packed: FetchmillFileSystem, tmp_path: Path) -> None:
    """`cat` and `get` use a name verbatim. A name without an object is a pattern."""
    assert packed.cat("what?.txt") == b"question"
    assert packed.cat("[a]*.txt") == b"magic"
    assert packed.cat("[w]hat?.txt") == {"what1.txt": b"other", "what?.txt": b"question"}
    packed.get("what?.txt", str(tmp_path / "renamed"))
    packed.get(URL, f"{tmp_path}/below/")
    assert (tmp_path / "renamed").read_bytes() == b"question"
    assert [path.name for path in (tmp_path / "below").iterdir()] == [URL.rpartition("/")[2]]


@pytest.mark.parametrize("directories_max", [1, 2, 1 << 18])
def test_fsspec_finds_directories_beyond_cache_limit(
    packed: FetchmillFileSystem, monkeypatch: pytest.MonkeyPatch, directories_max: int
) -> None:
    """Directories that are not in the cache are found by reading the names again."""
    monkeypatch.setattr("fetchmill._destination.object_directories._DIRECTORIES_MAX", directories_max)
    folders = {entry["name"] for entry in packed.find("", withdirs=True, detail=True).values() if not entry["size"]}
    for folder in sorted(folders - {"empty"}):
        assert packed.isdir(folder), folder
    assert not packed.isdir("deep/e")


# --- names and paths ---------------------------------------------------------------------------------------------


def test_fsspec_names_and_paths_map_one_to_one() -> None:
    """Each name has one path and each path one name. Escaping a path again does not change it."""
    segments = ["", ".", "..", "a", "%", "%2E", "%2e", "%25", "%empty", "%25empty", "%2E%2E", "%252E", "%bytes:x"]
    segments += ["%bytes:", "%25bytes:\n", "\udcff", "é\udce9%2F", "...", "a b", "\n", "*?[", "%bytes:%FF"]
    names = [*segments, *(f"{one}/{other}" for one in segments for other in segments)]
    names += [f"{one}/a/{other}" for one in segments for other in segments]
    paths = [to_path(name) for name in names]

    assert [to_name(path) for path in paths] == names
    assert len(set(paths)) == len(names)
    assert [from_spelling(path) for path in paths] == paths
    for path in paths:
        path.encode()
        assert not {"", ".", ".."} & set(path.split("/"))
    for spelled in map(from_spelling, names):
        name = to_name(spelled)
        assert name is None or to_path(name) == spelled


def test_fsspec_accepts_unescaped_names(packed: FetchmillFileSystem) -> None:
    """The exceptions are names that end with a slash, fetchmill URLs, and segments that look like an escape."""
    for name, body in AWKWARD.items():
        assert packed.path_of(name) == ESCAPED[name]
        assert packed.name_of(ESCAPED[name]) == name
        if name and not name.endswith("/") and not name.startswith("%"):
            assert packed.cat_file(name) == body
            assert packed.cat_file(f"fetchmill://{name}") == body
            assert packed.name_of(name) == name
    assert packed.cat_file("fetchmill://top.csv") == packed.cat_file("top.csv") == BODIES["top.csv"]
    assert packed.path_of("fetchmill://x") == "fetchmill:/%empty/x"
    with pytest.raises(FileNotFoundError):
        packed.name_of("%bytes:x")


def test_fsspec_awkward_names_cannot_escape_folder(raw: Callable[..., RawServer], dest: Path, tmp_path: Path) -> None:
    """All objects can be read, and copying them into a folder writes nothing outside it."""
    names = [name for name, _ in STORED.values()]
    names += [name for key, name in REFUSED.items() if key != "a-mebibyte"]
    fetch(raw(mirror(names, {name: reply(name.encode()) for name in names})).url, dest, "parquet")
    fs = FetchmillFileSystem(dest)

    assert {fs.name_of(path): fs.cat_file(path).decode() for path in fs.find("")} == dict(
        zip(names, names, strict=True)
    )
    for key, name in REFUSED.items():
        if key.startswith(("traversal", "parent", "dot", "absolute", "slash", "two", "empty")):
            fs.get_file(fs.path_of(name), str(tmp_path / "in" / key / fs.path_of(name)))
    written = {path for path in tmp_path.rglob("*") if path.is_file() and dest not in path.parents}
    assert len(written) >= 14
    assert {path.relative_to(tmp_path).parts[0] for path in written} == {"in"}


def test_fsspec_paths_of_non_utf8_names_are_text(raw: Callable[..., RawServer], dest: Path, format: str) -> None:
    """Readers such as pyarrow can therefore list them. Names with surrogates are accepted, too."""
    names = {b"caf\xe9/a": b"1", b"cut-\xc3": b"2", b"plain": b"3"}
    entries = b",".join(b'{"name":"%s","type":"file","mtime":"","size":1}' % name for name in (b"cut-\xc3", b"plain"))
    folder = b'{"name":"caf\xe9","type":"directory","mtime":""}'
    listing = "Content-Type: application/json"
    inside = reply(b'[{"name":"a","type":"file","mtime":"","size":1}]', listing)
    routes = {"/": reply(b"[%s,%s]" % (entries, folder), listing), "/caf%E9/": inside}
    routes |= {"/caf%E9/a": reply(b"1"), "/cut-%C3": reply(b"2"), "/plain": reply(b"3")}
    fetchmill.get(raw(routes).url, dest, format=format, listing="autoindex")  # type: ignore[arg-type] # one of FORMATS
    fs = FetchmillFileSystem(dest)

    assert fs.find("") == ["%bytes:caf%E9/a", "%bytes:cut-%C3", "plain"]
    assert {os.fsencode(fs.name_of(path)): fs.cat_file(path) for path in fs.find("")} == names
    assert fs.cat_file(os.fsdecode(b"caf\xe9/a")) == b"1"
    selector = pa.fs.FileSelector("", recursive=True)
    found = pa.fs.PyFileSystem(pa.fs.FSSpecHandler(fs)).get_file_info(selector)
    assert sorted(info.path for info in found if info.is_file) == fs.find("")


# --- readers -----------------------------------------------------------------------------------------------------


def test_fsspec_url_or_option_names_destination(store: Path) -> None:
    """The destination can be an option, or the last part of a chained URL."""
    with fsspec.open("fetchmill://top.csv", dest=store) as file:
        assert file.read() == BODIES["top.csv"]
    with fsspec.open(f"fetchmill://deep/z.json::{store}") as file:
        assert file.read() == b"[]"
    with fsspec.open("zip://a.txt::fetchmill://archive.zip", fetchmill={"dest": store}) as file:
        assert file.read() == b"in a zip"
    with fsspec.open(f"zip://folder/b.txt::fetchmill://archive.zip::file://{store}") as file:
        assert file.read() == b"deeper"
    made, path = fsspec.url_to_fs(f"fetchmill://deep/er::{store}")
    assert (made.find(path), made.dest) == (["deep/er/x.json", "deep/er/y.json"], str(store))
    assert fsspec.get_mapper("fetchmill://deep", dest=store)["er/y.json"] == b"{}"


def test_pandas_pyarrow_and_duckdb_read_through_fsspec(fs: FetchmillFileSystem, store: Path) -> None:
    """The libraries read single files and a partitioned table."""
    frame = pd.read_csv("fetchmill://top.csv", storage_options={"dest": str(store)})
    assert frame["b"].tolist() == [2, 4]
    lines = pd.read_json("fetchmill://deep/er/x.json", lines=True, storage_options={"dest": str(store)})
    assert lines["x"].tolist() == [1, 2]
    assert pq.read_table("year=2025/part.parquet", filesystem=fs)["number"].to_pylist() == [1, 2, 3]
    parts = ds.dataset(["year=2025/part.parquet", "year=2026/part.parquet"], filesystem=fs, partitioning="hive")
    table = parts.to_table().sort_by("number").to_pydict()
    assert table == {"number": [1, 2, 3, 4, 5], "year": [2025, 2025, 2025, 2026, 2026]}
    assert ds.dataset("year=2026", filesystem=fs).count_rows() == 2
    with duckdb.connect() as connection:
        connection.register_filesystem(fs)
        query = "SELECT sum(number) FROM read_parquet('fetchmill://*/part.parquet')"
        assert connection.execute(query).fetchall() == [(15,)]


def test_threads_can_share_fsspec_file_system(fs: FetchmillFileSystem, format: str) -> None:
    """Threads that share a file system get correct results."""
    expected = contents(format)

    def look(number: int) -> bool:
        paths = list(expected)[number % 7 :: 3]
        fs.invalidate_cache()
        right = all(fs.cat_file(path) == expected[path] for path in paths)
        return right and fs.isdir("deep/er") and not fs.exists("nothing") and fs.find("") == sorted(expected)

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(look, range(24))) == [True] * 24


def read_elsewhere(pickled: bytes) -> tuple[bytes, bytes, bool]:
    """Reads in another process with another working folder."""
    os.chdir("/")
    fs, file = pickle.loads(pickled)  # noqa: S301 - our own
    return fs.cat_file("many/007"), file.read(), fs == FetchmillFileSystem(fs.dest)


def test_fsspec_file_system_can_be_pickled(packed: FetchmillFileSystem, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pickle has the path of the destination and, for an open file, its position."""
    store = Path(packed.dest)
    monkeypatch.chdir(store.parent)
    fs = fsspec.filesystem("fetchmill", dest=store.name)
    file = fs.open("archive.zip")
    file.seek(10)

    pickled = pickle.dumps((fs, file))

    assert len(pickled) < 500
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(read_elsewhere, (pickled,)) == (b"007", BODIES["archive.zip"][10:], True)
    assert (fs, hash(fs)) == (FetchmillFileSystem(store), hash(FetchmillFileSystem(store)))


# --- errors ------------------------------------------------------------------------------------------------------


def test_fsspec_refuses_every_write(packed: FetchmillFileSystem, tmp_path: Path) -> None:
    """Every write raises the same error and changes nothing."""
    local = tmp_path / "local"
    local.write_bytes(b"x")
    before = sorted((path, path.stat().st_mtime_ns) for path in Path(packed.dest).rglob("*"))
    attempts: list[Callable[[], object]] = [
        *(lambda mode=mode: packed.open("new", mode) for mode in ("wb", "ab", "xb", "r+b", "w")),
        *(lambda call=call: call("top.csv") for call in (packed.rm, packed.rm_file, packed.touch, packed.delete)),
        *(lambda call=call: call("new") for call in (packed.mkdir, packed.makedirs, packed.mkdirs, packed.rmdir)),
        *(lambda call=call: call("top.csv", "new") for call in (packed.mv, packed.cp_file, packed.copy, packed.rename)),
        lambda: packed.pipe("new", b"x"),
        lambda: packed.pipe({"new": b"x"}),
        lambda: packed.write_text("new", "x"),
        lambda: packed.put(str(local), "new"),
        lambda: packed.put_file(str(local), "new"),
    ]
    for attempt in attempts:
        with pytest.raises(OSError, match="is read-only, because only fetchmill writes to it") as caught:
            attempt()
        assert caught.value.errno == errno.EROFS
    file = packed.open("top.csv")
    assert isinstance(file, ObjectFile)
    assert not file.writable()
    writes: list[Callable[[], object]] = [lambda: file.write(b"x"), lambda: file.writelines([b"x"]), file.truncate]
    for write in writes:
        with pytest.raises(io.UnsupportedOperation):
            write()
    assert sorted((path, path.stat().st_mtime_ns) for path in Path(packed.dest).rglob("*")) == before


@pytest.mark.parametrize("format", SUFFIXES)
def test_fsspec_damage_raises_os_error_naming_object(
    stores: Callable[[str], Path], tmp_path: Path, format: str
) -> None:
    """Damage to a shard or manifest raises an OSError with the object, which is not reported as missing."""
    dest = tmp_path / "damaged"
    shutil.copytree(stores(format), dest)
    for shard in dest.glob("shard-*[!j]"):
        shard.write_bytes(bytes(byte ^ 0x55 for byte in shard.read_bytes()))
    fs = FetchmillFileSystem(dest)
    reads: list[Callable[[str], object]] = [fs.cat_file, fs.open, fs.info]
    for call in reads:
        with pytest.raises(OSError, match=r"many/007|shard-\d+") as caught:
            call("many/007")
        assert (caught.value.errno, caught.value.filename) == (errno.EIO, "many/007")
        assert isinstance(caught.value.__cause__, fetchmill.JournalError | fetchmill.StorageError)
    assert fs.exists("many/007")

    for manifest in (dest / ".fetchmill/index").iterdir():
        manifest.write_bytes(bytes(byte ^ 0x55 for byte in manifest.read_bytes()))
    fs = FetchmillFileSystem(dest)
    calls: list[Callable[[str], object]] = [fs.cat_file, fs.exists, fs.isfile, fs.isdir, fs.ls, fs.find, fs.du]
    calls += [lambda path: list(fs.walk(path)), lambda path: fs.glob(path + "/*")]
    for call in calls:
        for _ in range(2):  # also when it is called again
            with pytest.raises(OSError, match="manifest") as caught:
                call("many")
            assert caught.value.errno == errno.EIO


def test_fsspec_reads_sealed_part_of_running_job(
    start: Callable[..., Any], server: Callable[..., Server], dest: Path
) -> None:
    """`invalidate_cache` shows objects that were sealed later."""
    origin = server(synthetic=20_000, delay=(0.02, 0.06))
    options = ("--format", "tar", "--shard-size", "64KiB", "--commit-window", "50ms", "--concurrency", 64)
    process = start("get", origin.url, dest, *options)
    while not list(dest.glob("shard-*")):
        assert process.poll() is None
    fs = FetchmillFileSystem(dest)

    counts = []
    for _ in range(5):
        found = fs.find("", detail=True)
        assert all(fs.cat_file(path) == synthetic_body(path, 100) for path in list(found)[:200])
        counts.append(len(found))
        shards = len(list(dest.glob("shard-*")))
        assert fs.find("") == list(found)
        while len(list(dest.glob("shard-*"))) <= shards:
            assert process.poll() is None
        fs.invalidate_cache()
    process.kill()
    process.wait()

    assert counts[0] > 0
    assert counts == sorted(set(counts))


def test_fsspec_destination_must_be_named_and_local(packed: FetchmillFileSystem, tmp_path: Path) -> None:
    """The UsageError, which is also a ValueError, has one line."""
    with pytest.raises(fetchmill.UsageError, match="give one destination"):
        fsspec.filesystem("fetchmill")
    with pytest.raises(fetchmill.UsageError, match="give one destination"):
        fsspec.open(f"fetchmill://a::{packed.dest}", dest=packed.dest).open()
    with pytest.raises(fetchmill.UsageError, match="a local path"):
        fsspec.filesystem("fetchmill", dest="s3://bucket/prefix")
    with pytest.raises(fetchmill.UsageError, match="a local path"):
        fsspec.open("fetchmill://a::memory://out").open()
    with pytest.raises(fetchmill.UsageError, match="no fetchmill job"):
        fsspec.filesystem("fetchmill", dest=tmp_path)


def test_package_works_without_fsspec() -> None:
    """The module that needs fsspec says in one line what to install."""
    program = (
        "import sys, fetchmill; fetchmill.open; print('fsspec' in sys.modules)\n"
        "sys.modules['fsspec'] = None\n"
        "import fetchmill.file_system"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert (ended.returncode, ended.stdout) == (1, "False\n")
    assert ended.stderr.splitlines()[-1] == (
        "ModuleNotFoundError: fetchmill.file_system requires the library fsspec, which is not installed: "
        "pip install 'fetchmill[fsspec]'"
    )
    assert "During handling" not in ended.stderr


# --- fsspec's own tests of `get` -----------------------------------------------------------------------------------

SCENARIOS = {
    "bulk": ("file1", "file2", "subdir/nesteddir/nestedfile", "subdir/subfile1", "subdir/subfile2"),
    "glob": (
        *("file1", "file2", "subdir0/subfile1", "subdir0/subfile2", "subdir0/nesteddir/nestedfile"),
        *("subdir1/subfile1", "subdir1/subfile2", "subdir1/nesteddir/nestedfile"),
    ),
    "prefix": ("subdir.txt", "subdir/subfile.txt"),
}


@pytest.fixture(scope="module")
def scenarios(tmp_path_factory: pytest.TempPathFactory) -> FetchmillFileSystem:
    """Returns all trees in one destination."""
    bodies = {f"{name}/source/{path}": b"" for name, paths in SCENARIOS.items() for path in paths}
    for number in range(10):
        hashed = hashlib.md5(str(number).encode(), usedforsecurity=False).hexdigest()
        bodies[f"hashed/source/{hashed}.txt"] = str(number).encode()
    dest = tmp_path_factory.mktemp("scenarios") / "out"
    with RawServer(mirror([*bodies], {name: reply(body) for name, body in bodies.items()})) as origin:
        fetch(origin.url, dest, "tar")
    return FetchmillFileSystem(dest)


class TestGet(AbstractFixtures, AbstractGetTests):  # type: ignore[misc] # fsspec has no types
    """fsspec's tests of `get`, with trees that are fetched instead of written."""

    test_get_directory_recursive = None  # writes its own tree

    @pytest.fixture
    def fs(self, scenarios: FetchmillFileSystem) -> FetchmillFileSystem:
        """Returns the file system under test."""
        return scenarios

    @pytest.fixture
    def fs_path(self) -> str:
        """Not used, because each tree has its own path."""
        return ""

    @pytest.fixture
    def fs_bulk_operations_scenario_0(self) -> str:
        """Returns a tree."""
        return "bulk/source"

    @pytest.fixture
    def fs_glob_edge_cases_files(self) -> str:
        """Returns a tree."""
        return "glob/source"

    @pytest.fixture
    def fs_dir_and_file_with_same_name_prefix(self) -> str:
        """Returns a tree."""
        return "prefix/source"

    @pytest.fixture
    def fs_10_files_with_hashed_names(self) -> str:
        """Returns a tree."""
        return "hashed/source"

    @pytest.fixture
    def supports_empty_directories(self) -> bool:
        """Returns False: a directory exists only through the names below it."""
        return False

    @pytest.fixture
    def local_fs(self) -> LocalFileSystem:
        """Overrides fsspec's method, which is marked in a way that pytest does not accept."""
        return LocalFileSystem(auto_mkdir=True)
