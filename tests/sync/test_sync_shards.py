"""`fetchmill sync` into shards: after a pass, no reader finds replaced or removed objects."""

import contextlib
import json
import logging
import os
import random
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fetchmill
from conftest import Ended
from foreign import READERS, SUFFIXES, describe_parquet, find_shards, read_objects
from nginx import Nginx, Site
from s3_stores import Versitygw, client_of
from synced import ChangingTree, bodies, kill_in

Run = Callable[..., Ended]
Start = Callable[..., "subprocess.Popen[str]"]

LOG = logging.getLogger(__name__)
SEED = int(os.environ.get("FETCHMILL_SEED") or time.time_ns() % 1_000_000)
# The number of kills per format.
KILLS = int(os.environ.get("FETCHMILL_SYNC_KILLS") or 3)
FILES = 1000
USAGE, DAMAGED = 2, 10
FORMATS = tuple(SUFFIXES)
# The phases in which a pass is killed.
PHASES = ("fetching", "preparing", "prepared", "applying")


@pytest.fixture
def site(nginx: Callable[..., Nginx]) -> Nginx:
    """Returns an nginx server that lists the folder `served` in JSON."""
    return nginx(files=Site())


@pytest.fixture
def source(site: Nginx) -> str:
    """Returns the URL of the folder."""
    return site.url("files", "127.0.0.1") + "/"


def sent(site: Nginx) -> Counter[str]:
    """Returns the files that the server has sent."""
    asked = ((each.path.removeprefix("/"), each.status) for each in site.seen("files"))
    return Counter(path for path, status in asked if status == "200" and path and not path.endswith("/"))


def contents(dest: Path, format: str, reader: str) -> dict[str, bytes]:
    """Returns what an independent reader finds, with each name and sequence number only once."""
    found = list(read_objects(dest, format, reader))
    names = Counter(each.name.decode() for each in found)
    assert max(names.values(), default=0) <= 1, names.most_common(3)
    numbers = [each.sequence for each in found if each.sequence is not None]
    assert len(numbers) == len(set(numbers))
    return {each.name.decode(): each.body for each in found}


def report_of(ended: Ended) -> dict[str, Any]:
    """Returns the event `report` that a command with --json has printed."""
    events = [json.loads(line) for line in ended.out.splitlines()]
    (report,) = (event for event in events if event["event"] == "report")
    return dict(report)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("format", FORMATS)
def test_replaced_and_removed_objects_leave_shards(
    run: Run, site: Nginx, source: str, served: Path, dest: Path, format: str
) -> None:
    """Every reader finds the new state.

    There is one GET for each new or changed file, and none if nothing has changed.
    """
    tree = ChangingTree(served, FILES, seed=5)
    words = ("sync", source, dest, "--format", format, "--shard-size", "20k", "--delete", "--json")
    assert report_of(run(*words))["fetched"] == FILES
    first = sent(site)
    fetched, removed = tree.change_much(changed=50, added=30, removed=20, renamed=5)
    swapped = tree.swap_kinds("d040", "d041/f00825")
    fetched = {name for name in fetched | swapped[0] if (served / name).is_file()}
    removed = {name for name in removed | swapped[1] if not (served / name).is_file()}

    second = report_of(run(*words))
    shards = find_shards(dest, format)
    third = report_of(run(*words))

    assert (second["fetched"], second["removed"], second["failed"]) == (len(fetched), len(removed), 0)
    assert sent(site) - first == Counter(fetched)
    for reader in READERS[format]:
        assert contents(dest, format, reader) == bodies(served)
    assert (third["unchanged"], third["fetched"], third["removed"]) == (third["listed"], 0, 0)
    assert find_shards(dest, format) == shards
    proved = run("verify", dest)
    assert (proved.code, len(bodies(served))) == (0, len(run("ls", dest).out.splitlines())), proved.err


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("format", "number"), [(format, number) for format in FORMATS for number in range(KILLS)])
def test_sync_of_shards_killed_anytime_has_old_or_new_objects(
    run: Run, start: Start, source: str, served: Path, memory_path: Path, format: str, number: int
) -> None:
    """Readers by name find each object old or new. The next call finishes the pass with each object once."""
    chosen = random.Random(f"{SEED} {format} {number}")
    LOG.info("FETCHMILL_SEED=%d repeats this", SEED)
    phase, delay = chosen.choice(PHASES), chosen.uniform(0, 0.04)
    tree, dest = ChangingTree(served, 400, seed=SEED + number), memory_path / "out"
    words = ("sync", source, dest, "--format", format, "--shard-size", "5k", "--delete", "--max-delete", "50%")
    assert run(*words).code == 0
    old = bodies(served)
    tree.change_much(changed=80, added=40, removed=40, renamed=10)
    new = bodies(served)

    process = start(*words, "--commit-window", "5ms")
    was_killed = kill_in(phase, process, dest / ".fetchmill/sync", delay)
    found = dict(fetchmill.open(dest).items())
    ended = run(*words)

    assert [name for name, body in found.items() if body not in (old.get(name), new.get(name))] == []
    assert [name for name in old.keys() & new.keys() if name not in found] == [], (phase, was_killed)
    assert ended.code == 0, ended.err
    assert contents(dest, format, next(iter(READERS[format]))) == new
    assert run("verify", dest).code == 0
    assert os.listdir(dest / ".fetchmill/open") == []


@pytest.mark.sampled(2)
@pytest.mark.parametrize("format", FORMATS)
def test_sync_takes_over_shards_of_finished_get(
    run: Run, site: Nginx, source: str, served: Path, dest: Path, format: str
) -> None:
    """Objects that `get` has fetched are not fetched again. All shards have the same columns."""
    tree = ChangingTree(served, 60, seed=1)
    assert run("get", source, dest, "--format", format).code == 0
    first = sent(site)
    tree.change("d000/f00003")
    (served / "d001/f00025").unlink()

    ended = report_of(run("sync", source, dest, "--format", format, "--delete", "--json"))

    assert (ended["fetched"], ended["unchanged"], ended["removed"]) == (1, 58, 1), ended
    assert sent(site) - first == {"d000/f00003": 1}
    assert contents(dest, format, next(iter(READERS[format]))) == bodies(served)
    assert run("verify", dest).code == 0
    if format == "parquet":
        columns = [describe_parquet(shard) for shard in find_shards(dest, format)]
        assert columns == columns[:1] * len(columns)


def test_sync_of_shards_refuses_unsuitable_destinations(run: Run, source: str, served: Path, tmp_path: Path) -> None:
    """Examples are another format, additional columns, repeated names, and options that apply only to files.

    Each error is one line.
    """
    ChangingTree(served, 40, seed=1)
    urls = tmp_path / "urls.csv"
    urls.write_text(f"url,id\n{source}d000/f00001,1\n{source}d000/f00001,2\n")
    twice = ("get", urls, "twice", "--format", "jsonl", "--allow-private", "--key-column", "url")
    assert run("get", source, "tar", "--format", "tar").code == 0
    assert run(*twice).code == 0
    assert run("get", urls, "kept", "--format", "parquet", "--allow-private", "--keep-columns", "id").code == 0
    assert run("sync", source, "mirror", "--format", "parquet").code == 0

    for words, told in (
        ((source, "tar", "--format", "parquet"), "with the format tar, not parquet; use --format tar"),
        ((urls, "twice", "--format", "jsonl", "--allow-private", "--key-column", "url"), "two objects with the name"),
        ((urls, "kept", "--format", "parquet", "--allow-private"), "extra columns"),
        ((source, "mirror", "--format", "tar"), "with the options"),
        ((source, "mirror"), "with the options"),
        ((source, "new", "--format", "null"), "which discards objects"),
        ((source, "new", "--format", "tar", "--check-local"), "--check-local needs format files, not tar"),
    ):
        refused = run("sync", *words)
        assert (refused.code, refused.out, len(refused.err.splitlines())) == (USAGE, "", 1), refused.err
        assert told in refused.err
    for command in (("get", source, "mirror", "--format", "parquet"), ("verify", "mirror", "--repair")):
        refused = run(*command)
        assert (refused.code, len(refused.err.splitlines())) == (USAGE, 1), refused.err
        assert "`fetchmill sync`: only a sync may change the folder" in refused.err


def test_sync_of_grown_list_adds_rows_to_shards(
    run: Run, source: str, served: Path, dest: Path, tmp_path: Path
) -> None:
    """Objects are named by their URLs, as with `get`. Repeated lines are skipped."""
    names = ChangingTree(served, 40, seed=1).names()
    urls = tmp_path / "urls.txt"
    words = ("sync", urls, dest, "--format", "parquet", "--allow-private", "--json")
    urls.write_text("".join(f"{source}{name}\n" for name in names[:30]))
    assert report_of(run(*words))["fetched"] == 30
    urls.write_text("".join(f"{source}{name}\n" for name in [*names[5:], names[5]]))

    ended = report_of(run(*words))

    told = tuple(ended[name] for name in ("fetched", "unchanged", "left_out", "kept"))
    assert told == (10, 25, 1, 5)
    whole = {f"{source}{name}": body for name, body in bodies(served).items()}
    assert contents(dest, "parquet", "duckdb") == whole


@pytest.mark.sampled(1)
@pytest.mark.parametrize("format", ["parquet", "warc"])
def test_bucket_is_synced_into_shards(
    run: Run, versitygw: Versitygw, environment: dict[str, str], dest: Path, format: str
) -> None:
    """Objects with a new ETag are fetched, and missing ones are removed. Nothing else is requested."""
    held = {f"pre/d{number % 5}/f{number}": b"object %d" % number for number in range(40)}
    for key, body in held.items():
        versitygw.put(key, body)
    source = f"s3://{versitygw.bucket}/pre/"
    words = ("sync", source, dest, "--endpoint-url", versitygw.endpoint, "--format", format, "--delete", "--json")
    settings = environment | versitygw.environment()
    first = report_of(run(*words, env=settings))
    client = client_of(versitygw)
    with contextlib.closing(client):
        for key in ("pre/d0/f5", "pre/d1/f6"):
            client.delete_object(Bucket=versitygw.bucket, Key=key)
            del held[key]
    for key in ("pre/d2/f7", "pre/new/key"):
        held[key] = b"another " + key.encode()
        versitygw.put(key, held[key])

    second = report_of(run(*words, env=settings))
    third = report_of(run(*words, env=settings))

    told = [tuple(each[name] for name in ("fetched", "unchanged", "removed")) for each in (first, second, third)]
    # The time of a key written just before a pass is not reliable, but its ETag is.
    assert told == [(40, 0, 0), (2, 37, 2), (0, 39, 0)]
    assert contents(dest, format, next(iter(READERS[format]))) == held
    assert run("verify", dest).code == 0


def test_small_shards_are_merged(source: str, served: Path, dest: Path) -> None:
    """After many passes with few changes, the number of shards stays small."""
    tree = ChangingTree(served, 10, seed=1)
    passes = 20
    for _ in range(passes):
        tree.add()
        fetchmill.sync(source, dest, format="parquet")

    assert len(find_shards(dest, "parquet")) < passes // 2
    assert contents(dest, "parquet", "pyarrow") == bodies(served)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("format", FORMATS)
def test_damaged_shard_stops_sync_before_changes(run: Run, source: str, served: Path, dest: Path, format: str) -> None:
    """Otherwise, the undamaged objects of the shard would be lost. --refetch fetches all objects again."""
    tree = ChangingTree(served, 40, seed=1)
    words = ("sync", source, dest, "--format", format)
    assert run(*words).code == 0
    for shard in find_shards(dest, format):
        damaged = bytearray(shard.read_bytes())
        damaged[len(damaged) // 3] ^= 0x55
        shard.write_bytes(damaged)
    before = {shard: shard.read_bytes() for shard in find_shards(dest, format)}
    tree.change("d000/f00003")

    refused = run(*words)

    assert refused.code == DAMAGED, refused.err
    assert "is damaged" in refused.err
    assert {shard: shard.read_bytes() for shard in find_shards(dest, format)} == before
    assert run(*words, "--refetch").code == 0
    assert contents(dest, format, next(iter(READERS[format]))) == bodies(served)
    assert run("verify", dest).code == 0


def test_damage_after_last_object_of_shard_is_found(run: Run, source: str, served: Path, dest: Path) -> None:
    """Copying its objects does not read the end of a tar, so the copy would get a valid checksum."""
    tree = ChangingTree(served, 40, seed=1)
    words = ("sync", source, dest, "--format", "tar")
    assert run(*words).code == 0
    damaged = {shard: shard.read_bytes()[:-1] + b"x" for shard in find_shards(dest, "tar")}
    for shard, found in damaged.items():
        shard.write_bytes(found)
    tree.change("d000/f00003")

    refused = run(*words)

    assert refused.code == DAMAGED, refused.err
    assert "is damaged" in refused.err
    assert {shard: shard.read_bytes() for shard in find_shards(dest, "tar")} == damaged


def test_readers_find_old_or_new_object_while_pass_ends(run: Run, source: str, served: Path, dest: Path) -> None:
    """A reader that opens the destination during this time finds each object."""
    tree = ChangingTree(served, 40, seed=1)
    words = ("sync", source, dest, "--format", "tar", "--delete")
    assert run(*words).code == 0
    has_ended = threading.Event()
    found: set[bytes] = set()
    failed: list[Exception] = []

    def read() -> None:
        while not has_ended.is_set():
            try:
                found.add(fetchmill.open(dest)["d000/f00003"])
            except Exception as error:  # noqa: BLE001 - each is a failure of the test
                failed.append(error)

    thread = threading.Thread(target=read)
    thread.start()
    written = {(served / "d000/f00003").read_bytes()}
    for _ in range(5):
        tree.change("d000/f00003")
        written.add((served / "d000/f00003").read_bytes())
        assert run(*words).code == 0
    has_ended.set()
    thread.join()

    assert failed == []
    assert len(found) > 1
    assert found <= written
