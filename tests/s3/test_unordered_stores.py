"""Buckets whose keys do not ascend: each key is fetched once, or the job says that it cannot list them."""

import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fetchmill
from conftest import Ended
from independent import read_ledger
from raw_server import RawServer
from unordered_store import UnorderedStore, in_folder_order

LISTING_FAILED = 4
Get = Callable[..., Ended]


@pytest.fixture
def words(raw: Callable[..., RawServer], dest: Path) -> Callable[..., tuple[object, ...]]:
    """Returns the command that fetches such a bucket."""
    servers: dict[int, RawServer] = {}

    def words_of(store: UnorderedStore, *options: str) -> tuple[object, ...]:
        server = servers.setdefault(id(store), raw(store.routes()))
        fixed = ("--endpoint-url", server.url, "--no-sign-request", "--commit-window", "0.05s")
        return ("get", "s3://bucket", dest, *fixed, *(options or ("--format", "jsonl")))

    return words_of


@pytest.fixture
def get(run: Callable[..., Ended], words: Callable[..., tuple[object, ...]], environment: dict[str, str]) -> Get:
    """Runs `fetchmill get` on such a store."""
    return lambda store, *options: run(*words(store, *options), env=environment, timeout=100)


@pytest.fixture
def killed(
    start: Callable[..., "subprocess.Popen[str]"],
    words: Callable[..., tuple[object, ...]],
    environment: dict[str, str],
    dest: Path,
) -> Callable[..., None]:
    """Runs a job and kills it when it waits for a page that the store holds back.

    All earlier keys are fetched by then.
    """

    def run_and_kill(store: UnorderedStore, holds: int, *options: str) -> None:
        store.holds = holds
        job = start(*words(store, *options), env=environment)
        assert store.held.wait(30)
        wait_for(lambda: committed(dest) >= holds)
        job.kill()
        job.wait()
        store.holds = None

    return run_and_kill


def committed(dest: Path) -> int:
    """Returns the number of objects that are committed in a job's journal."""
    try:
        return fetchmill.status(dest).fetched
    except fetchmill.FetchmillError:
        return 0


def wait_for(has_come: Callable[[], bool]) -> None:
    """Waits up to half a minute for a condition."""
    until = time.monotonic() + 30
    while not has_come():
        assert time.monotonic() < until
        time.sleep(0.01)


def stored(dest: Path) -> list[str]:
    """Returns the names of stored objects, including duplicates."""
    with fetchmill.open(dest) as objects:
        return sorted(objects)


SHUFFLED = [f"{number * 7919 % 1000:03}" for number in range(100)]
# The first pages ascend. Then a smaller key comes, which a client misses if it requests only greater ones.
FOLDERS = in_folder_order(
    [f"{top}/{number:03}" for top in ("a", "b", "c") for number in range(20)] + ["b-1", "b.txt", "b!"]
)
ASCENDING = sorted(FOLDERS)


@pytest.mark.parametrize(
    ("keys", "options"),
    [
        (SHUFFLED, {}),
        (SHUFFLED, {"start_after": "ignore"}),
        (SHUFFLED, {"start_after": "refuse"}),
        (FOLDERS, {}),
        (FOLDERS, {"page": 1000}),
        (ASCENDING, {"start_after": "ignore"}),
        (ASCENDING, {"repeats_token": True}),
        (["obj/", "obj+", "obj1", "dir/z", "dir/a"], {"page": 3}),
    ],
)
def test_all_keys_of_unordered_stores_are_listed(
    get: Get, dest: Path, keys: list[str], options: dict[str, Any]
) -> None:
    """The order of keys and the store's handling of `start-after` do not matter."""
    store = UnorderedStore(keys, **{"page": 7, **options})

    ended = get(store)

    assert ended.code == 0, ended.err
    assert stored(dest) == sorted(keys)
    assert ("not in ascending order" in ended.err) == (keys is not ASCENDING or options.get("start_after") == "ignore")


def test_directory_buckets_are_listed_by_tokens_only(
    run: Callable[..., Ended], raw: Callable[..., RawServer], environment: dict[str, str], dest: Path
) -> None:
    """Directory buckets are recognized by their names, and no request uses `start-after`."""
    store = UnorderedStore(ASCENDING, page=7, start_after="refuse", bucket="b--use1-az4--x-s3")
    words = ("get", f"s3://{store.bucket}", dest, "--endpoint-url", raw(store.routes()).url, "--no-sign-request")

    ended = run(*words, "--format", "jsonl", env=environment, timeout=100)

    assert ended.code == 0, ended.err
    assert stored(dest) == ASCENDING
    assert not any("start-after" in query for query in store.queries)


def test_listing_fails_when_store_repeats_pages(get: Get, dest: Path) -> None:
    """Neither tokens nor `start-after` make progress. The exit code says that the listing is incomplete."""
    store = UnorderedStore(SHUFFLED, page=10, repeats_token=True)

    ended = get(store)

    assert ended.code == LISTING_FAILED
    assert "the listing never ends: the marker 10~0~ was repeated" in ended.err
    assert len(stored(dest)) == len(set(stored(dest)))


# The store returns the folder's keys first, and then smaller ones.
LATE = [f"a/{number:03}" for number in range(300)] + ["a-1", "a.txt", "b"]


def test_unordered_keys_are_listed_when_ranges_are_divided(get: Get, dest: Path) -> None:
    """Pages are slow, so the listing is divided into ranges long before the first unordered key."""
    store = UnorderedStore(LATE, page=10, latency=0.02)

    ended = get(store)

    assert ended.code == 0, ended.err
    assert stored(dest) == sorted(LATE)
    assert "are not in ascending order (a-1 comes after a/" in ended.err


def test_slow_ordered_buckets_are_divided(get: Get, dest: Path) -> None:
    """Names that only look unordered do not prevent the division of a slow listing."""
    store = UnorderedStore(ASCENDING, page=3, latency=0.02)

    ended = get(store)

    assert ended.code == 0, ended.err
    assert stored(dest) == ASCENDING
    assert "not in ascending order" not in ended.err
    assert len({query.get("start-after") for query in store.queries}) > 2


# LATE: keys ascend until the kill, so the next run starts again. SHUFFLED: the listing already follows tokens.
@pytest.mark.parametrize("keys", [LATE, SHUFFLED], ids=["late", "shuffled"])
@pytest.mark.parametrize("expires", [False, True])
def test_killed_job_on_unordered_store_has_each_key_once(
    get: Get, killed: Callable[..., None], dest: Path, keys: list[str], expires: bool
) -> None:
    """The job resumes at its token. If the token has expired, it starts the listing again."""
    store = UnorderedStore(keys, page=10)
    killed(store, 20)
    store.epoch += expires

    ended = get(store)

    assert ended.code == 0, ended.err
    assert stored(dest) == sorted(keys)
    assert read_ledger(dest).listed == len(keys)
    assert ("has expired" in ended.err) == (expires and keys is SHUFFLED)


def test_job_killed_while_relisting_has_each_key_once(get: Get, killed: Callable[..., None], dest: Path) -> None:
    """Keys that were listed before the kill, are listed again, or come later are each stored once."""
    store = UnorderedStore(LATE, page=10)
    killed(store, 20)
    killed(store, 100)

    ended = get(store)

    assert ended.code == 0, ended.err
    assert stored(dest) == sorted(LATE)
    assert read_ledger(dest).listed == len(LATE)


def test_job_without_names_cannot_restart_listing(get: Get, killed: Callable[..., None], dest: Path) -> None:
    """The error says that the listing cannot restart, and no key is listed twice."""
    store = UnorderedStore(LATE, page=10)
    killed(store, 20, "--format", "null")
    listed = read_ledger(dest).listed

    ended = get(store, "--format", "null")

    assert ended.code == LISTING_FAILED
    assert "this job does not keep the names of its targets; use another destination" in ended.err
    # The last key may be a range of its own, which ends before an unordered key is found.
    assert read_ledger(dest).listed in {listed, listed + 1}
