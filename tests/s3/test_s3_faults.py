"""Faults that `fetchmill.testing.s3()` simulates, and changes of its settings while it runs."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from botocore.exceptions import ClientError, HTTPClientError

from fetchmill.testing import S3Store, s3
from s3_requests import Client, ask, client, signed_headers


@pytest.fixture
def store() -> Iterator[S3Store]:
    """Returns a store with 2,500 synthetic objects."""
    with s3(synthetic=2500) as store:
        yield store


@pytest.fixture
def boto(store: S3Store) -> Iterator[Client]:
    """Returns a boto3 client for the store."""
    with closing(client(store)) as boto:
        yield boto


def name(index: int) -> str:
    """Returns the name of a synthetic object."""
    return f"file-{index:012}"


def code(call: Callable[[], object]) -> str:
    """Returns the error code with which a call fails."""
    with pytest.raises(ClientError) as caught:
        call()
    return str(caught.value.response["Error"]["Code"])


def body(boto: Client, key: str) -> bytes:
    """Returns the body of an object."""
    return bytes(boto.get_object(Bucket="bucket", Key=key)["Body"].read())


def page(boto: Client, **parameters: object) -> tuple[list[str], bool, str | None]:
    """Returns the keys of a page, whether the listing is truncated, and the continuation token."""
    found = boto.list_objects_v2(Bucket="bucket", **parameters)
    keys = [entry["Key"] for entry in found.get("Contents", [])]
    return keys, found["IsTruncated"], found.get("NextContinuationToken")


def test_store_refuses_requests_above_rate(store: S3Store) -> None:
    """Requests are refused until the client is slower or the limit is removed."""
    store.change(slow_down_above=20)
    replies = [ask(store, f"/bucket/{name(0)}") for _ in range(30)]
    refused = [reply for reply in replies if reply.status == 503]
    assert {reply.text("Code") for reply in refused} == {"SlowDown"}
    assert replies[0].status == 200
    stats = store.stats()
    assert stats["refused"] == len(refused) == stats["gets"] - stats["fetched"]
    store.change(slow_down_above=0.001)
    assert {ask(store, f"/bucket/{name(0)}").status for _ in range(3)} == {200, 503}
    store.change(slow_down_above=None)
    assert ask(store, f"/bucket/{name(0)}").status == 200


def test_store_denies_keys_and_listings(store: S3Store, boto: Client) -> None:
    """The store counts denied requests."""
    store.change(deny={name(1)}, deny_lists=True)
    assert code(lambda: body(boto, name(1))) == "AccessDenied"
    assert code(lambda: boto.put_object(Bucket="bucket", Key=name(1), Body=b"")) == "AccessDenied"
    assert code(lambda: page(boto)) == "AccessDenied"
    assert body(boto, name(2)).startswith(b"file-000000000002\n")
    assert store.stats()["denied"] == 3
    store.change(deny=(), deny_lists=False)
    assert body(boto, name(1))
    assert page(boto)[1]


def test_store_sends_error_document_with_status_200(store: S3Store) -> None:
    """The store sends the error document always or a given number of times."""
    store.change(errors_with_200={name(1): "InternalError", name(2): ("SlowDown", 2)})
    replies = [ask(store, f"/bucket/{name(1)}") for _ in range(3)]
    assert {(reply.status, reply.text("Code")) for reply in replies} == {(200, "InternalError")}
    replies = [ask(store, f"/bucket/{name(2)}") for _ in range(3)]
    assert [reply.body.startswith(b"<?xml") for reply in replies] == [True, True, False]
    assert {reply.status for reply in replies} == {200}
    assert store.stats()["fetched"] == 1


def test_completion_fails_with_status_200(store: S3Store) -> None:
    """The object does not exist until a repeated completion succeeds."""
    store.change(errors_with_200={"key": ("InternalError", 1)})
    upload = ask(store, "/bucket/key?uploads", method="POST").text("UploadId")
    etag = ask(store, f"/bucket/key?partNumber=1&uploadId={upload}", method="PUT", body=b"x").headers["ETag"]
    part = f"<Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part>"
    document = f"<CompleteMultipartUpload>{part}</CompleteMultipartUpload>".encode()

    def complete() -> str | None:
        reply = ask(store, f"/bucket/key?uploadId={upload}", method="POST", body=document)
        assert reply.status == 200
        return reply.text("Code")

    assert complete() == "InternalError"
    assert store.objects() == {}
    assert complete() is None
    assert store.objects() == {"key": b"x"}
    assert store.stats()["completed"] == 1


def test_object_differs_from_its_listing(store: S3Store, boto: Client) -> None:
    """The object's bytes and ETag differ from those in the listing."""
    before = boto.list_objects_v2(Bucket="bucket", MaxKeys=1)["Contents"][0]
    store.change(changed={name(0): b"other"})
    reply = boto.get_object(Bucket="bucket", Key=name(0))
    assert reply["Body"].read() == b"other"
    assert reply["ETag"] != before["ETag"]
    assert boto.list_objects_v2(Bucket="bucket", MaxKeys=1)["Contents"][0] == before


def test_listing_ends_too_early(store: S3Store, boto: Client) -> None:
    """The listing says that it is complete, but a request for keys after the last one returns more."""
    store.change(truncate_after=1500)
    first = page(boto)
    assert (len(first[0]), first[1]) == (1000, True)
    second = page(boto, ContinuationToken=first[2])
    assert second == ([name(index) for index in range(1000, 1500)], False, None)
    assert page(boto, StartAfter=name(1499))[0][0] == name(1500)
    assert len(page(boto, Prefix="file-0000000000")[0]) == 100
    store.change(truncate_after=None)
    assert len(page(boto, ContinuationToken=first[2])[0]) == 1000


def test_listing_omits_continuation_token(store: S3Store, boto: Client) -> None:
    """The page says that there are more keys, but it has no token."""
    store.change(lose_token_after=700)
    assert page(boto) == ([name(index) for index in range(700)], True, None)
    assert len(page(boto, StartAfter=name(699))[0]) == 1000


def test_listing_repeats_continuation_token(store: S3Store, boto: Client) -> None:
    """A repeated token leads to the same page forever."""
    store.change(repeat_token=True)
    token = page(boto)[2]
    second = page(boto, ContinuationToken=token)
    assert second == ([name(index) for index in range(1000, 2000)], True, token)
    assert page(boto, ContinuationToken=second[2]) == second


def test_start_after_is_ignored(store: S3Store, boto: Client) -> None:
    """Every listing starts at the first key, whatever `start-after` says."""
    store.change(ignore_start_after=True)
    assert page(boto, StartAfter=name(2000))[0][0] == name(0)


def test_uploads_fail_given_number_of_times(store: S3Store, boto: Client) -> None:
    """The fault applies to uploads of whole objects and of parts."""
    store.change(fail_uploads=2)
    assert code(lambda: boto.put_object(Bucket="bucket", Key="key", Body=b"x")) == "ServiceUnavailable"
    store.change(get_latency=0)  # counters are not reset
    upload = boto.create_multipart_upload(Bucket="bucket", Key="key")["UploadId"]
    part = {"Bucket": "bucket", "Key": "key", "UploadId": upload, "PartNumber": 1, "Body": b"x"}
    assert code(lambda: boto.upload_part(**part)) == "ServiceUnavailable"
    boto.upload_part(**part)
    boto.put_object(Bucket="bucket", Key="key", Body=b"x")
    assert store.objects() == {"key": b"x"}
    assert store.stats()["refused"] == 2


def test_upload_connection_is_reset_halfway(store: S3Store, boto: Client) -> None:
    """Nothing is stored."""
    store.change(drop_uploads=1)
    with pytest.raises(HTTPClientError):
        boto.put_object(Bucket="bucket", Key="key", Body=b"x" * 1_000_000)
    assert store.objects() == {}
    boto.put_object(Bucket="bucket", Key="key", Body=b"x" * 1_000_000)
    assert store.stats()["dropped"] == 1
    assert len(store.objects()["key"]) == 1_000_000


def test_delayed_requests_are_served_in_parallel(store: S3Store) -> None:
    """Twenty delayed requests in parallel take no longer than one."""
    store.change(list_latency=0.5, get_latency=0.5)
    targets = ["/bucket?list-type=2&max-keys=1", f"/bucket/{name(0)}"] * 10
    started = time.monotonic()
    with ThreadPoolExecutor(20) as threads:
        replies = list(threads.map(lambda target: ask(store, target), targets))
    assert {reply.status for reply in replies} == {200}
    assert 0.5 <= time.monotonic() - started < 5


def test_pipelined_requests_are_answered_in_order(store: S3Store) -> None:
    """The requests share one connection; request bodies and delayed replies do not change the order."""
    store.change(list_latency=0.05)
    targets = [f"/bucket/{name(1)}", "/bucket?list-type=2&max-keys=1", f"/bucket/{name(2)}"]
    requests = b""
    for target in [*targets, "/bucket/none"]:
        fields = signed_headers(store, target) | ({"Connection": "close"} if target.endswith("none") else {})
        lines = [f"GET {target} HTTP/1.1", *(f"{field}: {value}" for field, value in fields.items())]
        requests += "\r\n".join([*lines, "", ""]).encode()
    host, port = store.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection, connection.makefile("rb") as replies:
        connection.sendall(requests)
        answer = replies.read()
    marks = [b"file-000000000001\n", b"<ListBucketResult", b"file-000000000002\n", b"NoSuchKey"]
    places = [answer.index(mark) for mark in marks]
    assert places == sorted(places)
    assert answer.count(b"HTTP/1.1 ") == 4


def test_store_in_another_process_is_found_through_environment(store: S3Store) -> None:
    """No options are needed. The store runs in its own process, as a command."""
    program = "import boto3; print(boto3.client('s3').list_objects_v2(Bucket='bucket')['KeyCount'])"
    path = {"PATH": os.environ["PATH"]}
    ended = subprocess.run(
        [sys.executable, "-c", program], env=path | store.environment(), capture_output=True, timeout=120, check=True
    )
    assert ended.stdout == b"1000\n"
    command = [sys.executable, "-m", "fetchmill.s3_store", "--synthetic", "3", "--public", "--max-skew", "2"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        said = json.loads(process.stdout.readline())
        ended = subprocess.run(
            [sys.executable, "-c", program],
            env=path | said["environment"],
            capture_output=True,
            timeout=120,
            check=True,
        )
        assert ended.stdout == b"3\n"
        rest, _ = process.communicate(timeout=120)
        assert json.loads(rest)["lists"] == 1
    assert said["bucket"] == "bucket"
