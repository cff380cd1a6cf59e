"""Shared jobs with inventories or manifests: ranges follow the files, and the result equals a job on one machine."""

import hashlib
import json
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest

import fetchmill
import fetchmill.shared_jobs
from conftest import Ended
from fetchmill._native import ListTargets
from fetchmill._options.get import GetOptions
from fetchmill._shared import ranges
from fetchmill._shared.creation import files_of
from fetchmill._shared.feeding import make_feed
from fetchmill._shared.ranges import first_ranges
from fetchmill.testing import S3Store, Server, s3
from inventories import FORMATS, Inventory, Row
from shared_jobs import final_rows

Run = Callable[..., Ended]
Start = Callable[..., "subprocess.Popen[str]"]

LISTING_FAILED = 4
WHEN = datetime(2026, 1, 1, tzinfo=UTC)
SHARED = ("--shared", "--lease", "2s", "--allow-private", "--format", "jsonl")


def objects_of(count: int) -> dict[str, bytes]:
    """Returns objects, some of whose keys need encoding in URLs."""
    odd = ("a b+%", "größe/ß", "?q=1#f", "x//y")
    return {key: key.encode() for key in (*odd, *(f"k/{number:05}" for number in range(count - len(odd))))}


def rows_of(objects: dict[str, bytes]) -> list[Row]:
    """Returns a row for each object, an old version, and a folder marker."""
    rows: list[Row] = [
        {"Bucket": "bucket", "Key": key, "Size": len(body), "ETag": hashlib.md5(body).hexdigest()}  # noqa: S324
        | {"LastModifiedDate": WHEN, "IsLatest": True, "StorageClass": "STANDARD"}
        for key, body in objects.items()
    ]
    return [*rows, dict(rows[0]) | {"IsLatest": False}, dict(rows[0]) | {"Key": "folder/", "Size": 0}]


def thirds(objects: dict[str, bytes]) -> list[list[Row]]:
    """Returns the rows, divided into three data files."""
    rows = rows_of(objects)
    return [rows[0::3], rows[1::3], rows[2::3]]


@pytest.fixture
def objects() -> dict[str, bytes]:
    """Returns the objects of the bucket."""
    return objects_of(300)


@pytest.fixture
def store(objects: dict[str, bytes]) -> Iterator[S3Store]:
    """Starts a store with the objects."""
    with s3(objects) as store:
        yield store


def stored(job: Path) -> dict[str, bytes]:
    """Returns all stored objects."""
    with fetchmill.open(job) as found:
        return dict(found)


@pytest.mark.parametrize("format", FORMATS)
def test_inventory_data_files_are_divided_among_workers(
    format: str,
    objects: dict[str, bytes],
    store: S3Store,
    run: Run,
    start: Start,
    environment: dict[str, str],
    tmp_path: Path,
    dest: Path,
) -> None:
    """Objects, counts and kept columns equal those of a job on one machine. The bucket is not listed."""
    inventory = Inventory(tmp_path / "reports", format, thirds(objects))
    env = environment | store.environment()
    column = "StorageClass" if format == "CSV" else "storage_class"
    options = ("--endpoint-url", store.url, "--keep-columns", column, "--exclude", "*7")
    command = ("get", inventory.manifest, dest, *SHARED, *options)
    workers = [start(*command, env=env) for _ in range(2)]

    assert [worker.wait(60) for worker in workers] == [0, 0]

    assert stored(dest) == {key: body for key, body in objects.items() if key[-1] != "7"}
    record = json.loads((dest / "job.json").read_text())
    assert [file["path"] for file in record["files"]] == [str(path) for path in inventory.data]
    assert len(list((dest / "commits").iterdir())) == 3
    single = run("get", inventory.manifest, dest.parent / "single", *SHARED[3:], *options, env=env)
    assert single.code == 0, single.err
    status = fetchmill.shared_jobs.status(dest)
    expected = fetchmill.status(dest.parent / "single")
    assert (status.ledger["listed"], dict(status.skipped_by)) == (expected.listed, dict(expected.skipped_by))
    lines = [json.loads(line) for path in (dest / "data").glob("*/*.jsonl") for line in path.read_text().splitlines()]
    assert {line["columns"][column] for line in lines} == {"STANDARD"}
    assert store.stats()["lists"] == 0
    assert run("verify", dest).code == 0


@pytest.mark.parametrize("format", FORMATS)
def test_ending_worker_releases_rest_of_data_file(
    format: str, run: Run, start: Start, environment: dict[str, str], tmp_path: Path, dest: Path
) -> None:
    """A Parquet file is split after the fetched rows. A CSV file remains one range."""
    objects = objects_of(600)
    with s3(objects, get_latency=0.02) as store:
        env = environment | store.environment()
        inventory = Inventory(tmp_path / "reports", format, [rows_of(objects)])
        options = ("--endpoint-url", store.url, "-j", "8", "--threads", "1")
        first = start("get", inventory.manifest, dest, *SHARED, *options, env=env)
        while store.stats()["gets"] < 50:
            assert first.poll() is None
            time.sleep(0.01)
        first.send_signal(signal.SIGTERM)
        assert first.wait(60) == 128 + signal.SIGTERM
        rests = [rest for path in (dest / "commits").glob("*") for rest in json.loads(path.read_text())["rest"]]

        ended = run("join", dest, "--endpoint-url", store.url, env=env)

        assert ended.code == 0, ended.err
        assert store.stats()["gets"] < 2 * len(objects)
    assert bool(rests) == (format == "Parquet")
    assert stored(dest) == objects
    assert fetchmill.shared_jobs.status(dest).ledger["fetched"] == len(objects)
    assert run("verify", dest).code == 0


@pytest.mark.parametrize("format", FORMATS)
def test_inventory_ranges_cover_all_rows_once(
    format: str, monkeypatch: pytest.MonkeyPatch, objects: dict[str, bytes], tmp_path: Path
) -> None:
    """A Parquet data file has several ranges, and a CSV data file has only one."""
    monkeypatch.setattr(ranges, "_ROWS_MIN", 7)
    inventory = Inventory(tmp_path, format, thirds(objects))
    options = GetOptions(source=inventory.manifest, dest="out", format="jsonl")
    list_format, files = files_of(options)

    urls = []
    for each in (found := list(first_ranges(files))):
        urls += read(files[each.file].path, make_feed(files[each.file], each, list_format).options)

    assert (list_format, len(files)) == ("inventory", 3)
    assert len(found) == 3 if format == "CSV" else len(found) > 30
    assert len(urls) == len(set(urls)) == len(objects)
    assert [file.end for file in files] == [
        len(rows) if format == "Parquet" else file.size for file, rows in zip(files, thirds(objects), strict=True)
    ]


def read(path: str, of_core: Mapping[str, object]) -> list[str]:
    """Returns the URLs of a range of a list."""
    options = GetOptions(source=path, dest="out", format="jsonl", list_format="inventory")
    targets = ListTargets(json.dumps(json.loads(options.to_json("list")) | dict(of_core)))
    found: list[str] = []
    while (page := targets.next_page()) is not None:
        found += [str(url) for url, _ in page[0]]
    return found


def test_changed_inventory_data_file_is_refused(
    objects: dict[str, bytes], store: S3Store, run: Run, environment: dict[str, str], tmp_path: Path, dest: Path
) -> None:
    """Its MD5 differs from the one in manifest.json. Later workers do not need manifest.json."""
    inventory = Inventory(tmp_path / "reports", "CSV", thirds(objects))
    content = inventory.data[1].read_bytes()
    inventory.data[1].write_bytes(content[:-9] + bytes([content[-9] ^ 1]) + content[-8:])
    env = environment | store.environment()

    ended = run("get", inventory.manifest, dest, *SHARED, "--endpoint-url", store.url, env=env)

    assert ended.code == LISTING_FAILED, ended.err
    assert "its MD5 differs" in ended.err
    assert str(inventory.data[1]) in ended.err
    inventory.manifest.unlink()
    assert "its MD5 differs" in run("join", dest, "--endpoint-url", store.url, env=env).err


def test_inventory_is_extended_with_another(
    objects: dict[str, bytes], store: S3Store, run: Run, environment: dict[str, str], tmp_path: Path, dest: Path
) -> None:
    """Each list has its own columns."""
    rows = thirds(objects)
    first = Inventory(tmp_path / "first", "CSV", rows[:1])
    second = Inventory(tmp_path / "second", "Parquet", rows[1:], ("Bucket", "Key", "Size", "IsLatest"))
    env = environment | store.environment()
    options = ("--endpoint-url", store.url)

    assert run("get", first.manifest, dest, *SHARED, *options, env=env).code == 0
    added = run("extend", dest, second.manifest)
    again = run("extend", dest, second.manifest)
    assert run("join", dest, *options, env=env).code == 0

    assert added.code == 0, added.err
    assert (again.code, "already has the list" in again.err) == (2, True), again.err
    assert stored(dest) == objects


@pytest.mark.parametrize("name", ["all.parquet", "all.jsonl", "all.jsonl.zst"])
def test_manifest_is_divided_into_ranges(name: str, server: Callable[..., Server], run: Run, dest: Path) -> None:
    """Objects have the names in the manifest. A compressed manifest is a single range."""
    served = server(synthetic=300)
    assert run("list", served.url, name).code == 0

    ended = run("get", name, dest, *SHARED[:4], "--format", "parquet")

    assert ended.code == 0, ended.err
    assert final_rows(dest) == dict.fromkeys((f"file-{number:012}" for number in range(300)), 1)
    (file,) = json.loads((dest / "job.json").read_text())["files"]
    assert (file["rows"], file["has_lines"]) == {
        "all.parquet": (300, False),
        "all.jsonl": (None, True),
        "all.jsonl.zst": (None, False),
    }[name]
    assert run("verify", dest).code == 0
