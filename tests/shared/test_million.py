"""Three machines fetch a million objects. DuckDB compares names, bytes and ledger with a job on one machine.

`make shared-long` runs these tests. FETCHMILL_SHARED_COUNT sets a different number of objects.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

import fetchmill
import fetchmill.shared_jobs
from fetchmill.shared_jobs import SharedStatus
from fetchmill_bench.versitygw import ACCESS_KEY, ENVIRONMENT, REGION, SECRET_KEY, find_program
from nodes import HUB, URL, Cluster, cluster
from ray_rig import URL as RAY_URL
from ray_rig import ray_rig

pytestmark = pytest.mark.long

COUNT = int(os.environ.get("FETCHMILL_SHARED_COUNT", "1000000"))
OPTIONS = ("--allow-private", "--format", "parquet")
COUNTS = ("listed", "fetched", "absent", "failed", "skipped", "bytes")
STORE_PORT = 9000
LIMIT_SECONDS = 1800


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Returns an empty folder for namespaces."""
    path = tmp_path / "network"
    path.mkdir()
    return path


@pytest.fixture
def machines(folder: Path) -> Iterator[Cluster]:
    """Returns three machines and a server."""
    with cluster(folder, 3, objects=COUNT) as found:
        yield found


def write_urls(path: Path, url: str) -> Path:
    """Writes a list of all objects."""
    path.write_text("".join(f"{url}/get/file-{number:012}\n" for number in range(COUNT)))
    return path


def say(line: str) -> None:
    """Prints a line if pytest does not capture the output."""
    sys.stderr.write(f"{line}\n")


def wait_for(*processes: "subprocess.Popen[str]") -> float:
    """Waits for commands to succeed, and returns the time in seconds."""
    started = time.monotonic()
    for process in processes:
        _, err = process.communicate(timeout=LIMIT_SECONDS)
        assert process.returncode == 0, err
    return time.monotonic() - started


def size_of(relation: duckdb.DuckDBPyRelation) -> int:
    """Returns the number of rows."""
    (count,) = relation.count("*").fetchall()[0]
    return int(count)


def assert_same(single: Path, shards: str, status: SharedStatus) -> None:
    """Asserts that the rows and the ledger of a shared job equal those of a job on one machine."""
    one, other = (
        duckdb.read_parquet(pattern).project("name, md5(body) AS sum") for pattern in (f"{single}/*.parquet", shards)
    )
    assert [size_of(each) for each in (one, other, other.project("name").distinct())] == [COUNT] * 3
    assert (size_of(one.except_(other)), size_of(other.except_(one))) == (0, 0)
    report = fetchmill.status(single)
    assert {name: status.ledger[name] for name in COUNTS} == {name: getattr(report, name) for name in COUNTS}
    assert status.finished


def test_three_machines_with_folder_equal_single_machine(machines: Cluster, tmp_path: Path) -> None:
    """The job directory is a shared folder. The source is a list, or a server that lists its objects."""
    urls = write_urls(tmp_path / "urls.txt", URL)
    alone = wait_for(machines.nodes[0].start("get", urls, tmp_path / "single", *OPTIONS))
    by_list, by_server = tmp_path / "by-list", tmp_path / "by-server"

    shared = wait_for(*(node.start("get", urls, by_list, *OPTIONS, "--shared") for node in machines.nodes))
    command = ("get", URL, by_server, "--format", "parquet", "--shared")
    listed = wait_for(*(node.start(*command) for node in machines.nodes))

    say(f"{COUNT:,} objects: one machine {alone:.1f} s, three {shared:.1f} s, listed by one of three {listed:.1f} s")
    assert_same(tmp_path / "single", f"{by_list}/data/*/*.parquet", fetchmill.shared_jobs.status(by_list))
    wait_for(machines.nodes[0].start("get", URL, tmp_path / "single-server", "--format", "parquet"))
    status = fetchmill.shared_jobs.status(by_server)
    assert_same(tmp_path / "single-server", f"{by_server}/data/*/*.parquet", status)


@pytest.mark.needs_versitygw
def test_three_machines_with_bucket_equal_single_machine(machines: Cluster, tmp_path: Path) -> None:
    """The job directory is in a bucket of versitygw. Otherwise, the machines share only the list."""
    urls = write_urls(tmp_path / "urls.txt", URL)
    alone = wait_for(machines.nodes[0].start("get", urls, tmp_path / "single", *OPTIONS))
    bucket = tmp_path / "store" / "bucket"
    bucket.mkdir(parents=True)
    endpoint = f"http://{HUB}:{STORE_PORT}"
    environment = {**os.environ, **ENVIRONMENT, "AWS_ENDPOINT_URL": endpoint}
    listen = ("--port", f"{HUB}:{STORE_PORT}", "--region", REGION, "--access", ACCESS_KEY, "--secret", SECRET_KEY)
    serve = (find_program(), "--keep-alive", "--quiet", *listen, "posix", bucket.parent)

    with machines.hub.running(*serve, ready=STORE_PORT, HOME=str(tmp_path)):
        command = ("get", urls, "s3://bucket/run", *OPTIONS, "--shared")
        shared = wait_for(*(node.start(*command, environment=environment) for node in machines.nodes))

    say(f"{COUNT:,} objects: one machine {alone:.1f} s, three with a bucket {shared:.1f} s")
    # The store keeps each object as a file.
    status = fetchmill.shared_jobs.status(bucket / "run")
    assert_same(tmp_path / "single", f"{bucket}/run/data/*/*.parquet", status)


def test_ray_cluster_equals_single_machine(folder: Path, tmp_path: Path) -> None:
    """The cluster has a head and two worker nodes."""
    urls = write_urls(tmp_path / "urls.txt", RAY_URL)
    with ray_rig(folder, nodes=2) as rig:
        alone = wait_for(rig.start("get", urls, tmp_path / "single", *OPTIONS))
        shared = wait_for(rig.start("get", urls, tmp_path / "job", *OPTIONS, "--on", "ray"))

    say(f"{COUNT:,} objects: one machine {alone:.1f} s, a head and two nodes {shared:.1f} s")
    status = fetchmill.shared_jobs.status(tmp_path / "job")
    assert_same(tmp_path / "single", f"{tmp_path}/job/data/*/*.parquet", status)
