"""An S3 Inventory as a source of `fetchmill get` and `fetchmill list`."""

import hashlib
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import fetchmill
from conftest import Ended, wait_for_rows
from fetchmill.testing import S3Store, s3
from independent import read_ledger
from inventories import FORMATS, Inventory, Row

Run = Callable[..., Ended]
Start = Callable[..., "subprocess.Popen[str]"]
Get = Callable[..., Ended]

WHEN = datetime(2026, 1, 1, 10, 0, 0, tzinfo=UTC)
ODD = (
    "plain",
    "a b",
    "a+b",
    "100%",
    "a%20b",
    "caf\N{LATIN SMALL LETTER E WITH ACUTE}/\N{SNOWMAN}",
    "q?x=1#f",
    "x//y",
    "../up",
)
LISTING_FAILED = 4
FINISHED_WITH_FAILURES = 3
USAGE = 2


def row(key: str, body: bytes | None = None, **others: Any) -> Row:  # noqa: ANN401
    """Returns the row of an object with these bytes, or a row with a key only."""
    known: dict[str, Any] = {"Bucket": "bucket", "Key": key, "LastModifiedDate": WHEN, "StorageClass": "STANDARD"}
    if body is not None:
        known |= {"Size": len(body), "ETag": hashlib.md5(body).hexdigest()}  # noqa: S324 - what S3 has
    return known | others


def rows_of(objects: dict[str, bytes]) -> list[Row]:
    """Returns a row for each object."""
    return [row(key, body) for key, body in objects.items()]


def computed(count: int) -> dict[str, bytes]:
    """Returns this many computed objects."""
    return {f"k/{number:05}": f"{number}".encode() for number in range(count)}


@pytest.fixture
def stores() -> Iterator[Callable[..., S3Store]]:
    """Starts stores with arguments of `fetchmill.testing.s3`, and stops them at the end of the test."""
    with ExitStack() as stack:
        yield lambda *arguments, **options: stack.enter_context(s3(*arguments, **options))


def words(store: S3Store, source: Path, dest: Path, *options: str) -> tuple[object, ...]:
    """Returns a function that runs `fetchmill get` for an inventory."""
    return ("get", source, dest, "--endpoint-url", store.url, "--allow-private", *options)


@pytest.fixture
def get(run: Run, environment: dict[str, str]) -> Get:
    """Runs the command against a store."""

    def run_get(store: S3Store, source: Path, dest: Path, *options: str) -> Ended:
        return run(*words(store, source, dest, *options), env=environment | store.environment())

    return run_get


def stored(dest: Path) -> dict[str, bytes]:
    """Returns all stored objects."""
    with fetchmill.open(dest) as objects:
        return dict(objects)


@pytest.mark.parametrize("format", FORMATS)
def test_every_object_is_fetched_under_its_key(
    stores: Callable[..., S3Store], get: Get, tmp_path: Path, dest: Path, format: str
) -> None:
    """Odd keys in all data files are fetched with signed requests, and the store is not listed."""
    objects = {key: key.encode() for key in ODD} | computed(1200)
    rows = rows_of(objects)
    store = stores(objects)
    inventory = Inventory(tmp_path, format, [rows[:5], [], rows[5:]])

    ended = get(store, inventory.manifest, dest, "--format", "jsonl")

    assert ended.code == 0, ended.err
    assert stored(dest) == objects
    assert store.stats()["lists"] == 0


@pytest.mark.parametrize("format", FORMATS)
def test_only_current_versions_are_fetched(
    stores: Callable[..., S3Store], get: Get, tmp_path: Path, dest: Path, format: str
) -> None:
    """Old versions, delete markers and folder markers count as skipped."""
    latest: Row = {"IsLatest": True, "IsDeleteMarker": False, "VersionId": "2"}
    rows = [
        row("a", b"new", **latest),
        row("a", b"old", IsLatest=False, IsDeleteMarker=False, VersionId="1"),
        row("gone", IsLatest=True, IsDeleteMarker=True, VersionId="4"),
        row("gone", b"was", IsLatest=False, IsDeleteMarker=False, VersionId="3"),
        row("folder/", b"", **latest),
    ]
    store = stores({"a": b"new", "gone": b"was", "folder/": b""})

    ended = get(store, Inventory(tmp_path, format, [rows]).manifest, dest, "--format", "jsonl")

    assert ended.code == 0, ended.err
    assert stored(dest) == {"a": b"new"}
    assert read_ledger(dest).skipped == 4


def test_objects_are_compared_with_inventory(
    stores: Callable[..., S3Store], get: Get, tmp_path: Path, dest: Path
) -> None:
    """A replaced object fails (kind `changed`), also by a multipart ETag. A deleted one is absent."""
    rows = [
        row("same", b"1"),
        row("longer", b"22"),
        row("other", b"3"),
        row("parts", b"4", ETag="0" * 32 + "-2"),
        row("gone", b"5"),
    ]
    store = stores({"same": b"1", "longer": b"333", "other": b"4", "parts": b"4"})

    ended = get(store, Inventory(tmp_path, "CSV", [rows]).manifest, dest)

    assert ended.code == FINISHED_WITH_FAILURES, ended.err
    kinds = {failure.name: failure.kind for failure in fetchmill.failures(dest)}
    assert kinds == {"longer": "changed", "other": "changed", "parts": "changed", "gone": "absent"}
    assert stored(dest) == {"same": b"1"}


@pytest.mark.parametrize("format", FORMATS)
def test_list_of_inventory_has_exact_times(run: Run, tmp_path: Path, format: str) -> None:
    """The manifest has exact times, and a column may be kept under its name in the inventory."""
    keys = ODD[:-1]
    rows = [row(key, key.encode(), LastModifiedDate=WHEN.replace(microsecond=500_000)) for key in keys]
    inventory = Inventory(tmp_path, format, [rows])

    ended = run("list", inventory.manifest, "all.parquet", "--keep-columns", "StorageClass")

    assert ended.code == 0, ended.err
    listed = pq.read_table(tmp_path / "all.parquet").to_pylist()
    assert {
        each["name"]: (each["size"], each["etag"], each["last_modified"], each["StorageClass"]) for each in listed
    } == {
        key: (len(key.encode()), hashlib.md5(key.encode()).hexdigest(), WHEN, "STANDARD")  # noqa: S324 - what S3 has
        for key in keys
    }
    assert [each["url"] for each in listed][2:4] == ["s3://bucket/a%2Bb", "s3://bucket/100%25"]


def test_invalid_inventory_rows_fail(stores: Callable[..., S3Store], get: Get, tmp_path: Path, dest: Path) -> None:
    """Each invalid row is named by its line, and all others are fetched."""
    text = (
        '"bucket","fine","2"\n"bucket","100%","2"\n"bucket","x","many"\n"other","x","2"\n"bucket","","2"\n'
        f'"bucket","{"k" * 1025}","2"\n"bucket","%ff","2"\n"bucket"\n"bucket","n%00l","3"\n'
    )
    inventory = Inventory(tmp_path, "CSV", [gzip_of(text)], ("Bucket", "Key", "Size"))

    ended = get(stores({"fine": b"ok"}), inventory.manifest, dest)

    assert ended.code == FINISHED_WITH_FAILURES, ended.err
    failed = {failure.name: (failure.kind, failure.detail) for failure in fetchmill.failures(dest)}
    assert failed.pop("n\0l")[0] == "name"
    place = "of part-0000.csv.gz"
    assert failed == {
        f"line 2 {place}": ("url", "its key has a % that is not followed by two hexadecimal digits"),
        f"line 3 {place}": ("url", "its size is not a number"),
        f"line 4 {place}": ("url", "its bucket is not the bucket of the inventory"),
        f"line 5 {place}": ("url", "it has no key"),
        f"line 6 {place}": ("url", "its key is longer than 1,024 bytes"),
        f"line 7 {place}": ("url", "its key is not UTF-8"),
        f"line 8 {place}": ("url", "it has no key"),
    }
    assert stored(dest) == {"fine": b"ok"}


def gzip_of(text: str) -> bytes:
    """Compresses text like `gzip`."""
    return subprocess.run(["gzip", "-c"], input=text.encode(), capture_output=True, check=True).stdout


@pytest.mark.parametrize("format", FORMATS)
def test_changed_data_file_is_refused(
    stores: Callable[..., S3Store], get: Get, tmp_path: Path, dest: Path, format: str
) -> None:
    """No row of a changed data file is used. With the original file, the same command continues."""
    objects = computed(200)
    rows = rows_of(objects)
    store = stores(objects)
    inventory = Inventory(tmp_path, format, [rows[:100], rows[100:]])
    whole = inventory.data[1].read_bytes()
    inventory.data[1].write_bytes(whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:])

    ended = get(store, inventory.manifest, dest, "--format", "jsonl")
    assert ended.code == LISTING_FAILED, ended.err
    assert str(inventory.data[1]) in ended.err
    assert "MD5" in ended.err
    assert set(stored(dest)) <= set(list(objects)[:100])

    inventory.data[1].write_bytes(whole)
    ended = get(store, inventory.manifest, dest, "--format", "jsonl")
    assert ended.code == 0, ended.err
    assert stored(dest) == objects


def test_truncated_data_file_is_reported(run: Run, tmp_path: Path) -> None:
    """A truncated data file is an error, whether or not manifest.json describes the truncated file."""
    whole = gzip_of("".join(f'"bucket","{key}"\n' for key in computed(5000)))
    known = Inventory(tmp_path / "known", "CSV", [whole[:-100]], ("Bucket", "Key"))
    unknown = Inventory(tmp_path / "unknown", "CSV", [whole], ("Bucket", "Key"))
    unknown.data[0].write_bytes(whole[:-100])

    ended = run("list", known.manifest, "known.csv")
    assert ended.code == LISTING_FAILED, ended.err
    assert str(known.data[0]) in ended.err
    ended = run("list", unknown.manifest, "unknown.csv")
    assert ended.code == USAGE, ended.err
    assert "part-0000.csv.gz" in ended.err
    assert not (tmp_path / "known.csv").exists()
    assert not (tmp_path / "unknown.csv").exists()


def test_data_files_are_found_in_every_download_layout(run: Run, tmp_path: Path) -> None:
    """Data files may be in a copy of the whole bucket, of the inventory's folder, or below manifest.json."""
    inventory = Inventory(tmp_path / "all", "CSV", [rows_of(computed(3))])
    shutil.copytree(inventory.root, tmp_path / "part")
    below = tmp_path / "below"
    shutil.copytree(tmp_path / "all", below, ignore=shutil.ignore_patterns("manifest.json"))
    shutil.copy(inventory.manifest, below / "inventory.json")

    sources = (inventory.manifest, tmp_path / "part/2026-01-01T00-00Z/manifest.json", below / "inventory.json")
    for number, source in enumerate(sources):
        ended = run("list", source, f"{number}.csv", "--list-format", "inventory")
        assert ended.code == 0, ended.err
        assert (tmp_path / f"{number}.csv").read_text().count("s3://bucket/k/") == 3
    inventory.data[0].unlink()
    ended = run("list", inventory.manifest, "missing.csv")
    assert ended.code == USAGE
    assert "part-0000.csv.gz" in ended.err
    assert "aws s3 sync" in ended.err


def test_hostile_manifest_reads_no_other_files(run: Run, tmp_path: Path) -> None:
    """Relative and absolute keys cannot point outside the folder. Each error is one line."""
    inventory = Inventory(tmp_path, "CSV", [rows_of(computed(3))])
    (tmp_path / "secret.csv.gz").write_bytes(inventory.data[0].read_bytes())
    entry = inventory.document["files"][0]

    def refused(**changed: object) -> str:
        original, inventory.document = inventory.document, inventory.document | changed
        inventory.write()
        inventory.document = original
        ended = run("list", inventory.manifest, "m.csv")
        assert ended.code == USAGE, ended.err
        assert len(ended.err.splitlines()) == 1
        assert not (tmp_path / "m.csv.fetchmill").exists()
        return ended.err

    for key in ("../../../../../secret.csv.gz", "reports/../../secret.csv.gz"):
        assert "could point outside the folder" in refused(files=[entry | {"key": key}])
    assert "is missing" in refused(files=[entry | {"key": str(tmp_path / "secret.csv.gz")}])
    assert "names the data file" in refused(files=[entry, entry])
    assert "ORC" in refused(fileFormat="ORC", fileSchema="struct<bucket:string,key:string>")
    assert "has no column key" in refused(fileSchema="Bucket, Size")
    assert "is not a valid bucket name" in refused(sourceBucket="a/../b")
    assert "is not a manifest.json of an S3 Inventory" in refused(files=[entry | {"size": -1}])
    inventory.manifest.write_text("https://a.test/\n")
    assert "is not a manifest.json of an S3 Inventory" in run("list", inventory.manifest, "m.csv").err
    inventory.manifest.write_bytes(b" " * (33 << 20))
    assert "is not a manifest.json of an S3 Inventory" in run("list", inventory.manifest, "m.csv").err


def test_conflicting_inventory_options_are_refused(run: Run, tmp_path: Path) -> None:
    """Column options are refused, because an inventory defines its own columns. It must be a local file."""
    inventory = Inventory(tmp_path, "CSV", [rows_of(computed(3))])

    ended = run("list", inventory.manifest, "m.csv", "--column", "2")
    assert (ended.code, "leave out options" in ended.err) == (USAGE, True), ended.err
    ended = run("get", inventory.manifest, "out", "--hash-column", "Key")
    assert (ended.code, "leave out options" in ended.err) == (USAGE, True), ended.err
    ended = run("list", "s3://bucket/x/manifest.json", "m.csv", "--list-format", "inventory")
    assert (ended.code, "aws s3 sync" in ended.err) == (USAGE, True), ended.err
    ended = run("list", "-", "m.csv", "--list-format", "inventory")
    assert (ended.code, "standard input" in ended.err) == (USAGE, True), ended.err


@pytest.mark.one_in(3)
def test_many_data_files_are_read(run: Run, tmp_path: Path, memory_path: Path) -> None:
    """Ten thousand data files are read one after the other; all but one are links to the same file."""
    inventory = Inventory(memory_path, "CSV", [gzip_of(""), rows_of(computed(3))])
    [empty, last] = inventory.document["files"]
    names = [f"reports/bucket/daily/data/{number:06}.csv.gz" for number in range(10_000)]
    for name in names:
        (memory_path / name).symlink_to(inventory.data[0])
    inventory.document["files"] = [*(empty | {"key": name} for name in names), last]
    inventory.write()

    ended = run("list", inventory.manifest, "m.csv")

    assert ended.code == 0, ended.err
    assert (tmp_path / "m.csv").read_text().count("s3://bucket/k/") == 3


def test_killed_inventory_job_resumes(
    stores: Callable[..., S3Store],
    get: Get,
    start: Start,
    environment: dict[str, str],
    tmp_path: Path,
    dest: Path,
) -> None:
    """After `kill -9`, each object is stored once, and at most a commit window is fetched twice."""
    objects = computed(3000)
    rows = rows_of(objects)
    store = stores(objects, get_latency=0.02)
    inventory = Inventory(tmp_path, "Parquet", [rows[:1000], rows[1000:]])
    options = ("--format", "jsonl", "--commit-window", "100ms", "--concurrency", "32")
    process = start(*words(store, inventory.manifest, dest, *options), env=environment | store.environment())
    while store.stats()["gets"] < 1000:
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait(30)

    ended = get(store, inventory.manifest, dest, *options)

    assert ended.code == 0, ended.err
    assert stored(dest) == objects
    assert read_ledger(dest).fetched == 3000


@pytest.mark.one_in(3)
@pytest.mark.sampled(1)
@pytest.mark.parametrize("format", FORMATS)
def test_killed_inventory_listing_resumes_and_detects_change(
    run: Run, start: Start, tmp_path: Path, format: str
) -> None:
    """The kill hits between data files. Another manifest.json of the same length, or another data file, is refused."""
    count, each = 400_000, 40_000
    inventory = Inventory(tmp_path, format, big_files(format, count, each), ("Bucket", "Key"))
    command = ("list", inventory.manifest, "all.parquet", "--commit-window", "50ms")
    process = start(*command)
    wait_for_rows(tmp_path / "all.parquet", 30_000)
    process.send_signal(signal.SIGKILL)
    process.wait(30)
    assert not (tmp_path / "all.parquet").exists()

    files = inventory.document["files"]
    inventory.document["files"] = [files[1], files[0], *files[2:]]
    inventory.write()
    ended = run(*command)
    assert ended.code == USAGE, ended.err
    assert "has changed since the job started" in ended.err
    inventory.document["files"] = files
    inventory.write()
    last = inventory.data[-1].read_bytes()
    inventory.data[-1].write_bytes(last[::-1])
    assert run(*command).code == LISTING_FAILED
    inventory.data[-1].write_bytes(last)

    ended = run(*command)
    assert ended.code == 0, ended.err
    names = pq.read_table(tmp_path / "all.parquet", columns=["name"])["name"].to_pylist()
    assert sorted(names) == [f"key {number:07}" for number in range(count)]


def big_files(format: str, count: int, each: int) -> list[list[Row] | bytes]:
    """Returns rows of a bucket and its keys, split into data files of the given size."""
    files: list[list[Row] | bytes] = []
    for first in range(0, count, each):
        numbers = range(first, first + each)
        if format == "CSV":
            files.append(gzip_of("".join(f'"bucket","key+{number:07}"\n' for number in numbers)))
        else:
            files.append([{"Bucket": "bucket", "Key": f"key {number:07}"} for number in numbers])
    return files
