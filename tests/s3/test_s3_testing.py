"""`fetchmill.testing.s3()` behaves like Amazon S3 to an independent client, boto3."""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import pytest
from botocore.exceptions import ClientError

import fetchmill
from fetchmill.testing import S3Store, s3, synthetic_body
from s3_requests import Client, ask, client, send, signed_headers

ODD_KEYS = [
    "a",
    "a b",
    "a+b",
    "a%20b",
    "a%",
    "a//b",
    "a/",
    "/a",
    "../a",
    "a/../b",
    "./a",
    "folder",
    "folder/child",
    "tab\tand\nline",
    "\x01\x1f",
    "&<>\"'",
    "ümläut",
    "\uffff",
    "\U0001f600",
    "q?r#s",
    "~*()!",
    "k" * 1024,
]


@pytest.fixture
def store() -> Iterator[S3Store]:
    """Returns an empty store."""
    with s3() as store:
        yield store


@pytest.fixture
def boto(store: S3Store) -> Iterator[Client]:
    """Returns a boto3 client for the store."""
    with closing(client(store)) as boto:
        yield boto


def listed(boto: Client, bucket: str = "bucket", **parameters: object) -> list[dict[str, object]]:
    """Returns all objects of a listing, from all its pages."""
    pages = boto.get_paginator("list_objects_v2").paginate(Bucket=bucket, **parameters)
    return [entry for page in pages for entry in page.get("Contents", [])]


def keys(boto: Client, bucket: str = "bucket", **parameters: object) -> list[str]:
    """Returns the keys of a listing."""
    return [str(entry["Key"]) for entry in listed(boto, bucket, **parameters)]


def refused(call: Callable[[], object]) -> tuple[int, str]:
    """Returns the status and the error code with which a call fails."""
    with pytest.raises(ClientError) as caught:
        call()
    response = caught.value.response
    return response["ResponseMetadata"]["HTTPStatusCode"], response["Error"]["Code"]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("count", [0, 1, 1000, 1001, 2500])
def test_every_synthetic_object_is_listed_once(count: int) -> None:
    """Each object is listed with its size and the MD5 of its bytes, on as many pages as needed."""
    with s3(synthetic=count, size=100, key_prefix="p/") as store, closing(client(store)) as boto:
        found = listed(boto)

        names = [f"file-{index:012}" for index in range(count)]
        assert [entry["Key"] for entry in found] == [f"p/{name}" for name in names]
        assert {entry["Size"] for entry in found} <= {100}
        for name, entry in list(zip(names, found, strict=True))[:: max(1, count // 7)]:
            body = boto.get_object(Bucket="bucket", Key=f"p/{name}")["Body"].read()
            assert body == synthetic_body(name, 100)
            assert entry["ETag"] == f'"{hashlib.md5(body, usedforsecurity=False).hexdigest()}"'
        assert store.stats()["lists"] == max(1, -(-count // 1000))


def test_odd_keys_are_listed_and_returned() -> None:
    """Keys can be any valid UTF-8 and are listed in byte order."""
    objects = {key: f"body of {key}".encode() for key in ODD_KEYS}
    with s3(objects) as store, closing(client(store)) as boto:
        assert keys(boto) == sorted(objects, key=str.encode)
        assert keys(boto, PaginationConfig={"PageSize": 1}) == sorted(objects, key=str.encode)
        for key, body in objects.items():
            assert boto.get_object(Bucket="bucket", Key=key)["Body"].read() == body, key
        assert store.objects() == objects


def test_odd_keys_can_be_put_and_deleted(store: S3Store, boto: Client) -> None:
    """Keys can be any valid UTF-8."""
    for key in ODD_KEYS:
        boto.put_object(Bucket="bucket", Key=key, Body=key.encode())
    assert store.objects() == {key: key.encode() for key in ODD_KEYS}
    for key in ODD_KEYS:
        boto.delete_object(Bucket="bucket", Key=key)
    assert store.objects() == {}
    assert refused(lambda: boto.put_object(Bucket="bucket", Key="k" * 1025, Body=b"")) == (400, "KeyTooLongError")


def test_listing_is_limited_by_prefix_start_and_size() -> None:
    """The limits can be combined. Synthetic and uploaded objects are in one order."""
    with s3({"file-000000000001x": b"", "z": b""}, synthetic=4) as store, closing(client(store)) as boto:
        names = ["file-000000000000", "file-000000000001", "file-000000000001x", "file-000000000002"]
        assert keys(boto) == [*names, "file-000000000003", "z"]
        assert keys(boto, Prefix="file-000000000001") == names[1:3]
        assert keys(boto, StartAfter="file-000000000001") == [*names[2:], "file-000000000003", "z"]
        assert keys(boto, StartAfter="a", Prefix="z") == ["z"]
        assert keys(boto, StartAfter="zz") == []
        page = boto.list_objects_v2(Bucket="bucket", MaxKeys=2)
        assert (page["KeyCount"], page["MaxKeys"], page["IsTruncated"]) == (2, 2, True)
        rest = boto.list_objects_v2(Bucket="bucket", ContinuationToken=page["NextContinuationToken"])
        assert [entry["Key"] for entry in rest["Contents"]] == [*names[2:], "file-000000000003", "z"]
        assert boto.list_objects_v2(Bucket="bucket", MaxKeys=0)["IsTruncated"] is False


@pytest.mark.sampled(2)
@pytest.mark.parametrize("size", [1, 2, 1000])
def test_delimiter_groups_keys_into_folders(size: int) -> None:
    """Each folder is listed once, even if its keys are on several pages."""
    objects = dict.fromkeys(["a/1", "a/2", "a/b/3", "b", "c//", "c/d", "d"], b"")
    with s3(objects) as store, closing(client(store)) as boto:

        def folders(prefix: str) -> tuple[list[str], list[str]]:
            parameters = {"Bucket": "bucket", "Delimiter": "/", "Prefix": prefix}
            pages = list(
                boto.get_paginator("list_objects_v2").paginate(**parameters, PaginationConfig={"PageSize": size})
            )
            return (
                [entry["Prefix"] for page in pages for entry in page.get("CommonPrefixes", [])],
                [entry["Key"] for page in pages for entry in page.get("Contents", [])],
            )

        assert folders("") == (["a/", "c/"], ["b", "d"])
        assert folders("a/") == (["a/b/"], ["a/1", "a/2"])
        assert folders("c/") == (["c//"], ["c/d"])


def test_object_has_amazon_headers() -> None:
    """Each object has the headers that Amazon S3 sends."""
    written = datetime(2025, 1, 2, 3, 4, 5, tzinfo=UTC)
    with s3() as store, closing(client(store)) as boto:
        store.put("key", b"hello", modified=written)
        reply = boto.get_object(Bucket="bucket", Key="key")

        assert reply["Body"].read() == b"hello"
        assert reply["ETag"] == '"5d41402abc4b2a76b9719d911017c592"'
        assert reply["LastModified"] == listed(boto)[0]["LastModified"] == written
        assert (reply["ContentLength"], reply["AcceptRanges"]) == (5, "bytes")
        assert reply["ContentType"] == "binary/octet-stream"
        assert len(reply["ResponseMetadata"]["RequestId"]) == 16
        part = boto.get_object(Bucket="bucket", Key="key", Range="bytes=1-2")
        assert (part["Body"].read(), part["ContentRange"]) == (b"el", "bytes 1-2/5")
        beyond = refused(lambda: boto.get_object(Bucket="bucket", Key="key", Range="bytes=5-"))
        assert beyond == (416, "InvalidRange")
        assert refused(lambda: boto.get_object(Bucket="bucket", Key="key", IfMatch='"x"'))[0] == 412


def test_missing_key_and_bucket_get_errors(boto: Client, store: S3Store) -> None:
    """The errors have the codes that Amazon S3 uses."""
    assert refused(lambda: boto.get_object(Bucket="bucket", Key="key")) == (404, "NoSuchKey")
    assert refused(lambda: boto.get_object(Bucket="other", Key="key")) == (404, "NoSuchBucket")
    assert refused(lambda: keys(boto, "other")) == (404, "NoSuchBucket")
    assert store.stats()["not_found"] == 3


def test_every_request_is_counted_by_kind(store: S3Store, boto: Client) -> None:
    """The counts let a test prove that no HEAD request was sent."""
    store.put("key", b"hello")
    assert boto.head_object(Bucket="bucket", Key="key")["ContentLength"] == 5
    assert boto.head_bucket(Bucket="bucket")["BucketRegion"] == "us-east-1"
    boto.get_object(Bucket="bucket", Key="key")["Body"].read()
    refused(lambda: boto.get_object(Bucket="bucket", Key="none"))
    keys(boto)
    boto.put_object(Bucket="bucket", Key="other", Body=b"x")

    stats = store.stats()
    counted = {name: stats[name] for name in ("heads", "gets", "fetched", "lists", "puts", "requests", "connections")}
    assert counted == {"heads": 2, "gets": 2, "fetched": 1, "lists": 1, "puts": 1, "requests": 6, "connections": 1}
    store.reset_stats()
    assert set(store.stats().values()) == {0}


def test_conditional_put_fails_when_object_exists(store: S3Store, boto: Client) -> None:
    """An unconditional put replaces the object."""
    put = boto.put_object(Bucket="bucket", Key="key", Body=b"hello", IfNoneMatch="*")
    assert put["ETag"] == '"5d41402abc4b2a76b9719d911017c592"'
    again = refused(lambda: boto.put_object(Bucket="bucket", Key="key", Body=b"x", IfNoneMatch="*"))
    assert again == (412, "PreconditionFailed")
    assert store.objects() == {"key": b"hello"}
    boto.put_object(Bucket="bucket", Key="key", Body=b"other")
    assert store.objects() == {"key": b"other"}


def test_multipart_object_exists_after_completion(store: S3Store, boto: Client) -> None:
    """An aborted upload leaves nothing behind."""
    bodies = [b"a" * (5 << 20), b"b" * 1000]
    place = {"Bucket": "bucket", "Key": "big"}
    upload = {**place, "UploadId": boto.create_multipart_upload(**place)["UploadId"]}
    etags = [boto.upload_part(**upload, PartNumber=n, Body=body)["ETag"] for n, body in enumerate(bodies, 1)]
    assert keys(boto) == []
    assert [found["Key"] for found in boto.list_multipart_uploads(Bucket="bucket")["Uploads"]] == ["big"]
    assert [part["Size"] for part in boto.list_parts(**upload)["Parts"]] == [5 << 20, 1000]

    named = [{"PartNumber": n, "ETag": etag} for n, etag in enumerate(etags, 1)]
    whole = boto.complete_multipart_upload(**upload, MultipartUpload={"Parts": named})

    assert store.objects() == {"big": b"".join(bodies)}
    sums = b"".join(hashlib.md5(body, usedforsecurity=False).digest() for body in bodies)
    assert whole["ETag"] == f'"{hashlib.md5(sums, usedforsecurity=False).hexdigest()}-2"'
    assert refused(lambda: boto.list_parts(**upload)) == (404, "NoSuchUpload")
    other = {**place, "UploadId": boto.create_multipart_upload(**place)["UploadId"]}
    boto.abort_multipart_upload(**other)
    assert "Uploads" not in boto.list_multipart_uploads(Bucket="bucket")


def test_open_uploads_are_listed_in_pages(boto: Client) -> None:
    """Each upload is on one page, even if a key has several uploads."""
    place = {"Bucket": "bucket"}
    keys_of_all = ["a", "b", "b", "b", "c/d", "other"]
    for key in keys_of_all:
        boto.create_multipart_upload(**place, Key=key)
    pages = boto.get_paginator("list_multipart_uploads").paginate(**place, PaginationConfig={"PageSize": 2})

    found = [[(each["Key"], each["UploadId"]) for each in page["Uploads"]] for page in pages]

    assert [len(page) for page in found] == [2, 2, 2]
    assert [key for page in found for key, _ in page] == keys_of_all
    assert len({id for page in found for _, id in page}) == len(keys_of_all)
    after = boto.list_multipart_uploads(**place, KeyMarker="b")["Uploads"]
    assert [each["Key"] for each in after] == ["c/d", "other"]
    assert refused(lambda: boto.list_multipart_uploads(**place, MaxUploads=0)) == (400, "InvalidArgument")


def test_invalid_upload_parts_are_refused(store: S3Store, boto: Client) -> None:
    """Parts must not be too small, unknown or out of order. A conditional completion fails if the object exists."""
    place = {"Bucket": "bucket", "Key": "big"}
    upload = {**place, "UploadId": boto.create_multipart_upload(**place)["UploadId"]}
    etags = [boto.upload_part(**upload, PartNumber=n, Body=b"x")["ETag"] for n in (1, 2)]

    def complete(*named: tuple[int, str], **options: str) -> object:
        parts = [{"PartNumber": number, "ETag": etag} for number, etag in named]
        return boto.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts}, **options)

    assert refused(lambda: complete((1, etags[0]), (2, etags[1]))) == (400, "EntityTooSmall")
    assert refused(lambda: complete((3, etags[0]))) == (400, "InvalidPart")
    assert refused(lambda: complete((2, etags[1]), (1, etags[0]))) == (400, "InvalidPartOrder")
    store.put("big", b"there")
    assert refused(lambda: complete((1, etags[0]), IfNoneMatch="*")) == (412, "PreconditionFailed")
    assert store.objects() == {"big": b"there"}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("keys_given", "expected"),
    [
        ({"aws_secret_access_key": "wrong"}, (403, "SignatureDoesNotMatch")),
        ({"aws_access_key_id": "WRONG"}, (403, "InvalidAccessKeyId")),
        ({"aws_session_token": "wrong"}, (400, "InvalidToken")),
        ({"aws_session_token": None}, (400, "InvalidToken")),
    ],
)
def test_wrong_signature_is_refused(keys_given: dict[str, str], expected: tuple[int, str]) -> None:
    """The error code gives the reason."""
    with s3({"key": b"x"}, token="token") as store:  # noqa: S106 - of a test
        with closing(client(store)) as boto:
            assert boto.get_object(Bucket="bucket", Key="key")["Body"].read() == b"x"
        with closing(client(store, **keys_given)) as boto:
            assert refused(lambda: boto.get_object(Bucket="bucket", Key="key")) == expected


def test_modified_request_is_refused(store: S3Store) -> None:
    """A changed path, query, header or body is detected."""
    headers = signed_put(store)
    assert put(store, "/bucket/other", headers, b"hello") == (403, "SignatureDoesNotMatch")
    assert put(store, "/bucket/key?x=y", headers, b"hello") == (403, "SignatureDoesNotMatch")
    assert put(store, "/bucket/key", headers | {"X-Amz-Meta-A": "c"}, b"hello") == (403, "SignatureDoesNotMatch")
    assert put(store, "/bucket/key", headers | {"X-Amz-Meta-New": "c"}, b"hello") == (403, "AccessDenied")
    assert put(store, "/bucket/key", headers, b"hallo") == (400, "XAmzContentSHA256Mismatch")
    assert store.objects() == {}
    assert put(store, "/bucket/key", headers, b"hello") == (200, None)


def signed_put(store: S3Store) -> dict[str, str]:
    """Returns the headers of a signed PUT request with the body `hello`."""
    return signed_headers(store, "/bucket/key", method="PUT", body=b"hello", headers={"X-Amz-Meta-A": "b"})


def put(store: S3Store, target: str, headers: dict[str, str], body: bytes) -> tuple[int, str | None]:
    """Returns the status and the error code of a PUT request."""
    reply = send(store, target, headers, method="PUT", body=body)
    return reply.status, reply.text("Code") if reply.body else None


def test_signed_chunks_are_refused_as_unsupported(store: S3Store) -> None:
    """The store does not keep the chunks as an object."""
    headers = signed_put(store) | {"X-Amz-Content-SHA256": "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"}

    assert put(store, "/bucket/key", headers, b"hello") == (501, "NotImplemented")
    assert store.objects() == {}


def test_old_signature_is_refused() -> None:
    """A client that learns the store's time from its replies can continue."""
    with s3({"key": b"x"}, clock_offset=3600) as store, closing(client(store)) as boto:
        reply = ask(store, "/bucket/key")
        assert (reply.status, reply.text("Code")) == (403, "RequestTimeTooSkewed")
        assert reply.text("MaxAllowedSkewMilliseconds") == "900000"
        ahead = parsedate_to_datetime(reply.headers["Date"]) - datetime.now(UTC)
        assert 3500 < ahead.total_seconds() < 3700
        server_time = datetime.fromisoformat(reply.text("ServerTime") or "")
        assert abs((server_time - parsedate_to_datetime(reply.headers["Date"])).total_seconds()) <= 1
        assert store.stats()["skewed"] == 1
        store.change(max_skew=4000)
        assert boto.get_object(Bucket="bucket", Key="key")["Body"].read() == b"x"


def test_expired_credentials_are_refused(store: S3Store) -> None:
    """New credentials are accepted, and so are old ones that have not expired."""
    store.put("key", b"x")
    with closing(client(store)) as first:
        store.set_credentials("SECOND", "secret", "token", expires_in=300)
        with closing(client(store)) as second:
            for boto in (first, second):
                assert boto.get_object(Bucket="bucket", Key="key")["Body"].read() == b"x"
            store.set_credentials("SECOND", "secret", "token", expires_in=0)
            assert refused(lambda: second.get_object(Bucket="bucket", Key="key")) == (400, "ExpiredToken")
            assert first.get_object(Bucket="bucket", Key="key")["Body"].read() == b"x"
    assert store.stats()["expired"] == 1


def test_bucket_in_another_region_redirects_to_it(store: S3Store) -> None:
    """Requests that are signed for its region reach it at the same endpoint."""
    store.add_bucket("elsewhere", {"key": b"x"}, region="eu-west-1")
    moved = ask(store, "/elsewhere/key")
    assert (moved.status, moved.text("Code")) == (301, "PermanentRedirect")
    assert moved.headers["x-amz-bucket-region"] == moved.text("Region") == "eu-west-1"
    assert moved.text("Endpoint") == store.url.removeprefix("http://")
    assert ask(store, "/elsewhere/key", region="eu-west-1").body == b"x"
    third = ask(store, "/elsewhere/key", region="us-west-2")
    assert (third.text("Code"), third.text("Region")) == ("AuthorizationHeaderMalformed", "eu-west-1")
    for region in ("us-east-1", "us-west-2"):
        with closing(client(store, region_name=region)) as boto:  # boto3 follows the redirect
            assert boto.get_object(Bucket="elsewhere", Key="key")["Body"].read() == b"x"


def test_public_bucket_is_readable_without_credentials(store: S3Store) -> None:
    """Unsigned requests cannot write to it, and cannot read other buckets."""
    store.put("key", b"private")
    store.add_bucket("public", {"key": b"for all"}, public=True)
    host = {"Host": store.url.removeprefix("http://")}

    assert send(store, "/public/key", host).body == b"for all"
    assert send(store, "/public?list-type=2", host).text("Key") == "key"
    assert send(store, "/bucket/key", host).text("Code") == "AccessDenied"
    assert send(store, "/none/key", host).text("Code") == "NoSuchBucket"
    assert send(store, "/public/new", host, method="PUT", body=b"x").status == 403
    assert store.objects("public") == {"key": b"for all"}


def test_bucket_name_is_taken_from_host(store: S3Store) -> None:
    """The host may be `BUCKET.anything`, unless a suffix is set."""
    store.put("a/b c", b"x")
    assert ask(store, "/a/b%20c", host="bucket.s3.test").body == b"x"
    assert ask(store, "/?list-type=2", host="bucket.s3.test:80").text("Key") == "a/b c"
    with s3({"key": b"y"}, virtual_host_suffix="s3.test") as other:
        assert ask(other, "/key", host="bucket.s3.test:99").body == b"y"
        assert ask(other, "/bucket/key", host="s3.test").body == b"y"
        assert ask(other, "/key", host="bucket.other.test").text("Code") == "NotImplemented"
        assert ask(other, "/key", host="none.s3.test").text("Code") == "NoSuchBucket"


def test_impossible_store_options_raise_usage_error(store: S3Store) -> None:
    """The error is raised before the store starts."""
    for wrong in ({"bucket": "B"}, {"threads": 0}, {"synthetic": 10**13}, {"port": 1 << 16}, {"expires_in": -1}):
        with pytest.raises(fetchmill.UsageError):
            s3(**wrong)
    for change in ({"max_skew": -1}, {"slow_down_above": 0}, {"truncate_after": 0}, {"unknown": 1}):
        with pytest.raises(fetchmill.UsageError):
            store.change(**change)  # type: ignore[arg-type]
    for key in (b"\xff", "k" * 1025):
        with pytest.raises(fetchmill.UsageError):
            store.put(key, b"")
    with pytest.raises(fetchmill.UsageError, match='bucket "none" does not exist'):
        store.objects("none")


def test_stopped_store_keeps_statistics() -> None:
    """Stopping it a second time has no effect."""
    with s3({"key": b"x"}) as store:
        assert ask(store, "/bucket/key").body == b"x"
    store.stop()

    assert store.stats()["fetched"] == 1
    with pytest.raises(fetchmill.UsageError, match="stopped"):
        store.change(max_skew=1)
