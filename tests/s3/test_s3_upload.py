"""Bucket destinations: every object arrives once, visible shards are complete, and jobs resume after any kill."""

import contextlib
import io
import json
import random
import re
import signal
import subprocess
import tarfile
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto.server import ThreadedMotoServer

from fetchmill.testing import Fault, Server, s3
from foreign import FAILURES, SUFFIXES, find_shards
from independent import find_lost, find_wrong, read_ledger, synthetic
from raw_server import RawServer, mirror, reply
from s3_gate import Hook, Request, S3Gate

Run = Callable[..., Any]
Start = Callable[..., subprocess.Popen[str]]
Serve = Callable[..., Server]
Raw = Callable[..., RawServer]

MIB = 1 << 20
SEED = 7
BUCKET = "bucket"
DEST = f"s3://{BUCKET}/run/"
STATE = "run.fetchmill"
KEYS = {"aws_access_key_id": "test", "aws_secret_access_key": "test", "region_name": "us-east-1"}
# An upload of three full parts of 8 MiB and a shorter one.
COUNT, SIZE = 2_800, 10_000
IN_PARTS = ("--format", "tar", "--shard-size", "64MiB", "--threads", "1", "--quiet")
# Options for several shards that are each uploaded as a whole.
WHOLE = ("--format", "tar", "--shard-size", "4MiB", "--threads", "1", "--quiet")


class Bucket:
    """A bucket on a store that is reached through a gate."""

    def __init__(self, store: str, gate: S3Gate, environment: dict[str, str]) -> None:
        self.gate = gate
        self.client = boto3.client("s3", endpoint_url=store, **KEYS)
        self.client.create_bucket(Bucket=BUCKET)
        self.environment = environment | {
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": gate.url,
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": "/dev/null",
            "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
            "no_proxy": "*",
        }

    def keys(self) -> list[str]:
        """Returns all keys in order."""
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET)
        return [row["Key"] for page in pages for row in page.get("Contents", [])]

    def copy(self, folder: Path) -> Path:
        """Copies all objects with the prefix into a folder."""
        for key in self.keys():
            path = folder / key.removeprefix("run/")
            path.parent.mkdir(parents=True, exist_ok=True)
            self.client.download_file(BUCKET, key, str(path))
        return folder

    def uploads(self) -> list[str]:
        """Returns the keys of uploads that were neither completed nor aborted."""
        return [row["Key"] for row in self.client.list_multipart_uploads(Bucket=BUCKET).get("Uploads", [])]


@pytest.fixture
def bucket(environment: dict[str, str]) -> Iterator[Bucket]:
    """Returns an empty bucket on moto's server."""
    with contextlib.ExitStack() as stack:
        store = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        store.start()
        stack.callback(store.stop)
        host, port = store.get_host_and_port()
        url = f"http://{host}:{port}"
        gate = stack.enter_context(S3Gate(url))
        _reset(url)
        yield Bucket(url, gate, environment)


def _reset(url: str) -> None:
    """Removes moto's objects, which otherwise remain for the life of the process."""
    urllib.request.urlopen(urllib.request.Request(f"{url}/moto-api/reset", method="POST")).close()  # noqa: S310


def assert_complete(bucket: Bucket, folder: Path, count: int, size: int, format: str = "tar") -> None:
    """Asserts that every object is in one shard, each shard has its manifest, and there are no other objects."""
    copy = bucket.copy(folder / "copy")
    expected = synthetic(count, size)
    assert (find_wrong(copy, expected, format), find_lost(copy, expected, format)) == ([], [])
    shards = [path.name.removesuffix(SUFFIXES[format]) for path in find_shards(copy, format)]
    manifests = sorted(path.name.removesuffix(".manifest") for path in (copy / ".fetchmill/index").iterdir())
    assert manifests == shards
    assert len(bucket.keys()) == 2 * len(shards)
    assert bucket.uploads() == []


def assert_cleared(state: Path) -> None:
    """Asserts that no shard is left on the local disk."""
    left = [path for path in (state / "shards").rglob("*") if path.is_file()]
    assert left == []


@pytest.mark.sampled(1)
@pytest.mark.parametrize("format", ["parquet", "tar", "warc", "jsonl"])
def test_every_format_is_uploaded_completely(
    run: Run, server: Serve, bucket: Bucket, tmp_path: Path, format: str
) -> None:
    """Shards and manifests have the same names and layout as in a folder. Nothing else is uploaded."""
    with server(synthetic=3_000) as source:
        options = ("--format", format, "--shard-size", "100KiB", "--json")
        ended = run("get", source.url, DEST, *options, env=bucket.environment)

    assert (ended.code, ended.err) == (0, "")
    assert_complete(bucket, tmp_path, 3_000, 100, format)
    assert_cleared(tmp_path / STATE)
    assert len(bucket.keys()) >= 2


def test_large_shard_is_uploaded_in_parts(run: Run, server: Serve, bucket: Bucket, tmp_path: Path) -> None:
    """The parts become one object."""
    with server(synthetic=COUNT, size=SIZE) as source:
        ended = run("get", source.url, DEST, *IN_PARTS, env=bucket.environment)

    assert (ended.code, ended.err) == (0, "")
    assert (bucket.gate.count("begin"), bucket.gate.count("part"), bucket.gate.count("complete")) == (1, 4, 1)
    assert_complete(bucket, tmp_path, COUNT, SIZE)
    head = bucket.client.head_object(Bucket=BUCKET, Key="run/shard-000000.tar")
    assert head["ETag"].endswith('-4"')


def test_repeated_command_uploads_nothing(run: Run, server: Serve, bucket: Bucket, tmp_path: Path) -> None:
    """A finished job sends no request to the source or the store."""
    with server(synthetic=500) as source:
        run("get", source.url, DEST, *WHOLE, env=bucket.environment)
        seen = len(bucket.gate.seen)
        again = run("get", source.url, DEST, *WHOLE, env=bucket.environment)

    assert (again.code, again.err, len(bucket.gate.seen)) == (0, "", seen)
    assert_complete(bucket, tmp_path, 500, 100)


MOMENTS = [  # before or after the first or second request of this kind, with these options
    ("list", "before", IN_PARTS),
    ("begin", "before", IN_PARTS),
    ("begin", "behind", IN_PARTS),
    ("part", "before", IN_PARTS),
    ("part", "behind", IN_PARTS),
    ("complete", "before", IN_PARTS),
    ("complete", "behind", IN_PARTS),
    ("manifest", "before", IN_PARTS),
    ("manifest", "behind", IN_PARTS),
    ("put", "before", WHOLE),
    ("put", "behind", WHOLE),
    ("manifest", "before", WHOLE),
]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("kind", "moment", "options"), MOMENTS, ids=[f"{kind}-{moment}-{options[3]}" for kind, moment, options in MOMENTS]
)
def test_kill_at_any_request_loses_and_duplicates_nothing(
    run: Run,
    start: Start,
    server: Serve,
    bucket: Bucket,
    tmp_path: Path,
    kind: str,
    moment: str,
    options: tuple[str, ...],
) -> None:
    """At the kill, all visible data is complete, and the next run finishes the job."""
    number = 1 if kind in ("list", "begin", "complete") or (options is IN_PARTS and kind == "manifest") else 2
    reached = threading.Event()

    def kill(request: Request, when: str) -> None:
        if request.kind == kind and when == moment and bucket.gate.count(kind) >= number:
            process.kill()
            reached.set()

    with server(synthetic=COUNT, size=SIZE) as source:
        bucket.gate.hook = lambda _request, _moment: time.sleep(0.01)
        process = start("get", source.url, DEST, *options, env=bucket.environment)
        bucket.gate.hook = kill
        assert process.wait(60) == -signal.SIGKILL
        assert reached.is_set()
        bucket.gate.hook = lambda _request, _moment: None
        seen = bucket.copy(tmp_path / "seen")
        assert not seen.exists() or find_wrong(seen, synthetic(COUNT, SIZE), "tar") == []
        ended = run("get", source.url, DEST, *options, env=bucket.environment)

    assert (ended.code, ended.err) == (0, "")
    assert_complete(bucket, tmp_path, COUNT, SIZE)
    assert_cleared(tmp_path / STATE)


@pytest.mark.one_in(3)
@pytest.mark.sampled(1)
@pytest.mark.parametrize("format", ["tar", "parquet"])
def test_random_kills_lose_and_duplicate_nothing(
    run: Run, start: Start, server: Serve, bucket: Bucket, tmp_path: Path, format: str
) -> None:
    """One job is killed several times at moments that the seed repeats."""
    moments = random.Random(SEED)
    options = ("--format", format, "--shard-size", "20KiB", "--seal-after", "100ms", "--concurrency", "16", "--quiet")
    with server(synthetic=1_500, delay=(0.0, 0.03)) as source:
        for _ in range(6):
            process = start("get", source.url, DEST, *options, env=bucket.environment)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(moments.uniform(0.2, 0.9))
            process.kill()
            process.wait()
        ended = run("get", source.url, DEST, *options, env=bucket.environment)

    assert (ended.code, ended.err) == (0, "")
    assert_complete(bucket, tmp_path, 1_500, 100, format)
    assert_cleared(tmp_path / STATE)


def test_interrupted_upload_is_aborted(run: Run, start: Start, server: Serve, bucket: Bucket, tmp_path: Path) -> None:
    """After SIGINT between two parts, the upload is aborted. The next run sends the parts again."""
    interrupted = threading.Lock()

    def interrupt(request: Request, when: str) -> None:
        if request.kind == "part" and when == "before":
            # The signal is sent once, because a second one would end the job without a request to the store.
            if interrupted.acquire(blocking=False):
                process.send_signal(signal.SIGINT)
            time.sleep(0.2)

    with server(synthetic=COUNT, size=SIZE) as source:
        process = start("get", source.url, DEST, *IN_PARTS, env=bucket.environment)
        bucket.gate.hook = interrupt
        assert process.wait(30) == 128 + signal.SIGINT
        bucket.gate.hook = lambda _request, _moment: None
        assert (bucket.uploads(), bucket.keys()) == ([], [])
        ended = run("get", source.url, DEST, *IN_PARTS, env=bucket.environment)

    assert (ended.code, ended.err) == (0, "")
    assert_complete(bucket, tmp_path, COUNT, SIZE)


@pytest.mark.thorough
@pytest.mark.parametrize("options", [IN_PARTS, WHOLE], ids=["parts", "whole"])
def test_busy_or_failing_store_is_retried(
    run: Run, server: Serve, bucket: Bucket, tmp_path: Path, options: tuple[str, ...]
) -> None:
    """Every request is refused once, with 503 SlowDown or 500 in turn."""
    refused: Counter[Request] = Counter()

    def refuse(request: Request, when: str) -> int | None:
        refused[request] += when == "before"
        return (503, 500)[len(refused) % 2] if refused[request] == 1 else None

    bucket.gate.hook = refuse
    with server(synthetic=COUNT, size=SIZE) as source:
        ended = run("get", source.url, DEST, *options, env=bucket.environment)

    assert (ended.code, ended.err) == (0, "")
    assert_complete(bucket, tmp_path, COUNT, SIZE)


@pytest.mark.thorough
def test_lost_upload_reply_creates_no_second_object(run: Run, server: Serve, bucket: Bucket, tmp_path: Path) -> None:
    """The store creates the object but answers 503. The next attempt finds that the object is identical."""
    lost: set[Request] = set()
    gate = bucket.gate

    def lose(request: Request, when: str) -> int | None:
        if request.kind in ("put", "manifest") and when == "before" and request not in lost:
            lost.add(request)
            copy = (tmp_path / STATE / "shards").rglob(request.key.rpartition("/")[2])
            bucket.client.put_object(Bucket=BUCKET, Key=request.key, Body=next(copy).read_bytes())
            return 503
        return None

    gate.hook = lose
    with server(synthetic=COUNT, size=SIZE) as source:
        ended = run("get", source.url, DEST, *WHOLE, env=bucket.environment)

    assert (ended.code, ended.err) == (0, "")
    assert len(lost) > 2
    assert_complete(bucket, tmp_path, COUNT, SIZE)


def test_foreign_object_is_never_replaced(run: Run, server: Serve, bucket: Bucket, tmp_path: Path) -> None:
    """The object appears after the job has begun. The job stops, and resumes once the object is moved away."""

    def plant(request: Request, when: str) -> None:
        if request.kind == "put" and when == "before" and bucket.gate.count("put") == 1:
            bucket.client.put_object(Bucket=BUCKET, Key=request.key, Body=b"foreign")

    bucket.gate.hook = plant
    with server(synthetic=COUNT, size=SIZE) as source:
        ended = run("get", source.url, DEST, *WHOLE, env=bucket.environment)
        assert ended.code == 10
        assert "s3://bucket/run/shard-000000.tar exists, but does not belong to this job" in ended.err
        assert bucket.client.get_object(Bucket=BUCKET, Key="run/shard-000000.tar")["Body"].read() == b"foreign"
        bucket.client.delete_object(Bucket=BUCKET, Key="run/shard-000000.tar")
        bucket.gate.hook = lambda _request, _moment: None
        ended = run("get", source.url, DEST, *WHOLE, env=bucket.environment)

    assert (ended.code, ended.err) == (0, "")
    assert_complete(bucket, tmp_path, COUNT, SIZE)


@pytest.mark.thorough
def test_local_disk_holds_at_most_two_shards_per_worker(
    run: Run, server: Serve, bucket: Bucket, tmp_path: Path
) -> None:
    """If the store answers slowly, the writer waits, and fetching waits, too."""
    most = 0

    def look(request: Request, _when: str) -> None:
        nonlocal most
        time.sleep(0.1 if request.kind == "put" else 0)
        shards = tmp_path / STATE / "shards"
        found = [*shards.glob("shard-*"), *shards.glob(".fetchmill/open/*.shard")]
        most = max(most, len(found))

    bucket.gate.hook = look
    with server(synthetic=20_000) as source:
        options = ("--format", "tar", "--shard-size", "2MiB", "--threads", "1", "--commit-window", "100ms", "--quiet")
        ended = run("get", source.url, DEST, *options, env=bucket.environment)

    assert (ended.code, ended.err, most) == (0, "", 2)
    assert_complete(bucket, tmp_path, 20_000, 100)


def test_job_ends_when_store_accepts_no_uploads(run: Run, server: Serve, bucket: Bucket, tmp_path: Path) -> None:
    """It ends after --give-up-after, with the exit code for temporary failures. The same command resumes it."""
    bucket.gate.hook = lambda request, when: 503 if request.kind == "put" and when == "before" else None
    with server(synthetic=COUNT, size=SIZE) as source:
        started = time.monotonic()
        ended = run("get", source.url, DEST, *WHOLE, "--give-up-after", "1s", env=bucket.environment)
        assert (ended.code, time.monotonic() - started < 30) == (5, True)
        assert re.search(r"cannot reach s3://bucket/run/ \(throttled: 503 SlowDown\)", ended.err)
        bucket.gate.hook = lambda _request, _moment: None
        ended = run("get", source.url, DEST, *WHOLE, env=bucket.environment)

    assert (ended.code, ended.err) == (0, "")
    assert_complete(bucket, tmp_path, COUNT, SIZE)


def test_credentials_without_write_permission_are_reported(run: Run, server: Serve, bucket: Bucket) -> None:
    """The error is one line with the store's message and what to check."""
    bucket.gate.hook = lambda request, when: 403 if request.kind == "put" and when == "before" else None
    with server(synthetic=10) as source:
        ended = run("get", source.url, DEST, *WHOLE, env=bucket.environment)

    assert (ended.code, ended.err.count("\n")) == (5, 1)
    assert "cannot upload s3://bucket/run/shard-000000.tar: the store responded 403" in ended.err


def test_missing_destination_bucket_is_refused_before_fetching(run: Run, server: Serve, bucket: Bucket) -> None:
    """The error is one line with the name of the bucket."""
    with server(synthetic=10) as source:
        ended = run("get", source.url, "s3://no-such-bucket/run/", *WHOLE, env=bucket.environment)
        assert source.stats()["connections"] == 0

    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert "NoSuchBucket" in ended.err


def test_prefix_with_foreign_objects_is_refused(run: Run, server: Serve, bucket: Bucket) -> None:
    """Neighbouring prefixes that only begin with the same characters are accepted."""
    bucket.client.put_object(Bucket=BUCKET, Key="running/other", Body=b"")
    with server(synthetic=10) as source:
        assert run("get", source.url, DEST, *WHOLE, env=bucket.environment).code == 0
        bucket.client.put_object(Bucket=BUCKET, Key="other/a b", Body=b"")
        ended = run("get", source.url, "s3://bucket/other/", *WHOLE, env=bucket.environment)

    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert "s3://bucket/other/ is not empty" in ended.err
    assert sorted(bucket.keys()) == [
        "other/a b",
        "run/.fetchmill/index/shard-000000.manifest",
        "run/shard-000000.tar",
        "running/other",
    ]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--format", "files"), "choose --format parquet, tar, warc or jsonl"),
        (("--format", "null"), "choose --format parquet, tar, warc or jsonl"),
        (("--format", "parquet", "--engine", "processes"), "use --engine native"),
        (("--format", "tar", "--shard-size", "65GiB"), "--shard-size must be at most 64 GiB"),
    ],
)
def test_options_unsupported_for_buckets_are_refused(
    run: Run, server: Serve, bucket: Bucket, tmp_path: Path, options: tuple[str, ...], told: str
) -> None:
    """The error is one line, and nothing is changed."""
    with server(synthetic=10) as source:
        ended = run("get", source.url, DEST, *options, env=bucket.environment)

    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert told in ended.err
    assert (bucket.keys(), bucket.gate.seen, (tmp_path / STATE).exists()) == ([], [], False)


def test_uploads_are_signed(run: Run, server: Serve, environment: dict[str, str], tmp_path: Path) -> None:
    """The store checks the signature of every request, including those with parts. Its clock is wrong."""
    with s3(clock_offset=-3600) as store, server(synthetic=9000, size=1000) as source:
        words = ("get", source.url, f"s3://{store.bucket}/run/", "--endpoint-url", store.url, "--format", "tar")
        ended = run(
            *words, "--shard-size", "9MiB", "--threads", "1", env=environment | store.environment(), cwd=tmp_path
        )
        stats, objects = store.stats(), store.objects()

    assert ended.code == 0, ended.err
    shards = {key: body for key, body in objects.items() if key.endswith(".tar")}
    members = []
    for body in shards.values():
        with tarfile.open(fileobj=io.BytesIO(body)) as shard:
            members += shard.getnames()
    assert len(members) == len(set(members)) == 9000
    assert stats["parts"] >= 2
    assert (stats["denied"], stats["heads"]) == (0, 0)


def test_status_finds_job_of_bucket(run: Run, server: Serve, bucket: Bucket, tmp_path: Path) -> None:
    """The job is found by its name in the working folder or with --state. Otherwise, the error is one line."""
    with server(synthetic=40) as source:
        state = tmp_path / "state"
        run("get", source.url, DEST, *WHOLE, "--state", state, env=bucket.environment)
        run("get", source.url, "s3://bucket/two", *WHOLE, env=bucket.environment)

    assert read_ledger(tmp_path / "two.fetchmill" / "shards", tmp_path / "two.fetchmill").settled == 40
    for arguments in [(DEST, "--state", state), ("s3://bucket/two/",)]:
        ended = run("status", *arguments)
        assert (ended.code, ended.err) == (0, "")
        assert "40" in ended.out
        assert str(arguments[0]) in ended.out
        assert run("status", *arguments, "--failures").code == 0
    missing = run("status", "s3://bucket/three/", env=bucket.environment)
    assert (missing.code, missing.err.count("\n")) == (2, 1)
    assert "--state DIR" in missing.err


@pytest.mark.parametrize("command", [("ls",), ("cat",), ("verify",), ("export",)], ids=" ".join)
def test_commands_that_read_objects_refuse_bucket_jobs(
    run: Run, server: Serve, bucket: Bucket, command: tuple[str, ...]
) -> None:
    """The error is one line that says where the objects are."""
    with server(synthetic=4) as source:
        run("get", source.url, DEST, *WHOLE, env=bucket.environment)
    more = {"cat": ("file-000000000000",), "export": ("out", "--format", "jsonl")}.get(command[0], ())
    ended = run(*command, DEST, *more)

    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert "the objects of this job are in s3://bucket/run/" in ended.err


def test_second_destination_with_same_state_folder_is_refused(run: Run, server: Serve, bucket: Bucket) -> None:
    """Both destinations have the same name and would use the same state folder."""
    with server(synthetic=4) as source:
        run("get", source.url, DEST, *WHOLE, env=bucket.environment)
        ended = run("get", source.url, "s3://bucket/another/run/", *WHOLE, env=bucket.environment)

    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert "its destination is s3://bucket/run/" in ended.err


def test_slow_job_merges_shards_before_upload(run: Run, server: Serve, bucket: Bucket, tmp_path: Path) -> None:
    """Small Parquet shards are merged before their upload, because uploaded shards are never replaced."""
    # The job takes four seconds, because shards may be sealed less often on a busy machine.
    with server(synthetic=1200, delay=(0.0, 0.06)) as source:
        options = ("--format", "parquet", "--seal-after", "50ms", "--concurrency", "8", "--threads", "1", "--quiet")
        ended = run("get", source.url, DEST, *options, env=bucket.environment)

    assert (ended.code, ended.err, bucket.gate.count("put")) == (0, "", 1)
    assert bucket.keys()[-1] >= "run/shard-000003"
    copy = bucket.copy(tmp_path / "copy")
    assert (find_wrong(copy, synthetic(1200), "parquet"), find_lost(copy, synthetic(1200), "parquet")) == ([], [])


def test_python_engine_writes_into_bucket(run: Run, server: Serve, bucket: Bucket, tmp_path: Path) -> None:
    """Uploads work with an engine in the command's own process, too."""
    with server(synthetic=300) as source:
        ended = run("get", source.url, DEST, *WHOLE, "--engine", "asyncio", env=bucket.environment)

    assert (ended.code, ended.err) == (0, "")
    assert_complete(bucket, tmp_path, 300, 100)


# A third of the 60 synthetic objects always return 404.
ABSENT = Fault("status", status=404, rate=0.3)
FAILURES_KEY = f"run/{FAILURES}"


def has_failures(bucket: Bucket) -> bool:
    """Returns whether the failures file exists in the bucket."""
    keys = bucket.keys()
    return FAILURES_KEY in keys


def killing(process: "subprocess.Popen[str]", kind: str, moment: str) -> Hook:
    """Returns a hook that kills the command before or after the first request of this kind."""

    def kill(request: Request, when: str) -> int | None:
        if request.kind == kind and when == moment:
            process.kill()
            return 503
        return None

    return kill


def read_failures(bucket: Bucket) -> list[dict[str, Any]]:
    """Returns the lines of the failures file."""
    text = bucket.client.get_object(Bucket=BUCKET, Key=FAILURES_KEY)["Body"].read()
    return [json.loads(line) for line in text.splitlines()]


def assert_all_told(run: Run, bucket: Bucket, state: Path, count: int) -> None:
    """Asserts that each object is either in a shard or in the failures file."""
    names = [line["name"] for line in read_failures(bucket)]
    assert len(names) == len(set(names))
    shown = run("status", DEST, "--json", env=bucket.environment)
    status = json.loads(shown.out)
    assert (status["listed"], status["fetched"] + len(names)) == (count, count)
    assert bucket.uploads() == []
    assert_cleared(state)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("format", ["parquet", "tar", "warc", "jsonl"])
def test_failures_file_is_uploaded_last_and_once(
    run: Run, server: Serve, bucket: Bucket, tmp_path: Path, format: str
) -> None:
    """Running the same command again sends nothing."""
    with server(synthetic=60, faults=[ABSENT]) as source:
        ended = run("get", source.url, DEST, "--format", format, "--quiet", env=bucket.environment)
        seen = list(bucket.gate.seen)
        again = run("get", source.url, DEST, "--format", format, "--quiet", env=bucket.environment)

    assert (ended.code, again.code) == (3, 3), ended.err
    assert seen[-1].kind == "failures"
    assert bucket.gate.seen == seen
    assert_all_told(run, bucket, tmp_path / STATE, 60)
    assert {line["outcome"] for line in read_failures(bucket)} == {"absent"}
    copy = bucket.copy(tmp_path / "copy")
    assert find_wrong(copy, synthetic(60, 100), format) == []


@pytest.mark.thorough
def test_large_failures_file_is_uploaded_in_parts(run: Run, start: Start, bucket: Bucket, tmp_path: Path) -> None:
    """After a kill between two parts, all parts are sent again, and the earlier ones are removed from the store."""
    count = 60_000
    (tmp_path / "list.txt").write_text("".join(f"no url {line} {'x' * 100}\n" for line in range(count)))
    arguments = ("get", "list.txt", DEST, "--format", "tar", "--quiet", "--durability", "process")
    killed = threading.Event()

    def kill(request: Request, when: str) -> None:
        if request.kind == "part" and when == "behind" and not killed.is_set():
            process.kill()
            killed.set()

    bucket.gate.hook = lambda _request, _moment: time.sleep(0.01)
    process = start(*arguments, env=bucket.environment)
    bucket.gate.hook = kill
    assert process.wait(60) == -signal.SIGKILL
    assert bucket.uploads() == [FAILURES_KEY]

    ended = run(*arguments, env=bucket.environment)

    assert ended.code == 3, ended.err
    assert bucket.gate.count("part") >= 3
    assert sorted(line["sequence"] for line in read_failures(bucket)) == list(range(count))
    assert_all_told(run, bucket, tmp_path / STATE, count)


@pytest.mark.parametrize("moment", ["before", "behind"])
def test_kill_at_failures_file_upload_leaves_one_file(
    run: Run, start: Start, server: Serve, bucket: Bucket, tmp_path: Path, moment: str
) -> None:
    """The next run sends the file or finds that it is identical. It needs no permission to delete."""
    with server(synthetic=60, faults=[ABSENT]) as source:
        arguments = ("get", source.url, DEST, "--format", "tar", "--quiet")
        bucket.gate.hook = lambda _request, _moment: time.sleep(0.05)
        process = start(*arguments, env=bucket.environment)
        bucket.gate.hook = killing(process, "failures", moment)
        assert process.wait(60) == -signal.SIGKILL
        assert has_failures(bucket) == (moment == "behind")
        bucket.gate.hook = lambda _request, _moment: None
        ended = run(*arguments, env=bucket.environment)

    assert ended.code == 3, ended.err
    assert bucket.gate.count("delete") == 0
    assert_all_told(run, bucket, tmp_path / STATE, 60)


def test_retry_run_removes_failures_file_before_fetching(
    run: Run, start: Start, raw: Raw, bucket: Bucket, tmp_path: Path
) -> None:
    """After a kill before or after the removal, the next run continues. At the end, the file is current or absent."""
    names = [f"{number}" for number in range(60)]
    site = raw(mirror(names, dict.fromkeys(names[:20], reply(status="500 Broken"))))
    arguments = ("get", site.url, DEST, "--format", "tar", "--quiet", "--attempts", "1")
    assert run(*arguments, env=bucket.environment).code == 3
    assert {line["name"] for line in read_failures(bucket)} == set(names[:20])
    asked = site.asked()
    for moment in ("before", "behind"):
        bucket.gate.hook = lambda _request, _moment: time.sleep(0.05)
        process = start(*arguments, "--retry-failed", env=bucket.environment)
        bucket.gate.hook = killing(process, "delete", moment)
        assert process.wait(60) == -signal.SIGKILL
        assert has_failures(bucket) == (moment == "before")
        assert site.asked() == asked
    bucket.gate.hook = lambda _request, _moment: None
    site.routes.update(mirror(names[5:]))

    ended = run(*arguments, env=bucket.environment)

    assert ended.code == 3, ended.err
    assert {line["name"] for line in read_failures(bucket)} == set(names[:5])
    assert_all_told(run, bucket, tmp_path / STATE, 60)
    site.routes.update(mirror(names))
    ended = run(*arguments, "--retry-failed", env=bucket.environment)
    assert (ended.code, ended.err) == (0, "")
    assert not has_failures(bucket)
    assert_cleared(tmp_path / STATE)


def test_foreign_failures_file_is_not_removed(run: Run, server: Serve, bucket: Bucket, tmp_path: Path) -> None:
    """The same holds without permission to delete.

    The error names the permission, and the job resumes once it is granted.
    """
    with server(synthetic=60, faults=[Fault("status", status=500, times=1, rate=0.3)]) as source:
        arguments = ("get", source.url, DEST, "--format", "tar", "--quiet", "--attempts", "1")
        assert run(*arguments, env=bucket.environment).code == 3
        good = bucket.client.get_object(Bucket=BUCKET, Key=FAILURES_KEY)["Body"].read()
        bucket.client.put_object(Bucket=BUCKET, Key=FAILURES_KEY, Body=good[:-2] + b"x\n")

        refused = run(*arguments, "--retry-failed", env=bucket.environment)

        assert refused.code == 10, refused.err
        assert f"s3://{BUCKET}/{FAILURES_KEY} exists, but does not belong to this job" in refused.err
        assert bucket.client.get_object(Bucket=BUCKET, Key=FAILURES_KEY)["Body"].read() == good[:-2] + b"x\n"
        bucket.client.put_object(Bucket=BUCKET, Key=FAILURES_KEY, Body=good)
        bucket.gate.hook = lambda request, when: 403 if request.kind == "delete" and when == "before" else None
        refused = run(*arguments, env=bucket.environment)
        assert (refused.code, refused.err.count("\n")) == (5, 1)
        assert f"cannot remove s3://{BUCKET}/{FAILURES_KEY}: the store responded 403" in refused.err
        assert "s3:DeleteObject" in refused.err
        bucket.gate.hook = lambda _request, _moment: None
        ended = run(*arguments, env=bucket.environment)

    assert (ended.code, ended.err) == (0, "")
    assert_complete(bucket, tmp_path, 60, 100)


def test_failures_file_requests_are_signed(run: Run, raw: Raw, environment: dict[str, str], tmp_path: Path) -> None:
    """The store checks the signatures of requests that read and remove the file."""
    names = [f"{number}" for number in range(30)]
    site = raw(mirror(names, dict.fromkeys(names[:10], reply(status="404 No"))))
    with s3(clock_offset=3600) as store:
        words = ("get", site.url, f"s3://{store.bucket}/run/", "--endpoint-url", store.url, "--format", "jsonl")
        settings: dict[str, Any] = {"env": environment | store.environment(), "cwd": tmp_path}
        failed = run(*words, **settings)
        told = store.objects()[FAILURES_KEY]
        site.routes.update(mirror(names))
        mended = run(*words, "--retry-failed", **settings)
        stats, objects = store.stats(), store.objects()

    assert (failed.code, mended.code) == (3, 0), mended.err
    assert {json.loads(line)["name"] for line in told.splitlines()} == set(names[:10])
    assert FAILURES_KEY not in objects
    assert stats["denied"] == 0
