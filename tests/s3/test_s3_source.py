"""`fetchmill get s3://bucket` with `fetchmill.testing.s3`: clocks, credentials, regions and wrong listings."""

import asyncio
import json
import logging
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import fetchmill
from conftest import SUPPORT, Ended
from engines import engine_options, limit_options
from fetchmill.testing import S3Store, s3, synthetic_body
from independent import find_unbalanced, read_ledger
from raw_server import Behaviour, Exchange, RawServer, in_turn, reply
from stored import find_wrong

Get = Callable[..., Ended]
Begin = Callable[..., "subprocess.Popen[str]"]
Stores = Callable[..., S3Store]

LOG = logging.getLogger(__name__)

LISTING_FAILED = 4
FINISHED_WITH_FAILURES = 3
TEMPORARY = 5
SEED = int(os.environ.get("FETCHMILL_SEED") or time.time_ns() % 1_000_000)
ODD = ("a b+%", "größe/ß", "c\x01", "x//y", "full/", "../up", "both", "both/inner", "?q=1#f")
ENGINES = ("native", "sync", "threads", "processes", "asyncio", "combo")
HOUR = 3600
FIRST = {"access_key": "FIRST", "secret_key": "first-secret", "token": "one"}
SECOND = {"access_key": "SECOND", "secret_key": "second-secret", "token": "two"}


@pytest.fixture
def stores() -> Iterator[Stores]:
    """Starts stores with arguments for `fetchmill.testing.s3`, and stops them after the test."""
    with ExitStack() as stack:
        yield lambda *arguments, **options: stack.enter_context(s3(*arguments, **options))


@pytest.fixture
def get(run: Callable[..., Ended], environment: dict[str, str]) -> Get:
    """Runs `fetchmill get` on a store; `settings` replaces the environment variables."""

    def run_get(
        store: S3Store, dest: Path, *options: str, below: str = "", source: str | None = None, **settings: str
    ) -> Ended:
        words = ("get", source or f"s3://{store.bucket}/{below}", str(dest), "--endpoint-url", store.url, *options)
        return run(*words, env=environment | store.environment() | settings, timeout=100)

    return run_get


@pytest.fixture
def begin(start: Callable[..., "subprocess.Popen[str]"], environment: dict[str, str]) -> Begin:
    """Starts `fetchmill get` on a store and does not wait for its end."""

    def start_get(store: S3Store, dest: Path, *options: str, **settings: str) -> "subprocess.Popen[str]":
        words = ("get", f"s3://{store.bucket}/", str(dest), "--endpoint-url", store.url, *options)
        return start(*words, env=environment | store.environment() | settings)

    return start_get


def computed(count: int, start: int = 0) -> dict[str, bytes]:
    """Returns the objects that `synthetic=` creates."""
    names = (f"file-{index:012}" for index in range(start, count))
    return {name: synthetic_body(name, 100) for name in names}


def assert_stored(dest: Path, objects: dict[str, bytes]) -> None:
    """Asserts that exactly these objects are stored."""
    with fetchmill.open(dest) as stored:
        assert {name: stored[name] for name in stored} == objects


@pytest.mark.parametrize("format", ["parquet", "jsonl", "tar", "warc"])
def test_packs_store_odd_keys(stores: Stores, get: Get, dest: Path, format: str) -> None:
    """Every odd key is the name of its object. Folder markers are skipped."""
    objects = {key: key.encode() for key in ODD}
    store = stores(objects | {"marker/": b""})

    ended = get(store, dest, "--format", format)

    assert ended.code == 0, ended.err
    assert_stored(dest, objects)
    assert read_ledger(dest).skipped == 1
    assert store.stats()["heads"] == 0


def test_keys_unusable_as_file_names_are_failed(stores: Stores, get: Get, canary: Any) -> None:  # noqa: ANN401
    """These keys are not requested, and nothing is written outside the destination."""
    store = stores({key: key.encode() for key in ODD})

    ended = get(store, canary.dest)

    assert ended.code == FINISHED_WITH_FAILURES
    assert "name 3, name-taken 1" in ended.err
    assert (canary.dest / "a b+%25").read_bytes() == b"a b+%"


def test_listing_starts_at_prefix(stores: Stores, get: Get, dest: Path) -> None:
    """The prefix need not end with a slash. Objects are named by their whole keys."""
    store = stores({"a/b1": b"1", "a/b2/c": b"2", "a/c": b"3", "b": b"4"})

    assert get(store, dest, below="a/b").code == 0

    assert (dest / "a/b1").read_bytes() == b"1"
    assert (dest / "a/b2/c").read_bytes() == b"2"
    assert read_ledger(dest).listed == 2


@pytest.mark.one_in(3)
@pytest.mark.sampled(1)
@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_signs_when_sending(stores: Stores, get: Get, dest: Path, engine: str) -> None:
    """The store refuses signatures older than two seconds, and requests wait longer than that in the queue."""
    count = {"sync": 300, "processes": 900}.get(engine, 2500)
    store = stores(synthetic=count, max_skew=2, get_latency=0.01)

    ended = get(store, dest, *engine_options(engine), *limit_options(engine, 10), "--format", "jsonl")

    assert ended.code == 0, ended.err
    assert_stored(dest, computed(count))
    assert store.stats()["skewed"] == 0


@pytest.mark.parametrize("engine", ["native", "threads", "processes"])
def test_clock_one_hour_off_is_corrected(stores: Stores, get: Get, dest: Path, engine: str) -> None:
    """The clock is corrected after the first reply, and all engines use the corrected time."""
    store = stores(synthetic=300, clock_offset=-HOUR)

    ended = get(store, dest, *engine_options(engine), *limit_options(engine), "--format", "jsonl")

    assert ended.code == 0, ended.err
    assert_stored(dest, computed(300))
    assert store.stats()["skewed"] <= 2


def test_clock_jump_during_job_is_corrected(stores: Stores, begin: Begin, dest: Path) -> None:
    """Whichever part of the job detects the jump corrects the clock."""
    store = stores(synthetic=3000, get_latency=0.02)
    job = begin(store, dest, "--format", "jsonl", "--concurrency", "20")
    wait_for(lambda: store.stats()["gets"] >= 200)

    store.change(clock_offset=HOUR)

    assert end(job) == (0, "")
    assert_stored(dest, computed(3000))
    assert store.stats()["skewed"] > 0


def test_expired_credentials_are_renewed(stores: Stores, begin: Begin, dest: Path, tmp_path: Path) -> None:
    """If the store reports that they expired, the profile's command is run once. No object fails."""
    store = stores(synthetic=4000, get_latency=0.02, **FIRST)
    given = tmp_path / "given.json"
    write_credentials(given, FIRST)
    job = begin(store, dest, "--format", "jsonl", "--concurrency", "20", "--profile", "own", **profile(tmp_path, given))
    wait_for(lambda: store.stats()["gets"] >= 200)

    write_credentials(given, SECOND)
    store.set_credentials(*SECOND.values())
    store.set_credentials(*FIRST.values(), expires_in=0)

    assert end(job) == (0, "")
    assert_stored(dest, computed(4000))
    assert store.stats()["expired"] > 0


def test_credentials_are_renewed_before_they_expire(stores: Stores, begin: Begin, dest: Path, tmp_path: Path) -> None:
    """They are renewed when a quarter of their lifetime is left, so no request is refused."""
    store = stores(synthetic=3000, get_latency=0.02, **FIRST)
    store.set_credentials(*SECOND.values())
    given = tmp_path / "given.json"
    write_credentials(given, FIRST, lives=6)
    store.set_credentials(*FIRST.values(), expires_in=6)
    job = begin(
        store, dest, "--format", "jsonl", "--concurrency", "10", "--profile", "own", "--rate", "330",
        **profile(tmp_path, given),
    )  # fmt: skip
    wait_for(lambda: store.stats()["gets"] >= 20)
    write_credentials(given, SECOND)

    assert end(job) == (0, "")
    assert_stored(dest, computed(3000))
    assert store.stats()["expired"] == 0


def test_job_ends_when_credentials_cannot_be_renewed(stores: Stores, begin: Begin, get: Get, dest: Path) -> None:
    """The job ends after a checkpoint, with one line that says what to do. With new credentials, it resumes."""
    store = stores(synthetic=2000, get_latency=0.02, **FIRST)
    job = begin(store, dest, "--format", "jsonl", "--concurrency", "20")
    wait_for(lambda: store.stats()["gets"] >= 100)
    store.set_credentials(*FIRST.values(), expires_in=0)

    code, said = end(job)

    assert (code, "renew them and run the same command again" in said) == (TEMPORARY, True), said
    assert read_ledger(dest).failed == 0
    store.set_credentials(*SECOND.values())
    names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
    own = dict(zip(names, SECOND.values(), strict=True))
    assert get(store, dest, "--format", "jsonl", **own).code == 0
    assert_stored(dest, computed(2000))


def test_public_bucket_needs_no_credentials(
    stores: Stores, run: Callable[..., Ended], environment: dict[str, str], dest: Path
) -> None:
    """This works on a machine without credentials, with and without `--no-sign-request`."""
    store = stores(synthetic=20, public=True)
    words = ("get", f"s3://{store.bucket}", str(dest), "--endpoint-url", store.url)

    assert run(*words, env=environment).code == 0
    assert run(*words[:2], dest.with_name("other"), *words[3:], "--no-sign-request", env=environment).code == 0
    assert len(list(dest.glob("file-*"))) == 20


def test_bucket_in_another_region_is_found(stores: Stores, get: Get, dest: Path) -> None:
    """The store names the region in a redirect or in an error about the signature."""
    store = stores(synthetic=1)
    store.add_bucket("elsewhere", region="eu-west-1", synthetic=50)

    for place, region in (("one", "us-east-1"), ("two", "ap-south-1")):
        folder = dest / place
        ended = get(store, folder, source="s3://elsewhere/", AWS_REGION=region)
        assert ended.code == 0, ended.err
        assert len(list(folder.glob("file-*"))) == 50


@pytest.mark.parametrize(
    ("settings", "words", "expected"),
    [
        ({"AWS_SECRET_ACCESS_KEY": "wrong"}, (), "SignatureDoesNotMatch"),
        ({"AWS_ACCESS_KEY_ID": "NOBODY"}, (), "InvalidAccessKeyId"),
        ({}, ("--no-sign-request",), "AccessDenied"),
    ],
)
def test_access_errors_say_what_to_do(
    stores: Stores, get: Get, dest: Path, settings: dict[str, str], words: tuple[str, ...], expected: str
) -> None:
    """The error is one line, and nothing is created."""
    ended = get(stores(synthetic=5), dest, *words, **settings)

    assert ended.code == LISTING_FAILED
    assert expected in ended.err
    assert len(ended.err.splitlines()) == 1


def refused_once_or_always(raw: Callable[..., RawServer], *, refusals: int) -> RawServer:
    """Returns a bucket of 20 objects that refuses one of them with InvalidAccessKeyId, several times or always."""
    document = b"<Error><Code>InvalidAccessKeyId</Code><Message>not in our records</Message></Error>"
    refusal = reply(document, "Content-Type: application/xml", status="403 Forbidden")
    keys = [f"key-{number:02}" for number in range(20)]

    def listing(exchange: Exchange) -> bytes:
        # The client also requests the keys after the last one.
        listed = [] if "start-after" in exchange.target else keys
        contents = "".join(f"<Contents><Key>{key}</Key><Size>{len(key)}</Size></Contents>" for key in listed)
        return reply(f"<ListBucketResult><IsTruncated>false</IsTruncated>{contents}</ListBucketResult>".encode())

    routes: dict[str, Behaviour] = {"/bucket": listing, "/bucket/": listing}
    routes |= {f"/bucket/{key}": reply(key.encode()) for key in keys}
    routes[f"/bucket/{keys[9]}"] = in_turn(*[refusal] * refusals, reply(keys[9].encode())) if refusals else refusal
    return raw(routes)


@pytest.mark.parametrize("engine", ["native", "threads", "asyncio"])
@pytest.mark.parametrize("refusals", [1, 0])
def test_single_credentials_refusal_does_not_stop_job(
    run: Callable[..., Ended],
    environment: dict[str, str],
    raw: Callable[..., RawServer],
    dest: Path,
    engine: str,
    refusals: int,
) -> None:
    """The job ends only if a second request for the object is refused, too."""
    server = refused_once_or_always(raw, refusals=refusals)
    keys = {"AWS_ACCESS_KEY_ID": "ONE", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1"}

    ended = run(
        *("get", "s3://bucket/", dest, "--endpoint-url", server.url, "--concurrency", "1", *engine_options(engine)),
        env=environment | keys,
        timeout=100,
    )

    if refusals:
        assert ended.code == 0, ended.err
        assert read_ledger(dest).fetched == 20
    else:
        assert ended.code == TEMPORARY, ended.err
        assert "the store refused the credentials (InvalidAccessKeyId: not in our records)" in ended.err
    assert server.count("/bucket/key-09") == 2


@pytest.mark.parametrize("engine", ["native", "threads"])
def test_denied_objects_fail_separately(
    stores: Stores, get: Get, run: Callable[..., Ended], dest: Path, engine: str
) -> None:
    """Other objects in the bucket may be readable. The store's code and message are kept."""
    store = stores(synthetic=20, deny={"file-000000000003"})

    ended = get(store, dest, *engine_options(engine))

    assert ended.code == FINISHED_WITH_FAILURES
    assert "failed: 403 Forbidden 1" in ended.err
    assert read_ledger(dest).fetched == 19
    [failure] = fetchmill.failures(dest)
    assert failure.detail.startswith("AccessDenied: "), failure
    assert "\tAccessDenied: " in run("status", dest, "--failures").out


def test_object_that_differs_from_listing_is_failed_as_changed(stores: Stores, get: Get, dest: Path) -> None:
    """A different ETag or size fails the object as changed. A retry run fetches the current object."""
    objects = {f"k{number}": b"as it was" for number in range(5)}
    store = stores(objects, changed={"k1": b"as it is!", "k2": b"longer than it was"})

    ended = get(store, dest, "--format", "jsonl")

    assert ended.code == FINISHED_WITH_FAILURES
    assert "changed 2" in ended.err
    assert get(store, dest, "--format", "jsonl", "--retry-failed").code == 0
    assert_stored(dest, objects | {"k1": b"as it is!", "k2": b"longer than it was"})


@pytest.mark.parametrize("engine", ["native", "asyncio"])
def test_error_document_with_status_200_is_not_stored(stores: Stores, get: Get, dest: Path, engine: str) -> None:
    """The request is retried instead."""
    store = stores(synthetic=20, errors_with_200={"file-000000000007": ("InternalError", 2)})

    ended = get(store, dest, "--format", "jsonl", *engine_options(engine))

    assert ended.code == 0, ended.err
    assert_stored(dest, computed(20))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("lie", ["truncate_after", "lose_token_after"])
def test_listing_that_ends_too_early_is_continued(stores: Stores, get: Get, dest: Path, lie: str) -> None:
    """Keys after the last one are requested, whatever the store says about the end of its listing."""
    store = stores(synthetic=3500, **{lie: 1500})

    ended = get(store, dest, "--format", "jsonl")

    assert ended.code == 0, ended.err
    assert_stored(dest, computed(3500))
    assert ("reported the end of its listing too early" in ended.err) == (lie == "truncate_after")


def test_repeated_continuation_token_loses_no_keys(stores: Stores, get: Get, dest: Path) -> None:
    """Pages are requested by the last key, not by the token."""
    assert get(stores(synthetic=3500, repeat_token=True), dest, "--format", "jsonl").code == 0
    assert_stored(dest, computed(3500))


def test_store_that_ignores_start_after_is_listed_by_tokens(stores: Stores, get: Get, dest: Path) -> None:
    """Such a store seems to have unordered keys.

    If its tokens also repeat, the job ends with an error, and keeps all keys that were listed once.
    """
    ended = get(stores(synthetic=3500, ignore_start_after=True), dest / "tokens", "--format", "jsonl")
    assert ended.code == 0, ended.err
    assert_stored(dest / "tokens", computed(3500))

    store = stores(synthetic=3500, ignore_start_after=True, repeat_token=True)
    ended = get(store, dest / "neither", "--format", "jsonl")
    assert ended.code == LISTING_FAILED
    assert "the listing never ends: the marker" in ended.err
    assert_stored(dest / "neither", computed(2000))


def test_filters_cover_keys_sizes_and_times(stores: Stores, get: Get, dest: Path) -> None:
    """Excluded objects are counted as skipped."""
    store = stores({"a.txt": b"1", "b.txt": b"12345", "c.jpg": b"12345"})
    store.put("old.txt", b"12345", modified=datetime(2001, 9, 9, tzinfo=UTC))
    words = ("--include", "*.txt", "--size-from", "2", "--modified-from", "2010-01-01")

    ended = get(store, dest, *words)

    assert ended.code == 0, ended.err
    assert (dest / "b.txt").read_bytes() == b"12345"
    assert (read_ledger(dest).fetched, read_ledger(dest).skipped) == (1, 3)


@pytest.mark.timing
def test_slow_listing_is_divided_into_ranges(stores: Stores, get: Get, dest: Path) -> None:
    """Slow pages are requested in parallel, which takes much less time. Each key is listed once."""
    count = 60_000
    store = stores(synthetic=count, list_latency=0.4)
    began = time.monotonic()

    ended = get(store, dest, "--format", "null")

    took = time.monotonic() - began
    LOG.info("%s requests for pages in %.1f s", store.stats()["lists"], took)
    assert ended.code == 0, ended.err
    assert find_unbalanced(dest) == []
    assert (read_ledger(dest).listed, read_ledger(dest).fetched) == (count, count)
    # One after the other, 60 pages would take at least 24 s.
    assert took < 18


@pytest.mark.thorough
def test_job_killed_while_listing_resumes(stores: Stores, begin: Begin, get: Get, dest: Path) -> None:
    """Every range of the listing continues where it stopped, and each key is fetched once."""
    LOG.info("FETCHMILL_SEED=%s", SEED)
    count = 40_000
    store = stores(synthetic=count, list_latency=0.1)
    chance = random.Random(SEED)
    for _ in range(4):
        job = begin(store, dest, "--format", "parquet", "--commit-window", "0.1s", "--seal-after", "0.3s")
        time.sleep(chance.uniform(0.4, 1.2))
        job.kill()
        job.wait()

    ended = get(store, dest, "--format", "parquet")

    assert ended.code == 0, ended.err
    assert find_wrong(dest, "parquet", computed(count)) == []
    assert read_ledger(dest).listed == count


@pytest.mark.timing
def test_slow_down_replies_reduce_request_rate(stores: Stores, begin: Begin, dest: Path) -> None:
    """No object fails. After some time few requests are refused, and the job runs close to the store's limit."""
    rate = 1000
    store = stores(synthetic=9 * rate, slow_down_above=rate)
    job = begin(store, dest, "--format", "jsonl", "--attempts", "1")
    wait_for(lambda: store.stats()["refused"] > 0)
    time.sleep(3)
    before, since = store.stats(), time.monotonic()

    time.sleep(3)

    took = time.monotonic() - since
    after = store.stats()
    fetched, refused = (after[name] - before[name] for name in ("fetched", "refused"))
    LOG.info("%.0f of %s a second, %s of %s refused", fetched / took, rate, refused, fetched + refused)
    assert fetched / took >= 0.6 * rate
    assert refused <= 0.1 * (fetched + refused)
    assert end(job) == (0, "")
    assert_stored(dest, computed(9 * rate))


@pytest.mark.thorough
@pytest.mark.parametrize("engine", ["threads", "asyncio"])
def test_killed_jobs_with_boto3_and_aiobotocore_functions_resume(
    stores: Stores, dest: Path, environment: dict[str, str], engine: str
) -> None:
    """All bytes are right. boto3 has a client in each of 50 threads, and aiobotocore one client per event loop."""
    count = 1200
    store = stores(synthetic=count, get_latency=0.3)
    program = (sys.executable, str(SUPPORT / "s3_functions.py"), engine, dest, store.bucket, store.url)
    settings = environment | store.environment()

    with subprocess.Popen([*program, "50"], env=settings) as killed:
        wait_for(lambda: committed(dest) >= 100)
        killed.kill()
    before = store.stats()["gets"]
    store.change(get_latency=0.02)
    subprocess.run([*program, "10"], env=settings, check=True, timeout=250)

    assert_stored(dest, computed(count))
    assert before < count
    assert store.stats()["gets"] - before < count


def test_python_accepts_bucket_options_as_keywords(stores: Stores, dest: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The keywords have the names of the command-line options."""
    store = stores(synthetic=30)
    set_environment(monkeypatch, store)

    report = fetchmill.get(f"s3://{store.bucket}/", dest, endpoint_url=store.url, region="us-east-1", format="tar")

    assert (report.fetched, report.failed) == (30, 0)
    assert_stored(dest, computed(30))


def test_list_of_s3_urls_is_fetched(
    stores: Stores, run: Callable[..., Ended], environment: dict[str, str], dest: Path, tmp_path: Path
) -> None:
    """Objects are named by their URLs. One bucket is in another region, and the endpoint is a private address."""
    store = stores({"a b": b"1", "\u00e9/x": b"2"})
    store.add_bucket("elsewhere", region="eu-west-1", objects={"y": b"3"})
    urls = [
        f"s3://{store.bucket}/a%20b",
        f"s3://{store.bucket}/%C3%A9/x",
        "s3://elsewhere/y",
        f"s3://{store.bucket}/no",
    ]
    (tmp_path / "urls.txt").write_text("\n".join(urls))
    words = ("get", tmp_path / "urls.txt", dest, "--endpoint-url", store.url, "--format", "jsonl")

    ended = run(*words, env=environment | store.environment())

    assert ended.code == FINISHED_WITH_FAILURES, ended.err
    assert_stored(dest, dict(zip(urls[:3], (b"1", b"2", b"3"), strict=True)))
    assert read_ledger(dest).absent == 1


def test_missing_profile_fails_s3_urls_of_list(
    stores: Stores, run: Callable[..., Ended], environment: dict[str, str], dest: Path, tmp_path: Path
) -> None:
    """No unsigned request is sent."""
    store = stores({"a": b"1"}, public=True)
    (tmp_path / "urls.txt").write_text(f"s3://{store.bucket}/a")
    words = ("get", tmp_path / "urls.txt", dest, "--endpoint-url", store.url, "--profile", "nobody", "--attempts", "1")

    ended = run(*words, env=environment | store.environment())

    assert ended.code == FINISHED_WITH_FAILURES, ended.err
    assert "credentials 1" in ended.err
    assert store.stats()["requests"] == 0


def test_streams_accept_s3_urls(stores: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    """S3 URLs and other URLs may be mixed. A missing object is returned as a reply."""
    store = stores(synthetic=500, clock_offset=HOUR)
    set_environment(monkeypatch, store)
    urls = [f"s3://{store.bucket}/{name}" for name in computed(500)]

    replies = list(fetchmill.stream([*urls, f"s3://{store.bucket}/no"], endpoint_url=store.url, ordered=True))

    assert [reply.body for reply in replies[:-1]] == list(computed(500).values())
    assert [reply.url for reply in replies[:-1]] == urls
    assert replies[-1].status == 404


def test_async_streams_accept_s3_urls(stores: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    """`astream` accepts the same input as `stream`."""
    store = stores(synthetic=50)
    set_environment(monkeypatch, store)
    urls = [f"s3://{store.bucket}/{name}" for name in computed(50)]

    async def fetch() -> set[bytes]:
        return {bytes(reply.body) async for reply in fetchmill.astream(urls, endpoint_url=store.url)}

    assert asyncio.run(fetch()) == set(computed(50).values())


def end(job: "subprocess.Popen[str]") -> tuple[int, str]:
    """Returns the exit code and the error output of a command."""
    _, said = job.communicate(timeout=100)
    errors = [line for line in said.splitlines() if line.startswith("fetchmill: error")]
    return job.returncode, "\n".join(errors)


def committed(dest: Path) -> int:
    """Returns the number of objects that are committed in a job's journal."""
    try:
        return fetchmill.status(dest).fetched
    except fetchmill.FetchmillError:
        return 0


def wait_for(has_come: Callable[[], bool]) -> None:
    """Waits up to three minutes for a condition."""
    until = time.monotonic() + 180
    while not has_come():
        assert time.monotonic() < until
        time.sleep(0.01)


def write_credentials(path: Path, keys: dict[str, str], lives: float = HOUR) -> None:
    """Writes the output of a `credential_process`."""
    given: dict[str, object] = {"Version": 1, "AccessKeyId": keys["access_key"], "SecretAccessKey": keys["secret_key"]}
    given["SessionToken"] = keys["token"]
    expires = time.time() + lives
    given["Expiration"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(expires))
    new = path.with_suffix(".new")
    new.write_text(json.dumps(given))
    new.rename(path)


def profile(folder: Path, given: Path) -> dict[str, str]:
    """Returns the environment of a machine with one profile, whose credentials come from a command."""
    config = folder / "config"
    config.write_text(f"[profile own]\ncredential_process = cat {given}\n")
    without = dict.fromkeys(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"), "")
    return without | {"AWS_CONFIG_FILE": str(config)}


def set_environment(monkeypatch: pytest.MonkeyPatch, store: S3Store) -> None:
    """Sets environment variables of this process."""
    for name, value in store.environment().items():
        monkeypatch.setenv(name, value)
