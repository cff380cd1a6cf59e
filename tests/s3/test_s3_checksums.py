"""Checksums of stores: every engine detects a byte that changed in transit."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import fetchmill
from conftest import Ended
from engines import engine_options
from fetchmill.testing import S3Store, s3, synthetic_body

Get = Callable[..., Ended]
Stores = Callable[..., S3Store]

SIZE = 5000
CHECKSUMS = ("crc64nvme", "crc32c", "crc32", "sha256", "sha1")
KEYS = [f"file-{index:012}" for index in range(8)]
# ONCE is damaged in the first reply only, and ALWAYS in every reply, including that to the last attempt.
ONCE, ALWAYS = KEYS[2], KEYS[5]
DAMAGE = {ONCE: 1, ALWAYS: 1000}
SOON = ("--attempts", "2", "--format", "parquet", "--quiet")


@pytest.fixture
def stores() -> Iterator[Stores]:
    """Starts stores with arguments for `fetchmill.testing.s3`, and stops them after the test."""
    with ExitStack() as stack:
        yield lambda *objects, **options: stack.enter_context(s3(*objects, synthetic=len(KEYS), size=SIZE, **options))


@pytest.fixture
def get(run: Callable[..., Ended], environment: dict[str, str]) -> Get:
    """Runs `fetchmill get` on a store."""

    def run_get(store: S3Store, dest: Path, *options: str) -> Ended:
        words = ("get", f"s3://{store.bucket}", str(dest), "--endpoint-url", store.url, *SOON, *options)
        return run(*words, env=environment | store.environment())

    return run_get


def wrong(dest: Path) -> list[str]:
    """Returns the names of fetched objects whose bytes differ from the store's."""
    found = fetchmill.open(dest)
    return [name for name in found if found[name] != synthetic_body(str(name), SIZE)]


@pytest.mark.parametrize("format", ["parquet", "files", "null"])
def test_wrong_byte_is_retried_then_failed(stores: Stores, get: Get, dest: Path, format: str) -> None:
    """The MD5 in the ETag reveals the wrong byte, whatever is done with the body."""
    ended = get(stores(damage=DAMAGE), dest, "--format", format)

    assert ended.code == 3, ended.err
    assert [(each.name, each.kind, each.attempts) for each in fetchmill.failures(dest)] == [(ALWAYS, "checksum", 2)]
    if format != "null":
        assert wrong(dest) == []
        assert len(fetchmill.open(dest)) == len(KEYS) - 1


@pytest.mark.parametrize("checksum", CHECKSUMS)
def test_every_store_checksum_is_compared(stores: Stores, get: Get, dest: Path, checksum: str) -> None:
    """This includes encrypted objects, whose ETag is not an MD5. Requests for checksums are signed."""
    ended = get(stores(damage=DAMAGE, checksum=checksum, encryption="aws:kms"), dest)

    assert ended.code == 3, ended.err
    assert [each.kind for each in fetchmill.failures(dest)] == ["checksum"]
    assert wrong(dest) == []


@pytest.mark.one_in(3)
@pytest.mark.sampled(1)
@pytest.mark.parametrize("engine", ["sync", "threads", "processes", "asyncio", "combo"])
def test_python_engines_compare_checksums(stores: Stores, get: Get, dest: Path, engine: str) -> None:
    """The engines compare the ETag's MD5 or a requested checksum. With `--no-checksums`, they compare nothing."""
    selected = engine_options(engine)
    by_etag = get(stores(damage=DAMAGE), dest / "etag", *selected)
    by_crc = get(stores(damage=DAMAGE, checksum="crc64nvme", encryption="aws:kms"), dest / "crc", *selected)
    unasked = get(stores(damage=DAMAGE), dest / "unasked", "--no-checksums", *selected)

    assert (by_etag.code, by_crc.code, unasked.code) == (3, 3, 0), (by_etag.err, by_crc.err, unasked.err)
    for each in ("etag", "crc"):
        failures = [(failure.name, failure.kind, failure.attempts) for failure in fetchmill.failures(dest / each)]
        assert failures == [(ALWAYS, "checksum", 2)]
        assert wrong(dest / each) == []
    assert sorted(wrong(dest / "unasked")) == [ONCE, ALWAYS]


@pytest.mark.parametrize(
    ("behaviour", "options"),
    [
        ({"encryption": "aws:kms"}, []),
        ({"encryption": "aws:kms", "checksum": "crc32", "composite_checksums": True}, []),
        ({"checksum": "crc64nvme"}, ["--no-checksums"]),
    ],
    ids=["kms", "composite", "switched-off"],
)
def test_incomparable_checksums_fail_no_object(
    stores: Stores, get: Get, dest: Path, behaviour: dict[str, Any], options: list[str]
) -> None:
    """Examples are an ETag that is not an MD5, a checksum of parts, and a checksum that was not requested."""
    ended = get(stores(damage=DAMAGE, **behaviour), dest, *options)

    assert ended.code == 0, ended.err
    assert sorted(wrong(dest)) == [ONCE, ALWAYS]


def test_large_body_is_compared_while_it_is_written_to_file(stores: Stores, get: Get, dest: Path) -> None:
    """The body is too large to be kept in memory."""
    body = b"0123456789" * 300_000
    store = stores({"large": body}, checksum="crc64nvme", damage={"large": 1})

    ended = get(store, dest)

    assert ended.code == 0, ended.err
    assert fetchmill.open(dest)["large"] == body
    assert store.stats()["gets"] == len(KEYS) + 2


def test_public_bucket_checksums_are_requested_without_signature(stores: Stores, get: Get, dest: Path) -> None:
    """The objects arrive without a signature and are compared."""
    store = stores(public=True, checksum="crc32c", encryption="aws:kms", damage=DAMAGE)

    ended = get(store, dest, "--no-sign-request")

    assert ended.code == 3, ended.err
    assert wrong(dest) == []


def test_streams_compare_checksums(stores: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    """A damaged reply is requested again. The reply to a HEAD request has no body to compare."""
    store = stores(checksum="crc64nvme", damage={ONCE: 1})
    for variable, value in store.environment().items():
        monkeypatch.setenv(variable, value)
    urls = [f"s3://bucket/{key}" for key in KEYS]

    replies = {reply.url: reply.body for reply in fetchmill.stream(urls, endpoint_url=store.url)}

    assert replies == {url: synthetic_body(key, SIZE) for url, key in zip(urls, KEYS, strict=True)}
    heads = [fetchmill.Request(urls[0], method="HEAD")]
    assert [reply.status for reply in fetchmill.stream(heads, endpoint_url=store.url)] == [200]
