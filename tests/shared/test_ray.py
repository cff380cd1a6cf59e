"""Shared jobs with workers in Ray, and lists as a Dataset, on a real cluster on loopback."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

import fetchmill
import fetchmill.ray
import fetchmill.shared_jobs
from conftest import Ended
from fetchmill.s3_store import ACCESS_KEY, BUCKET, REGION, SECRET_KEY
from fetchmill.shared_jobs import SharedStatus
from fetchmill.testing import synthetic_body
from ray_rig import URL, ray_rig
from shared_jobs import final_rows

OPTIONS = ("--allow-private", "--format", "parquet", "-j", "32", "--on", "ray")
COUNTS = ("listed", "fetched", "absent", "failed", "skipped", "bytes")

STORE = """
import fetchmill.testing, sys, time
with fetchmill.testing.s3(port=9000) as store:
    print(store.url, flush=True)
    time.sleep(300)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Creates a folder for a namespace, next to the test's own files."""
    (tmp_path / "network").mkdir()
    return tmp_path / "network"


def write_urls(path: Path, count: int) -> list[str]:
    """Writes a list of objects, an absent target, and a line that is not a URL."""
    urls = [f"{URL}/get/file-{number:012}" for number in range(count)]
    path.write_text("".join(f"{line}\n" for line in [*urls, f"{URL}/get/nothing", "no url"]))
    return urls


def end_of(process: "subprocess.Popen[str]", timeout: float = 120) -> Ended:
    """Returns the exit code and the output of a command."""
    out, err = process.communicate(timeout=timeout)
    return Ended(process.returncode, out, err)


def wait_until(process: "subprocess.Popen[str]", job: Path, what: Callable[[SharedStatus], bool]) -> SharedStatus:
    """Waits for a state of the job while a process runs."""
    deadline = time.monotonic() + 90
    while process.poll() is None:
        assert time.monotonic() < deadline, "it did not come"
        if (job / "job.json").exists() and what(status := fetchmill.shared_jobs.status(job)):
            return status
        time.sleep(0.05)
    raise AssertionError(end_of(process))


def working(status: SharedStatus) -> list[str]:
    """Returns the workers that hold a range."""
    return [worker.name for worker in status.workers if worker.state == "working" and worker.ranges]


def processes(pattern: str) -> list[int]:
    """Returns the processes whose command line matches."""
    return [*map(int, subprocess.run(["pgrep", "-f", pattern], capture_output=True, check=True).stdout.split())]


def parent_of(process: int) -> int:
    """Returns the parent of a process."""
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


@contextlib.contextmanager
def frozen(stopped: list[int]) -> Iterator[None]:
    """Freezes processes and continues them at the end."""
    for process in stopped:
        os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        for process in stopped:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGCONT)


def process_of(worker: str) -> int:
    """Returns the process of a worker, whose id is part of its name."""
    return int(worker.split("-")[-2])


@pytest.mark.thorough
def test_ray_job_survives_death_of_worker_and_node(folder: Path, tmp_path: Path) -> None:
    """Names, bytes and ledger equal those on one machine. The command reports both deaths and exits with 3."""
    count = 20_000
    urls = write_urls(tmp_path / "urls.txt", count)
    job = tmp_path / "job"
    with ray_rig(folder, nodes=2, delay="0.03-0.05") as rig:
        single = rig.start("get", tmp_path / "urls.txt", tmp_path / "single", "--allow-private", "--format", "parquet")
        command = ("get", tmp_path / "urls.txt", job, *OPTIONS, "--lease", "2s", "--workers", "3")
        running = rig.start(*command, "-j", "16")
        first = wait_until(
            running, job, lambda status: len(working(status)) == 3 and status.in_progress["fetched"] > 500
        )
        os.kill(process_of(working(first)[0]), signal.SIGKILL)
        wait_until(running, job, lambda status: len(status.workers) >= 4 and status.ranges_open > 0)
        rig.kill_node(0)
        assert fetchmill.shared_jobs.status(job).ranges_open, "the node was killed too late to matter"

        ended = end_of(running)
        assert end_of(single).code == 3

    assert ended.code == 3, ended.err
    assert "was lost" in ended.err
    assert final_rows(job) == Counter(urls)
    status, report = fetchmill.shared_jobs.status(job), fetchmill.status(tmp_path / "single")
    assert status.finished
    assert {name: status.ledger[name] for name in COUNTS} == {name: getattr(report, name) for name in COUNTS}
    one = pyarrow.parquet.read_table(sorted((tmp_path / "single").glob("*.parquet")), columns=["name", "body"])
    several = pyarrow.parquet.read_table(sorted(job.glob("data/*/*.parquet")), columns=["name", "body"])
    assert one.sort_by("name").equals(several.sort_by("name"))


@pytest.mark.thorough
@pytest.mark.timing
def test_command_ends_after_last_commit_record_when_ray_hangs(folder: Path, tmp_path: Path) -> None:
    """The head, the nodes and the launcher are frozen, so no future ends, but the command ends within 5 s."""
    urls = write_urls(tmp_path / "urls.txt", 8_000)
    job = tmp_path / "job"
    with ray_rig(folder, nodes=2, delay="0.03-0.05") as rig:
        running = rig.start("get", tmp_path / "urls.txt", job, *OPTIONS, "--workers", "3", "--quiet")
        wait_until(running, job, lambda status: status.in_progress["fetched"] > 500)
        nodes = processes(f"(gcs_server|raylet) .*{rig.environment['RAY_TMPDIR']}")
        launchers = [process for process in processes("fetchmill._ray.launcher") if parent_of(process) == running.pid]
        assert (len(nodes), len(launchers)) == (4, 1)
        with frozen(nodes + launchers):
            ended = end_of(running)
            ended_at = time.time()

    assert (ended.code, ended.err) == (3, "")
    assert ended_at - max(path.stat().st_mtime for path in (job / "commits").iterdir()) < 5
    assert final_rows(job) == Counter(urls)


@pytest.mark.thorough
def test_ctrl_c_drains_ray_job_and_same_command_resumes(folder: Path, tmp_path: Path) -> None:
    """After SIGINT, fetched objects are committed, and the exit code is 130. After `stop`, all workers exit with 0."""
    urls = write_urls(tmp_path / "urls.txt", 12_000)
    job = tmp_path / "job"
    with ray_rig(folder, nodes=1, delay="0.03-0.05") as rig:
        command = ("get", tmp_path / "urls.txt", job, *OPTIONS, "--workers", "2", "--json")
        running = rig.start(*command)
        wait_until(running, job, lambda status: status.in_progress["fetched"] > 500)
        running.send_signal(signal.SIGINT)
        ended = end_of(running, 40)

        assert ended.code == 130, ended.err
        events = [json.loads(line) for line in ended.out.splitlines()]
        assert f"join {job} --on ray or the same command again" in events[-1]["message"]
        drained = fetchmill.shared_jobs.status(job)
        assert 500 < drained.ledger["fetched"] < len(urls)
        assert not drained.runs

        running = rig.start("join", job, "-j", "32", "--on", "ray", "--workers", "2")
        wait_until(running, job, lambda status: status.in_progress["fetched"] > 500)
        fetchmill.shared_jobs.stop(job)
        assert end_of(running, 40).code == 0
        assert not fetchmill.shared_jobs.status(job).finished

        ended = end_of(rig.start("resume", job, "--on", "ray"))
        assert ended.code == 3, ended.err
    assert final_rows(job) == Counter(urls)


@pytest.mark.thorough
def test_folder_not_shared_with_nodes_is_refused(folder: Path, tmp_path: Path) -> None:
    """The error names the node and the folder in one sentence. No node has created the folder."""
    (tmp_path / "here").mkdir()
    write_urls(tmp_path / "here" / "urls.txt", 10)
    with ray_rig(folder, nodes=1, hidden=tmp_path / "here") as rig:
        running = rig.start(
            "get", tmp_path / "here" / "urls.txt", tmp_path / "here" / "job", *OPTIONS, "--workers", "2"
        )
        ended = end_of(running)

    assert ended.code == 2, ended.err
    errors = [line for line in ended.err.splitlines() if line.startswith("fetchmill: ")]
    assert len(errors) == 1
    assert f"{tmp_path / 'here' / 'job'} has no job on that node; choose a folder that all nodes" in errors[0]
    assert fetchmill.shared_jobs.status(tmp_path / "here" / "job").workers == ()


@pytest.mark.of_files("python/fetchmill/_ray", "python/fetchmill/_shared", "tests/shared/test_ray.py")
def test_ray_job_directory_in_bucket_works(folder: Path, tmp_path: Path) -> None:
    """Nodes have their own credentials. The endpoint comes from the environment of the command."""
    urls = write_urls(tmp_path / "urls.txt", 2_000)
    with ray_rig(folder) as rig, rig.network.running(sys.executable, "-c", STORE, ready=9000):
        rig.environment |= {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}
        rig.start_cluster(Path(rig.environment["RAY_TMPDIR"]), 2, 1)
        rig.environment |= {"AWS_ENDPOINT_URL": "http://127.0.0.1:9000", "AWS_REGION": REGION}

        ended = end_of(rig.start("get", tmp_path / "urls.txt", f"s3://{BUCKET}/run/", *OPTIONS, "--allow-absent"))

        assert ended.code == 3, ended.err  # because of the line that is not a URL
        names = end_of(rig.start("ls", f"s3://{BUCKET}/run/")).out.splitlines()
        status = json.loads(end_of(rig.start("status", f"s3://{BUCKET}/run/", "--json")).out)
    assert sorted(names) == sorted(urls)
    assert (status["finished"], status["ledger"]["fetched"], status["ledger"]["failed"]) == (True, len(urls), 1)


@pytest.mark.of_files("python/fetchmill/_ray", "python/fetchmill/_shared", "tests/shared/test_ray.py")
def test_local_ray_is_started_when_no_cluster_exists(folder: Path, tmp_path: Path) -> None:
    """The Python function works like the command, and Ray's processes end with it."""
    urls = write_urls(tmp_path / "urls.txt", 2_000)
    program = """
import sys, fetchmill, fetchmill.shared_jobs as jobs
own = {"format": "parquet", "allow_private": True, "headers": {"x-key": "s3cret"}, "credentials_for": sys.argv[3]}
status = jobs.get(sys.argv[1], sys.argv[2], on=fetchmill.Ray(workers=2), **own)
print(status.finished, status.ledger["fetched"], len(status.workers))
"""
    with ray_rig(folder) as rig:
        ended = end_of(rig.python(program, tmp_path / "urls.txt", tmp_path / "job", URL))

    assert ended.out == "True 2000 3\n", ended.err
    assert final_rows(tmp_path / "job") == Counter(urls)
    stored = b"".join(path.read_bytes() for path in (tmp_path / "job").rglob("*") if path.is_file())
    assert b"s3cret" not in stored


def assert_line_is(content: bytes, place: str, line: bytes) -> None:
    """Asserts that a place of the form `line N after byte B of PATH` is this line."""
    words = place.split()
    assert content[int(words[4]) :].splitlines()[int(words[1]) - 1] == line


@pytest.mark.thorough
def test_dataset_has_row_for_each_target(folder: Path, tmp_path: Path) -> None:
    """The list has lines in three ranges, or rows in Parquet. Each target becomes one row."""
    urls = write_urls(tmp_path / "urls.txt", 50_000)
    pyarrow.parquet.write_table(pyarrow.table({"url": urls}), tmp_path / "urls.parquet", row_group_size=7_000)
    program = """
import sys, pyarrow, pyarrow.parquet, ray, fetchmill.ray
ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
for name, options in (("urls.txt", {}), ("urls.parquet", {"column": "url", "rate": 1e5})):
    dataset = fetchmill.ray.read(f"{sys.argv[1]}/{name}", workers=2, **options)
    blocks = ray.get(dataset.to_arrow_refs())
    pyarrow.parquet.write_table(pyarrow.concat_tables(blocks), f"{sys.argv[1]}/read-{name}")
"""
    with ray_rig(folder) as rig:
        ended = end_of(rig.python(program, tmp_path))

    assert ended.code == 0, ended.err
    for name, others in (("urls.txt", 2), ("urls.parquet", 0)):
        rows = pyarrow.parquet.read_table(tmp_path / f"read-{name}").to_pylist()
        good = {row["url"]: row["body"] for row in rows if row["status"] == 200}
        assert good == {url: synthetic_body(url.rpartition("/")[2], 100) for url in urls}
        assert len(rows) == len(urls) + others
    bad = [row for row in pyarrow.parquet.read_table(tmp_path / "read-urls.txt").to_pylist() if row["status"] != 200]
    found = sorted((row["url"], row["status"], row["error"]) for row in bad)
    assert found[0] == (f"{URL}/get/nothing", 404, None)
    assert found[1][1:] == (None, "url")
    assert_line_is((tmp_path / "urls.txt").read_bytes(), found[1][0], b"no url")


def test_dataset_refuses_secret_and_rate_without_workers(tmp_path: Path) -> None:
    """Ray would store the secret, and a rate cannot be divided among an unknown number of tasks."""
    write_urls(tmp_path / "urls.txt", 1)
    secret: list[dict[str, Any]] = [{"bearer": "x"}, {"auth": ("u", "p")}, {"headers": {"X-Key": "x"}}]
    for options in secret:
        with pytest.raises(fetchmill.UsageError, match="may be secret"):
            fetchmill.ray.read(tmp_path / "urls.txt", **options)
    with pytest.raises(fetchmill.UsageError, match="rate applies to all tasks together"):
        fetchmill.ray.read(tmp_path / "urls.txt", rate=5)


def test_missing_ray_error_says_how_to_install(run: Callable[..., Ended], tmp_path: Path) -> None:
    """The error is one line and comes before anything is created. `--workers` alone is refused, too."""
    write_urls(tmp_path / "urls.txt", 1)
    program = "import sys; sys.modules['ray'] = None; from fetchmill.__main__ import main; sys.exit(main())"
    command = [sys.executable, "-c", program, "get", "urls.txt", "job", *OPTIONS]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "Ray is not installed; run pip install 'fetchmill[ray]'" in done.stderr
    assert not (tmp_path / "job").exists()
    alone = run("get", "urls.txt", "job", "--workers", "3")
    assert (alone.code, "--workers works only with --on ray" in alone.err) == (2, True)
    with pytest.raises(fetchmill.UsageError, match="workers must be from 1 to 10,000, not 0"):
        fetchmill.Ray(workers=0)


@pytest.mark.thorough
def test_ray_client_address_is_refused(folder: Path, tmp_path: Path) -> None:
    """The error says what to do instead. An address without a server is refused, too."""
    write_urls(tmp_path / "urls.txt", 1)
    with ray_rig(folder) as rig:
        rig.environment["RAY_ADDRESS"] = "ray://10.0.0.1:10001"
        ended = end_of(rig.start("get", tmp_path / "urls.txt", tmp_path / "job", *OPTIONS))
        assert (ended.code, "ray job submit -- fetchmill get" in ended.err) == (2, True)

        rig.environment["RAY_ADDRESS"] = "127.0.0.1:1234"
        ended = end_of(rig.start("get", tmp_path / "urls.txt", tmp_path / "job", *OPTIONS))
        assert (ended.code, "127.0.0.1:1234 does not respond" in ended.err) == (5, True), ended.err
