"""Buckets with special requirements: requester pays, customer keys, endpoints, storage classes and compression."""

import base64
import gzip
import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest

import fetchmill
from conftest import Ended
from engines import engine_options
from fetchmill.testing import s3
from independent import read_ledger
from listed_bucket import ListedBucket, ListedObject, error
from raw_server import Exchange, RawServer, reply

Run = Callable[..., Ended]

USAGE = 2
FINISHED_WITH_FAILURES = 3
LISTING_FAILED = 4
KEYS = {"AWS_ACCESS_KEY_ID": "ONE", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1"}
PAYER = "x-amz-request-payer: requester"
CUSTOMER_KEY = bytes(range(32))
ARCHIVED = error("InvalidObjectState", "The operation is not valid for the object's storage class", "403 Forbidden")


@pytest.fixture
def get(run: Run, raw: Callable[..., RawServer], environment: dict[str, str], dest: Path) -> Run:
    """Runs `fetchmill get` on a bucket."""

    def run_get(bucket: ListedBucket, *options: object, prefix: str = "", command: str = "get") -> Ended:
        words = (command, f"s3://bucket/{prefix}", dest, "--endpoint-url", raw(bucket.routes()).url)
        return run(*words, *options, env=environment | KEYS, timeout=60)

    return run_get


@pytest.mark.parametrize("engine", ["native", "threads", "asyncio"])
def test_every_request_has_requester_pays_header(get: Run, engine: str) -> None:
    """Requests for pages and objects have the header, and it is signed."""
    bucket = ListedBucket({"a": ListedObject(b"1"), "b": ListedObject(b"2")}, needs=PAYER)

    refused = get(bucket)
    ended = get(bucket, "--requester-pays", *engine_options(engine))

    assert (refused.code, "add --requester-pays" in refused.err) == (LISTING_FAILED, True), refused.err
    assert ended.code == 0, ended.err
    paid = [head for head in bucket.heads if PAYER.encode() in head.lower()]
    assert len(paid) >= 4
    assert all(b"x-amz-request-payer" in head.split(b"SignedHeaders=")[1] for head in paid)


def test_requests_with_special_headers_are_signed_correctly(
    run: Run, environment: dict[str, str], dest: Path, tmp_path: Path
) -> None:
    """The store checks the signatures of requests with these headers."""
    (tmp_path / "key").write_bytes(CUSTOMER_KEY)
    with s3(synthetic=20, token="token") as store:  # noqa: S106 - part of the credentials of a test
        ended = run(
            *("get", "s3://bucket", dest, "--endpoint-url", store.url),
            *("--requester-pays", "--sse-c-key-file", tmp_path / "key"),
            env=environment | store.environment(),
        )
        assert (ended.code, store.stats()["refused"]) == (0, 0), ended.err


@pytest.mark.parametrize("content", [CUSTOMER_KEY, base64.b64encode(CUSTOMER_KEY) + b"\n"])
def test_only_object_requests_send_customer_key(get: Run, dest: Path, tmp_path: Path, content: bytes) -> None:
    """Requests for listing pages do not send the key, and no stored file contains it."""
    (tmp_path / "key").write_bytes(content)
    text = base64.b64encode(CUSTOMER_KEY)
    needed = b"x-amz-server-side-encryption-customer-key: " + text

    def encrypted(exchange: Exchange) -> bytes:
        if needed not in exchange.head:
            return error(
                "InvalidRequest", "The object was stored using a form of Server Side Encryption", "400 Bad Request"
            )
        return reply(b"plain")

    bucket = ListedBucket({"a": ListedObject(b"plain", reply=encrypted)})

    ended = get(bucket, "--sse-c-key-file", tmp_path / "key")

    assert ended.code == 0, ended.err
    assert (dest / "a").read_bytes() == b"plain"
    md5 = base64.b64encode(hashlib.md5(CUSTOMER_KEY, usedforsecurity=False).digest())
    [shown] = [head for head in bucket.heads if text in head]
    assert b"customer-algorithm: AES256\r\n" in shown
    assert b"customer-key-md5: " + md5 in shown
    kept = [path for path in dest.rglob("*") if path.is_file()]
    assert not any(secret in path.read_bytes() for path in kept for secret in (text, CUSTOMER_KEY))


def test_invalid_customer_key_file_is_refused(get: Run, tmp_path: Path) -> None:
    """The error comes before any request is sent."""
    bucket = ListedBucket({})
    for content in (b"", b"k" * 31, b"a2s=", b"k" * 5000):
        (tmp_path / "key").write_bytes(content)
        ended = get(bucket, "--sse-c-key-file", tmp_path / "key")
        assert (ended.code, "with the 32 bytes of the key" in ended.err) == (USAGE, True), ended.err
    (tmp_path / "key").write_bytes(CUSTOMER_KEY)
    ended = get(bucket, "--sse-c-key-file", tmp_path / "key", "--endpoint-url", "http://store.test")
    assert (ended.code, "unencrypted; use an endpoint with https" in ended.err) == (USAGE, True), ended.err
    ended = get(bucket, "--sse-c-key-file", tmp_path / "none")
    assert (ended.code, "cannot be read" in ended.err) == (USAGE, True), ended.err
    assert bucket.heads == []


def test_endpoint_options_select_host(run: Run, environment: dict[str, str], dest: Path) -> None:
    """The options determine the host name in the error. No server is contacted, because the proxy does not exist."""
    nowhere = ("--proxy", "http://127.0.0.1:1", "--connect-timeout", "1")
    options = ("--use-accelerate-endpoint", "--use-dualstack-endpoint")

    ended = run("get", "s3://bucket", dest, *nowhere, *options, env=environment | KEYS, timeout=60)
    refused = run("get", "s3://bucket", dest, *nowhere, *options, "--use-fips-endpoint", env=environment | KEYS)

    assert "cannot check the bucket bucket at https://bucket.s3-accelerate.dualstack.amazonaws.com" in ended.err
    assert (refused.code, "no accelerated FIPS endpoints" in refused.err) == (USAGE, True), refused.err


def of_class(name: str) -> str:
    """Returns the storage class element of a listing entry."""
    return f"<StorageClass>{name}</StorageClass>"


def test_storage_classes_are_filtered(get: Run, dest: Path) -> None:
    """Several classes can be selected. An entry without a class belongs to the standard one."""
    objects = {"a": "", "b": of_class("STANDARD"), "c": of_class("STANDARD_IA"), "d": of_class("GLACIER")}
    bucket = ListedBucket({key: ListedObject(key.encode(), listed) for key, listed in objects.items()})

    ended = get(bucket, "--storage-class", "STANDARD", "--storage-class", "STANDARD_IA")

    assert ended.code == 0, ended.err
    assert (read_ledger(dest).fetched, fetchmill.status(dest).skipped_by) == (3, {"filter": 1})
    assert get(bucket, "--storage-class", "STANDARD").code == USAGE


def test_archived_objects_are_skipped(get: Run, run: Run, dest: Path) -> None:
    """Many archived objects are not mistaken for wrong credentials."""
    objects = {f"archived-{number:03}": ListedObject(b"", size=5, reply=ARCHIVED) for number in range(250)}
    bucket = ListedBucket(objects | {"readable": ListedObject(b"12345")})

    ended = get(bucket)

    assert ended.code == 0, ended.err
    assert (read_ledger(dest).fetched, read_ledger(dest).skipped) == (1, 250)
    assert fetchmill.status(dest).skipped_by == {"archived": 250}
    assert "archived" in run("status", dest, "--skipped").out


def test_sync_fails_archived_objects(get: Run, dest: Path) -> None:
    """Otherwise, archived objects would count as unchanged."""
    bucket = ListedBucket({"a": ListedObject(b"", size=5, reply=ARCHIVED), "b": ListedObject(b"12345")})

    ended = get(bucket, command="sync")

    assert ended.code == FINISHED_WITH_FAILURES, ended.err
    assert [path.name for path in dest.iterdir() if path.is_file() and path.name[0] not in "._"] == ["b"]


def test_object_decompressed_by_store_is_explained(get: Run, dest: Path) -> None:
    """Its size differs from the listing, but its ETag does not. With `--compressed`, it is sent as it is stored."""
    plain = b"line\n" * 300
    kept = gzip.compress(plain)
    md5 = hashlib.md5(kept, usedforsecurity=False).hexdigest()

    def transcoded(exchange: Exchange) -> bytes:
        if b"gzip" in exchange.head.lower():
            return reply(kept, f'ETag: "{md5}"', "Content-Encoding: gzip")
        return reply(plain, f'ETag: W/"{md5}"', "Warning: 214 - gunzipped")

    entry = ListedObject(kept, f"<ETag>{md5}</ETag>", reply=transcoded)

    ended = get(ListedBucket({"log.json": entry}))

    assert ended.code == FINISHED_WITH_FAILURES
    [failure] = fetchmill.failures(dest)
    assert "the store keeps the object compressed" in (failure.detail or "")
    ended = get(ListedBucket({"log.json": entry}), "--compressed")
    assert ended.code == 0, ended.err
    assert (dest / "log.json").read_bytes() == plain


def test_prefix_or_filter_without_matches_is_failure(get: Run, dest: Path) -> None:
    """A prefix or a glob without matches may be a mistake. The corrected command can use the same destination."""
    bucket = ListedBucket({"a/1": ListedObject(b"1"), "a/2": ListedObject(b"2")})

    ended = get(bucket, prefix="b/")
    assert (ended.code, 'the bucket bucket has no key that begins with "b/"' in ended.err) == (
        FINISHED_WITH_FAILURES,
        True,
    ), ended.err
    ended = get(bucket, "--include", "*.json")
    assert (ended.code, "2 excluded by filters" in ended.err) == (FINISHED_WITH_FAILURES, True), ended.err
    # Filters by time and size may exclude all objects on many days.
    assert get(bucket, "--size-from", "1000").code == 0
    ended = get(bucket, prefix="a/")

    assert ended.code == 0, ended.err
    assert sorted(path.name for path in (dest / "a").iterdir()) == ["1", "2"]
    ended = get(bucket)
    assert (ended.code, "belongs to another job" in ended.err) == (USAGE, True), ended.err


def test_job_without_stored_objects_leaves_destination_reusable(
    run: Run, raw: Callable[..., RawServer], dest: Path, tmp_path: Path
) -> None:
    """The next job may be another one, and its journal does not mention the objects of the first job."""
    server = raw({"/right/a": reply(b"1"), "/right/b": reply(b"2")})
    (tmp_path / "names.txt").write_text("a\nb\n")

    wrong = run("get", "names.txt", dest, "--template", f"{server.url}/wrong/{{}}", "--allow-private")
    ended = run("get", "names.txt", dest, "--template", f"{server.url}/right/{{}}", "--allow-private")

    assert read_ledger(dest).listed == 2, wrong.err
    assert ended.code == 0, ended.err
    assert (read_ledger(dest).fetched, read_ledger(dest).absent, read_ledger(dest).failed) == (2, 0, 0)
    assert list(fetchmill.failures(dest)) == []
