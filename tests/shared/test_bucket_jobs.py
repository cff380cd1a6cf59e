"""Shared jobs with their directory in a bucket: workers share only the list, the store and its credentials."""

import json
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest

import fetchmill
import fetchmill.shared_jobs
from conftest import Ended
from fetchmill.testing import S3Store, Server, s3, synthetic_body
from s3_gate import Request, S3Gate
from s3_requests import client
from s3_stores import Versitygw, keys_of
from shared_jobs import final_rows_of_bucket, write_list

Run = Callable[..., Ended]
Start = Callable[..., "subprocess.Popen[str]"]

JOB = "s3://bucket/some/run"
OPTIONS = ("--shared", "--allow-private", "--lease", "2s", "-j", "32", "--format")


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Store]:
    """Returns an S3 store. This process has its credentials."""
    with s3() as store:
        for name, value in store.environment().items():
            monkeypatch.setenv(name, value)
        yield store


@pytest.fixture
def own(store: S3Store, environment: dict[str, str]) -> dict[str, str]:
    """Returns an environment with the store's credentials."""
    return environment | store.environment()


def wait_for(what: Callable[[], bool], process: "subprocess.Popen[str]") -> None:
    """Waits for a condition while a process runs."""
    deadline = time.monotonic() + 60
    while not what() and process.poll() is None:
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.05)


def has_fetched(store: S3Store, count: int) -> bool:
    """Returns whether attempts without a commit record have fetched more than this number of objects."""
    has_job = "some/run/job.json" in store.objects()
    return has_job and fetchmill.shared_jobs.status(JOB).in_progress["fetched"] > count


def assert_only_final(store: S3Store) -> None:
    """Asserts that only data with a commit record is left, and no unfinished upload."""
    named = set()
    for key, body in store.objects().items():
        if "/commits/" in key:
            record = json.loads(body)
            named.add(f"{record['file']:05}-{record['range'][0]:014}-{record['attempt']}")
    assert {key.split("/")[3] for key in store.objects() if "/data/" in key} == named
    with closing(client(store)) as boto:
        assert boto.list_multipart_uploads(Bucket="bucket").get("Uploads", []) == []


def test_bucket_job_survives_killed_drained_and_late_workers(
    store: S3Store, own: dict[str, str], server: Callable[..., Server], run: Run, start: Start, tmp_path: Path
) -> None:
    """One of three workers is killed and one is drained; another one finishes. Each object is stored once."""
    served = server(synthetic=16_000, delay=(0.01, 0.02))
    urls = write_list(tmp_path / "urls.txt", served, 16_000)
    workers = [start("get", "urls.txt", JOB, *OPTIONS, "parquet", env=own) for _ in range(3)]
    wait_for(lambda: has_fetched(store, 500), workers[0])
    workers[0].kill()
    workers[1].send_signal(signal.SIGTERM)
    assert workers[1].wait(60) == 128 + signal.SIGTERM
    workers[2].kill()

    ended = run("join", JOB, env=own)

    assert ended.code == 0, ended.err
    assert final_rows_of_bucket(store) == Counter(urls)
    assert_only_final(store)
    status = fetchmill.shared_jobs.status(JOB)
    assert (status.finished, status.ledger["fetched"], status.bytes_done) == (True, len(urls), status.bytes_of_list)
    assert status.dest == f"{JOB}/"
    # Another current folder, as on another machine.
    elsewhere = {"env": own, "cwd": tmp_path.parent}
    assert run("verify", JOB, **elsewhere).code == 0
    assert sorted(run("ls", JOB, **elsewhere).out.split()) == urls
    assert run("cat", JOB, urls[7], **elsewhere).out == synthetic_body("file-000000000007", 100).decode()
    with fetchmill.open(JOB) as objects:
        assert len(objects) == pa.table(objects).num_rows == len(urls)
    log = next(body for key, body in store.objects().items() if "/logs/" in key)
    assert b"is working on s3://bucket/some/run" in log


def test_stopped_bucket_job_resumes(
    store: S3Store, own: dict[str, str], server: Callable[..., Server], run: Run, start: Start, tmp_path: Path
) -> None:
    """After `stop`, the workers exit with 0. `resume` continues the job, and every command may name the endpoint."""
    served = server(synthetic=8_000, delay=(0.02, 0.02))
    urls = write_list(tmp_path / "urls.txt", served, 8_000)
    endpoint = ("--endpoint-url", store.url)
    without = {name: value for name, value in own.items() if not name.startswith("AWS_ENDPOINT_URL")}
    worker = start("get", "urls.txt", JOB, *OPTIONS, "parquet", *endpoint, "--rate", "500", env=without)
    wait_for(lambda: has_fetched(store, 100), worker)

    assert run("set", JOB, "--rate", "400", *endpoint, env=without).code == 0
    assert run("stop", JOB, *endpoint, env=without).code == 0
    assert worker.wait(60) == 0
    stopped = run("status", JOB, env=own)
    assert "stopped; fetchmill resume s3://bucket/some/run/ continues the job" in stopped.out
    assert not fetchmill.shared_jobs.status(JOB).finished
    assert run("set", JOB, "--rate", "50000", *endpoint, env=without).code == 0
    assert run("resume", JOB, *endpoint, env=without).code == 0
    assert final_rows_of_bucket(store) == Counter(urls)
    # Workers send their credentials to the endpoint, so the job record must not choose it.
    assert store.url.encode() not in store.objects()["some/run/job.json"]


def test_simultaneous_starters_create_one_bucket_job(
    store: S3Store, own: dict[str, str], server: Callable[..., Server], run: Run, start: Start, tmp_path: Path
) -> None:
    """Processes that start at the same time create one job.

    A process with different options is refused with their names.
    """
    urls = write_list(tmp_path / "urls.txt", server(synthetic=1_000), 1_000)
    workers = [start("get", "urls.txt", JOB, *OPTIONS, "parquet", env=own) for _ in range(3)]

    assert [worker.wait(60) for worker in workers] == [0] * 3
    assert final_rows_of_bucket(store) == Counter(urls)
    assert_only_final(store)
    other = run("get", "urls.txt", JOB, *OPTIONS, "jsonl", env=own)
    assert (other.code, "format is 'parquet' in the job at" in other.err) == (2, True)


def test_each_worker_uses_its_own_credentials(
    store: S3Store, own: dict[str, str], server: Callable[..., Server], run: Run, tmp_path: Path
) -> None:
    """Credentials are never stored in the bucket. A worker without them gets an error that names them."""
    served = server(synthetic=10)
    write_list(tmp_path / "urls.txt", served, 10)
    secret = ("--bearer", "s3cret-token", "--credentials-for", served.url)
    assert run("get", "urls.txt", JOB, *OPTIONS, "parquet", *secret, env=own).code == 0

    for key, body in store.objects().items():
        assert own["AWS_SECRET_ACCESS_KEY"].encode() not in body, key
        assert own["AWS_ACCESS_KEY_ID"].encode() not in body, key
        assert b"s3cret" not in body, key
    without = run("join", JOB, env=own | {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""})
    assert (without.code, "give credentials (AWS_ACCESS_KEY_ID" in without.err) == (2, True), without.err
    without = run("join", JOB, env=own)
    assert (without.code, "needs bearer" in without.err) == (2, True), without.err
    assert run("join", JOB, *secret[:2], env=own).code == 0


def test_job_record_with_endpoint_is_refused(
    store: S3Store, own: dict[str, str], server: Callable[..., Server], run: Run, tmp_path: Path
) -> None:
    """Otherwise, workers would send their requests, including session tokens, to that endpoint."""
    write_list(tmp_path / "urls.txt", server(synthetic=10), 10)
    assert run("get", "urls.txt", JOB, *OPTIONS, "parquet", env=own).code == 0
    record = json.loads(store.objects()["some/run/job.json"])
    record["options"]["endpoint_url"] = "http://127.0.0.1:9"
    store.put("some/run/job.json", json.dumps(record).encode())

    ended = run("join", JOB, env=own)

    assert (ended.code, "contains endpoint_url" in ended.err) == (6, True), ended.err


@pytest.mark.parametrize("format", ["tar", "warc", "jsonl"])
@pytest.mark.sampled(1)
def test_bucket_job_results_are_readable_in_every_format(
    format: str, own: dict[str, str], server: Callable[..., Server], run: Run, tmp_path: Path
) -> None:
    """Objects, failures and skipped targets are those of a job on one machine."""
    url = server(synthetic=100).url
    lines = [f"{url}/get/file-{number:012}" for number in range(60)]
    (tmp_path / "urls.txt").write_text("\n".join([*lines, f"{url}/get/nothing", "no url"]))
    shared = run("get", "urls.txt", JOB, *OPTIONS, format, env=own)
    single = run("get", "urls.txt", "out", "--allow-private", "--format", format)

    assert (shared.code, single.code) == (0, 3), shared.err
    with fetchmill.open(JOB) as objects:
        assert objects.format == format
        assert sorted(objects.items()) == sorted(fetchmill.open(tmp_path / "out").items())
        assert objects.length(lines[3]) == len(objects[lines[3]])
        assert "nothing" not in objects
    kinds = [sorted(each.kind for each in fetchmill.failures(dest)) for dest in (JOB, tmp_path / "out")]
    assert kinds[0] == kinds[1]
    failures = run("status", JOB, "--failures", env=own)
    assert (failures.code, len(failures.out.splitlines())) == (0, 2)
    assert run("verify", JOB, env=own).code == 0


def test_verify_finds_damaged_shard_in_bucket(
    store: S3Store, own: dict[str, str], server: Callable[..., Server], run: Run, tmp_path: Path
) -> None:
    """`verify` reads the objects in the bucket instead of trusting the job's records."""
    write_list(tmp_path / "urls.txt", server(synthetic=100), 100)
    assert run("get", "urls.txt", JOB, *OPTIONS, "tar", env=own).code == 0
    key, body = next((key, body) for key, body in store.objects().items() if key.endswith(".tar"))
    store.put(key, body[:1000] + bytes([body[1000] ^ 1]) + body[1001:])

    ended = run("verify", JOB, env=own)

    assert (ended.code, "cannot be repaired" in ended.err) == (10, True)
    assert "--repair" not in ended.err


def test_multipart_uploads_of_dead_workers_are_aborted(
    store: S3Store, own: dict[str, str], server: Callable[..., Server], run: Run, start: Start, tmp_path: Path
) -> None:
    """A worker is killed in the middle of a large shard. Nothing of it is left when the job is finished."""
    served = server(synthetic=300, size=100_000)
    urls = write_list(tmp_path / "urls.txt", served, 300)
    with S3Gate(store.url) as gate:
        behind = own | {"AWS_ENDPOINT_URL": gate.url, "AWS_ENDPOINT_URL_S3": gate.url}
        worker = start("get", "urls.txt", JOB, *OPTIONS, "tar", "--threads", "1", env=behind)

        def kill(request: Request, moment: str) -> None:
            if (request.kind, moment) == ("part", "behind"):
                worker.kill()

        gate.hook = kill
        assert worker.wait(60) == -signal.SIGKILL
    with closing(client(store)) as boto:
        assert boto.list_multipart_uploads(Bucket="bucket")["Uploads"]

    assert run("join", JOB, env=own).code == 0
    assert_only_final(store)
    assert sorted(fetchmill.open(JOB)) == urls


def test_every_command_accepts_endpoint_url(
    store: S3Store, own: dict[str, str], server: Callable[..., Server], run: Run, tmp_path: Path
) -> None:
    """If the environment has no endpoint, every command that reads or changes a job accepts it as an option."""
    (url, *_) = write_list(tmp_path / "urls.txt", server(synthetic=10), 10)
    without = {name: value for name, value in own.items() if not name.startswith("AWS_ENDPOINT_URL")}
    endpoint = ("--endpoint-url", store.url, "--region", store.region)
    assert run("get", "urls.txt", JOB, *OPTIONS, "parquet", *endpoint, env=without).code == 0
    (tmp_path / "more.txt").write_text("http://127.0.0.1:9/\n")

    found = {}
    for command in (
        ("ls", JOB),
        ("cat", JOB, url),
        ("verify", JOB),
        ("status", JOB),
        ("status", JOB, "--watch"),
        ("status", JOB, "--metrics"),
        ("status", JOB, "--failures"),
        ("status", JOB, "--skipped"),
        ("report", JOB),
        ("export", JOB, "all", "--format", "tar"),
        ("stop", JOB),
        ("set", JOB, "--rate", "5000"),
        ("extend", JOB, "more.txt"),
        ("resume", JOB),
        ("join", JOB),
    ):
        ended = run(*command, *endpoint, env=without)
        found[command[0]] = ended.out
        # The added target fails.
        assert ended.code == (3 if command[0] == "resume" else 0), (command, ended.err)

    assert found["cat"] == synthetic_body("file-000000000000", 100).decode()
    assert "finished" in found["report"]


@pytest.mark.thorough
def test_independent_store_holds_shared_job(
    versitygw: Versitygw,
    environment: dict[str, str],
    server: Callable[..., Server],
    run: Run,
    start: Start,
    tmp_path: Path,
) -> None:
    """Two of three workers are killed or drained; another worker finishes the job."""
    own = environment | versitygw.environment() | {"AWS_ENDPOINT_URL": versitygw.endpoint}
    served = server(synthetic=8_000, delay=(0.01, 0.02))
    urls = write_list(tmp_path / "urls.txt", served, 8_000)
    job = f"s3://{versitygw.bucket}/some/run"
    workers = [start("get", "urls.txt", job, *OPTIONS, "parquet", env=own) for _ in range(3)]
    time.sleep(2)
    workers[0].kill()
    workers[1].send_signal(signal.SIGTERM)
    assert workers[1].wait(60) in (0, 128 + signal.SIGTERM)
    workers[2].kill()

    ended = run("join", job, env=own)
    assert ended.code == 0, ended.err
    assert sorted(run("ls", job, env=own).out.split()) == urls
    verified = run("verify", job, env=own)
    assert verified.code == 0, verified.out
    exported = run("export", job, "all", "--format", "tar", "--quiet", env=own)
    assert (exported.code, exported.err) == (0, "")
    with fetchmill.open(tmp_path / "all") as objects:
        assert sorted(objects) == urls
    keys = keys_of(versitygw, "some/run/")
    assert len({key.split("/")[3] for key in keys if "/data/" in key}) == sum("/commits/" in key for key in keys)


REFUSED = [
    (("--format", "null"), "stores shards"),
    (("--format", "files"), "stores shards"),
    (("--format", "parquet", "--keep-failed"), "not a bucket"),
    (("--format", "warc", "--cdxj"), "not a bucket"),
]


@pytest.mark.parametrize(("options", "message"), REFUSED)
def test_options_unsupported_for_bucket_jobs_are_refused(
    options: tuple[str, ...], message: str, store: S3Store, own: dict[str, str], run: Run, tmp_path: Path
) -> None:
    """The error comes before anything is written."""
    (tmp_path / "urls.txt").write_text("http://127.0.0.1:9/\n")

    ended = run("get", "urls.txt", JOB, "--shared", *options, env=own)

    assert (ended.code, message in ended.err) == (2, True), ended.err
    assert store.objects() == {}


FAULTS = ("kill", "freeze", "drain", "late", "stop", "outage")
COUNT = 4_000


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", range(30))
def test_faults_of_store_lose_and_duplicate_nothing(
    seed: int,
    store: S3Store,
    own: dict[str, str],
    server: Callable[..., Server],
    run: Run,
    start: Start,
    tmp_path: Path,
) -> None:
    """Workers die. The store refuses requests, fails after it has executed them, and loses replies."""
    rng = random.Random(seed)
    served = server(synthetic=COUNT, delay=(0.0, 0.02))
    urls = write_list(tmp_path / "urls.txt", served, COUNT)
    command = ("get", "urls.txt", JOB, *OPTIONS, "parquet")
    with S3Gate(store.url) as gate:
        faults = StoreFaults(rng.random())
        gate.hook = faults
        behind = own | {"AWS_ENDPOINT_URL": gate.url, "AWS_ENDPOINT_URL_S3": gate.url}
        workers = [start(*command, env=behind) for _ in range(rng.randint(1, 3))]
        for _ in range(rng.randint(2, 4)):
            time.sleep(rng.uniform(0.2, 1.0))
            living = [worker for worker in workers if worker.poll() is None]
            fault = rng.choice(FAULTS)
            if fault == "late":
                workers.append(start(*command, env=behind))
            elif fault == "stop":
                run("stop", JOB, env=own)
            elif fault == "outage":
                faults.ends_at = time.monotonic() + rng.uniform(0.5, 3)
            elif living:
                numbers = {"kill": signal.SIGKILL, "freeze": signal.SIGSTOP, "drain": signal.SIGTERM}
                rng.choice(living).send_signal(numbers[fault])
        faults.share = 0.02
        ended = run(*(("resume", JOB) if "some/run/job.json" in store.objects() else command), env=behind)
        for worker in workers:
            worker.send_signal(signal.SIGCONT)
        for worker in workers:
            worker.wait(60)

    assert ended.code == 0, (seed, ended.err)
    # A worker that was frozen until the end of the job may have left data.
    assert run("resume", JOB, env=own).code == 0
    assert final_rows_of_bucket(store) == Counter(urls), seed
    assert_only_final(store)
    status = fetchmill.shared_jobs.status(JOB)
    assert (status.finished, status.ledger["fetched"], status.set_aside) == (True, COUNT, ()), seed


class StoreFaults:
    """Faults of a store: some requests fail before or after they are executed, and some replies are lost."""

    def __init__(self, seed: float) -> None:
        self._rng = random.Random(seed)
        self.share = 0.05
        # Until this time, every request is refused.
        self.ends_at = 0.0

    def __call__(self, request: Request, moment: str) -> int | None:
        """Returns the status that replaces the store's reply, if any."""
        del request
        if time.monotonic() < self.ends_at:
            return 503
        if self._rng.random() >= self.share:
            return None
        return self._rng.choice((503, 500) if moment == "before" else (500, S3Gate.LOST))


def test_server_and_bucket_are_listed_into_bucket_job(
    store: S3Store, own: dict[str, str], server: Callable[..., Server], run: Run, start: Start
) -> None:
    """One of three simultaneous processes lists the source. The others copy its list from the job directory."""
    served = server(synthetic=3_000)
    workers = [start("get", served.url, JOB, *OPTIONS, "parquet", env=own) for _ in range(3)]

    assert [worker.wait(60) for worker in workers] == [0] * 3

    names = [f"file-{number:012}" for number in range(3_000)]
    assert final_rows_of_bucket(store) == Counter(names)
    assert len([key for key in store.objects() if key.startswith("some/run/list/")]) == 1
    assert_only_final(store)
    assert run("verify", JOB, env=own).code == 0
    again = run("get", served.url, JOB, *OPTIONS, "parquet", env=own)
    assert (again.code, again.err.count("lists ")) == (0, 0), again.err

    copy = run("get", "s3://bucket/some/run/list/", "s3://bucket/copy", "--shared", "--format", "tar", env=own)
    assert copy.code == 0, copy.err
    with fetchmill.open("s3://bucket/copy") as objects:
        (name,) = objects
        assert objects[name] == store.objects()[f"some/run/list/{name.rpartition('/')[2]}"]


def test_process_killed_while_listing_into_bucket_is_replaced(
    store: S3Store, own: dict[str, str], server: Callable[..., Server], start: Start
) -> None:
    """A waiting process lists the source instead."""
    served = server(synthetic=2_000, page_size=100, list_delay=(0.1, 0.1))
    command = ("get", served.url, JOB, *OPTIONS, "parquet")
    first = start(*command, env=own)
    while not any("/claims/listing." in key for key in store.objects()):
        time.sleep(0.02)
    second = start(*command, env=own)
    time.sleep(0.5)
    first.kill()

    assert second.wait(60) == 0
    assert final_rows_of_bucket(store) == Counter(f"file-{number:012}" for number in range(2_000))


def test_job_record_with_foreign_list_path_is_refused(
    store: S3Store, own: dict[str, str], server: Callable[..., Server], run: Run
) -> None:
    """The author of `job.json` must not make workers read other objects with their credentials."""
    assert run("get", server(synthetic=10).url, JOB, *OPTIONS, "parquet", env=own).code == 0
    key = "some/run/job.json"
    job = json.loads(store.objects()[key])
    with closing(client(store)) as boto:
        for name in ("s3://bucket/secret.parquet", f"{JOB}/list/../../secret.parquet"):
            job["files"][0]["path"] = name
            boto.put_object(Bucket="bucket", Key=key, Body=json.dumps(job).encode())
            for commit in [key for key in store.objects() if "/commits/" in key]:
                boto.delete_object(Bucket="bucket", Key=commit)

            ended = run("join", JOB, env=own)

            assert (ended.code, "is not in the job directory" in ended.err) == (6, True), ended.err
