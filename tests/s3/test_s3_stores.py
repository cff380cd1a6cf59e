"""`fetchmill get s3://BUCKET/PREFIX DEST` with third-party stores: all objects arrive, and errors are clear.

Objects are named by their whole keys. Uploads define the contents of a store, and boto3 reads them back.
"""

import os
import random
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import fetchmill
from conftest import folder_in_memory, format_options
from foreign import find_shards
from independent import Expected, find_problems, find_unbalanced, has_journal, read_ledger
from s3_stores import Moto, Store, Versitygw, bodies, fill, keys_of, read_all, versitygw_serving
from stored import find_wrong

Get = Callable[..., Any]

SEED = int(os.environ.get("FETCHMILL_SEED") or time.time_ns() % 1_000_000)
KILLS = 3
# The exit code of a failed listing.
LISTING_FAILED = 4
FINISHED_WITH_FAILURES = 3
# The number of keys per page; prefixes have sizes around it.
PAGE = 1000
SIZES = (0, 1, PAGE, PAGE + 1)
MANY = 100_000

# Keys that have a different path on disk or none. Each object contains its own key. moto's server does not accept a
# line feed.
PLAIN = {
    "plain": "plain",
    "a b": "a b",
    " starts": " starts",
    "ends ": "ends ",
    "a+b": "a+b",
    "100%": "100%25",
    "%20": "%2520",
    "%2F": "%252F",
    "größe/ß": "größe/ß",
    "\U0001f600": "\U0001f600",
    "c\x01\x1f": "c%01%1F",
    "t\tt": "t%09t",
    "cr\r": "cr%0D",
    "\x7f": "%7F",
    "&<>\"'": "&<>\"'",
    "?q=1#f": "?q=1#f",
    "a\\b": "a\\b",
    "~*!()": "~*!()",
}
# Keys that cannot be file names. They are not requested.
NO_FILES = ("x//y", "/abs", "//two", "full/", "../up", "in/../side", "./dot", "..", ".")
# Keys that exclude each other as files.
BOTH = ("both", "both/inner")
# An empty object whose key ends with a slash is a folder marker.
MARKER = "marker/"


@dataclass(frozen=True)
class Filled:
    """A store and the bytes of each of its objects."""

    store: Store
    objects: dict[str, bytes]

    def below(self, prefix: str) -> dict[str, bytes]:
        """Returns the objects whose keys begin with this prefix."""
        return {key: body for key, body in self.objects.items() if key.startswith(prefix)}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Filled]:
    """Returns a versitygw store with a prefix of each size."""
    with folder_in_memory(tmp_path_factory.mktemp("gateway")) as folder, versitygw_serving(folder / "store") as store:
        yield filled(store, SIZES)


@pytest.fixture(scope="module")
def mocked(motos: Callable[[], Moto]) -> Filled:
    """Returns a bucket on moto's server with only some of the prefixes, because that server is slow."""
    return filled(motos(), [size for size in SIZES if size != PAGE])


@pytest.fixture(scope="module")
def odd(motos: Callable[[], Moto]) -> Filled:
    """Returns a bucket with odd keys."""
    return put(motos(), {key: key.encode() for key in (*PLAIN, *NO_FILES, *BOTH)} | {MARKER: b""})


@pytest.fixture(params=["gateway", "mocked"])
def sizes(request: pytest.FixtureRequest) -> Filled:
    """Returns one of the stores, with prefixes of several sizes."""
    found: Filled = request.getfixturevalue(request.param)
    return found


@pytest.fixture(params=["versitygw", "moto"])
def store(request: pytest.FixtureRequest) -> Store:
    """Returns one of the stores, with an empty bucket."""
    found: Store = request.getfixturevalue(request.param)
    return found


def filled(store: Store, sizes: Iterable[int]) -> Filled:
    """Returns objects for a prefix of each size, and objects before and after those."""
    objects = {key: body for size in sizes for key, body in bodies(size, prefix(size), folder=400).items()}
    return put(store, objects | {"aardvark": b"first", "of-1/par": b"shorter than its prefix", "zebra": b"last"})


def put(store: Store, objects: dict[str, bytes]) -> Filled:
    """Uploads objects to a store."""
    fill(store, objects)
    return Filled(store, objects)


def prefix(size: int) -> str:
    """Returns the prefix with that many keys. It need not end at a slash."""
    return f"of-{size}/part-"


@pytest.fixture
def get(run: Callable[..., Any], environment: dict[str, str]) -> Get:
    """Runs `fetchmill get` on a store: `get(store, "prefix", dest, "--format", "tar")`."""

    def run_get(
        store: Store, below: str, dest: Path, *options: str, timeout: float = 60, source: str = "", **settings: str
    ) -> Any:  # noqa: ANN401
        words = command(source or f"s3://{store.bucket}/{below}", store, dest)
        return run(*words, *options, env=environment | store.environment() | settings, timeout=timeout)

    return run_get


def command(source: str, store: Store, dest: Path) -> tuple[str, ...]:
    """Returns the command line without options of the job."""
    return ("get", source, str(dest), "--endpoint-url", store.endpoint)


# Contents of a store


@pytest.mark.one_in(3)
@pytest.mark.sampled(1)
def test_store_returns_uploaded_objects(sizes: Filled) -> None:
    """An independent client reads what was uploaded."""
    some = f"{prefix(PAGE + 1)}002/"

    assert keys_of(sizes.store) == sorted(sizes.objects)
    assert read_all(sizes.store, some) == sizes.below(some)
    assert len(sizes.below(some)) == 201


def test_store_has_odd_keys(odd: Filled) -> None:
    """Each odd key can be listed and read by an independent client."""
    assert read_all(odd.store) == odd.objects


# Every object


@pytest.mark.sampled(4)
@pytest.mark.parametrize("format", ["files", "parquet"])
@pytest.mark.parametrize("size", SIZES)
def test_every_object_of_prefix_is_fetched(gateway: Filled, get: Get, dest: Path, size: int, format: str) -> None:
    """The prefixes have no key, one key, a full page, and a page plus one key."""
    objects = gateway.below(prefix(size))
    assert len(objects) == size

    ended = get(gateway.store, prefix(size), dest, *format_options(format))

    if size == 0:
        assert (ended.code, "nothing was listed: the bucket bucket has no key that begins with" in ended.err) == (
            3,
            True,
        )
        return
    assert ended.code == 0, ended.err
    assert find_problems(dest, Expected(objects), format) == []


@pytest.mark.one_in(3)
def test_all_objects_arrive_from_store_that_closes_connections(mocked: Filled, get: Get, dest: Path) -> None:
    """The server of moto closes the connection after each reply."""
    ended = get(mocked.store, prefix(PAGE + 1), dest)

    assert ended.code == 0, ended.err
    assert find_problems(dest, Expected(mocked.below(prefix(PAGE + 1)))) == []


def test_bucket_without_prefix_is_fetched(gateway: Filled, get: Get, dest: Path) -> None:
    """With an empty prefix, the whole bucket is listed, with or without a slash after its name."""
    for number, source in enumerate(("s3://bucket", "s3://bucket/")):
        place = dest / str(number)
        place.parent.mkdir(exist_ok=True)

        ended = get(gateway.store, "", place, "--format", "parquet", source=source)

        assert ended.code == 0, ended.err
        assert find_wrong(place, "parquet", gateway.objects) == []


@pytest.mark.thorough
def test_hundred_thousand_objects_are_fetched(versitygw: Versitygw, get: Get, dest: Path) -> None:
    """The listing has a hundred pages. pyarrow reads each object once from the shards."""
    objects = bodies(MANY, prefix(MANY))
    fill(versitygw, objects)

    ended = get(versitygw, prefix(MANY), dest, "--format", "parquet", timeout=110)

    assert ended.code == 0, ended.err
    tables = [pq.read_table(shard, columns=["name", "body"]) for shard in find_shards(dest, "parquet")]
    rows = [row for table in tables for row in zip(*(column.to_pylist() for column in table.columns), strict=True)]
    assert len(rows) == MANY
    assert dict(rows) == objects
    ledger = read_ledger(dest)
    assert (ledger.listed, ledger.fetched, ledger.bytes) == (MANY, MANY, sum(map(len, objects.values())))


def test_python_accepts_options_named_like_boto3(gateway: Filled, dest: Path) -> None:
    """Bucket options in Python have the names that boto3 users know."""
    store, below = gateway.store, prefix(PAGE + 1)

    report = fetchmill.get(
        f"s3://{store.bucket}/{below}",
        dest,
        format="jsonl",
        endpoint_url=store.endpoint,
        region=store.environment()["AWS_REGION"],
    )

    assert (report.listed, report.fetched) == (PAGE + 1, PAGE + 1)
    assert find_wrong(dest, "jsonl", gateway.below(below)) == []


# Odd keys


@pytest.mark.parametrize("format", ["tar", "parquet", "warc", "jsonl"])
def test_packs_store_every_key(odd: Filled, get: Get, dest: Path, format: str) -> None:
    """In packs, names are only data. Folder markers are skipped."""
    objects = {key: body for key, body in odd.objects.items() if key != MARKER}

    ended = get(odd.store, "", dest, *format_options(format))

    assert ended.code == 0, ended.err
    assert find_wrong(dest, format, objects) == []
    ledger = read_ledger(dest)
    assert (ledger.listed, ledger.fetched, ledger.skipped) == (len(odd.objects), len(objects), 1)


def test_files_store_only_keys_usable_as_file_names(odd: Filled, get: Get, canary: Any) -> None:  # noqa: ANN401 - see `canary`
    """All other keys are recorded as failed, and nothing is written outside the destination."""
    ended = get(odd.store, "", canary.dest)

    assert ended.code == FINISHED_WITH_FAILURES, ended.err
    kinds = {failure.name: failure.kind for failure in fetchmill.failures(canary.dest)}
    (taken,) = (name for name, kind in kinds.items() if kind == "name-taken")
    assert taken in BOTH
    assert kinds == dict.fromkeys(NO_FILES, "name") | {taken: "name-taken"}
    (stays,) = set(BOTH) - {taken}
    files = {
        path.relative_to(canary.dest).as_posix(): path.read_bytes()
        for path in canary.dest.rglob("*")
        if path.is_file() and ".fetchmill" not in path.parts
    }
    assert files == {path: key.encode() for key, path in (PLAIN | {stays: stays}).items()}
    assert read_ledger(canary.dest).skipped == 1


# Kills


@pytest.mark.sampled(1)
@pytest.mark.parametrize("format", ["files", "parquet", "tar"])
def test_killed_bucket_job_resumes_with_each_object_once(
    versitygw: Versitygw, start: Callable[..., Any], environment: dict[str, str], dest: Path, format: str
) -> None:
    """The kills come at random moments, which FETCHMILL_SEED repeats."""
    print(f"FETCHMILL_SEED={SEED}")  # noqa: T201 - shown when the test fails
    chance = random.Random(f"{SEED} {format}")
    objects = bodies(3000, prefix(3000))
    fill(versitygw, objects)
    source = f"s3://{versitygw.bucket}/{prefix(3000)}"
    words = (*command(source, versitygw, dest), "--commit-window", "50ms", "--rate", "1500", *format_options(format))
    env = environment | versitygw.environment()

    killed = 0
    for _ in range(KILLS):
        process = start(*words, env=env)
        wait_for_progress(process, dest)
        time.sleep(chance.uniform(0, 0.2))
        process.kill()
        process.communicate()
        killed += process.returncode < 0
        assert not has_journal(dest) or find_unbalanced(dest) == []
    ended = start(*words, env=env)
    _, said = ended.communicate(timeout=120)

    assert killed > 0
    assert ended.returncode == 0, said
    assert find_problems(dest, Expected(objects), format) == []


def wait_for_progress(process: "subprocess.Popen[str]", dest: Path) -> None:
    """Waits until the job has finished more targets than at the start, or has ended."""
    before = read_ledger(dest).settled if has_journal(dest) else 0
    while process.poll() is None and not (has_journal(dest) and read_ledger(dest).settled > before):
        time.sleep(0.01)


# Errors


def test_wrong_region_is_corrected(gateway: Filled, get: Get, dest: Path) -> None:
    """The store names the right region in its error."""
    ended = get(gateway.store, prefix(PAGE + 1), dest, "--format", "parquet", "--region", "eu-west-1")

    assert ended.code == 0, ended.err
    assert find_wrong(dest, "parquet", gateway.below(prefix(PAGE + 1))) == []


def test_private_bucket_is_refused_without_signature(gateway: Filled, get: Get, dest: Path) -> None:
    """The error has the store's code and names the option that prevented a signature."""
    ended = get(gateway.store, "", dest, "--no-sign-request")

    assert ended.code == LISTING_FAILED, ended.err
    assert "AccessDenied" in ended.err
    assert "--no-sign-request" in ended.err


@pytest.mark.parametrize(
    ("settings", "code", "advice"),
    [
        ({"AWS_SECRET_ACCESS_KEY": "another"}, "SignatureDoesNotMatch", "AWS_SECRET_ACCESS_KEY"),
        ({"AWS_ACCESS_KEY_ID": "nobody"}, "XAdminUserNotFound", "AWS_ACCESS_KEY_ID"),
    ],
)
def test_wrong_credentials_are_reported(
    versitygw: Versitygw, get: Get, dest: Path, settings: dict[str, str], code: str, advice: str
) -> None:
    """The error has the store's code and says what to check. It never contains the secret."""
    versitygw.put("one", b"1")

    ended = get(versitygw, "", dest, **settings)

    assert ended.code == LISTING_FAILED, ended.err
    assert code in ended.err
    assert advice in ended.err
    assert "Traceback" not in ended.err
    assert all(secret not in ended.err for secret in ("another", versitygw.environment()["AWS_SECRET_ACCESS_KEY"]))


@pytest.mark.sampled(1)
def test_missing_bucket_is_reported(store: Store, get: Get, dest: Path) -> None:
    """The error has the bucket's name and the store's code."""
    store.bucket = "elsewhere"

    ended = get(store, "", dest)

    assert ended.code == LISTING_FAILED, ended.err
    assert "NoSuchBucket" in ended.err
    assert "elsewhere" in ended.err
    assert "Traceback" not in ended.err
