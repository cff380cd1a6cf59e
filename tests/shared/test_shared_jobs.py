"""Shared jobs: several processes fetch one list into one job directory. Some die, stop or start late."""

import gzip
import json
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

import fetchmill
import fetchmill.shared_jobs
from conftest import Ended
from fetchmill.testing import Server, synthetic_body
from shared_jobs import final_rows, write_list
from small_disk import run_on_disk, small_disk

Run = Callable[..., Ended]
Start = Callable[..., "subprocess.Popen[str]"]

# The lease is short, so that the ranges of killed workers are released soon.
OPTIONS = ("--shared", "--allow-private", "--lease", "1s", "--format")


def wait_for(what: Callable[[], bool], process: "subprocess.Popen[str]") -> None:
    """Waits for a condition while a process runs."""
    deadline = time.monotonic() + 60
    while not what() and process.poll() is None:
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.02)


def has_fetched(job: Path, count: int) -> bool:
    """Returns whether attempts without a commit record have fetched more than this number of objects."""
    return (job / "job.json").exists() and fetchmill.shared_jobs.status(job).in_progress["fetched"] > count


def test_folder_job_survives_killed_drained_and_late_workers(
    server: Callable[..., Server], run: Run, start: Start, tmp_path: Path
) -> None:
    """One of three workers is killed and one is drained; another one finishes. Each object is stored once."""
    with_delay = server(synthetic=24_000, delay=(0.01, 0.02))
    urls = write_list(tmp_path / "urls.txt", with_delay, 24_000)
    job = tmp_path / "job"
    command = ("get", "urls.txt", "job", *OPTIONS, "parquet", "-j", "32")
    workers = [start(*command) for _ in range(3)]
    wait_for(lambda: has_fetched(job, 500), workers[0])
    workers[0].kill()
    workers[1].send_signal(signal.SIGTERM)
    assert workers[1].wait(60) == 128 + signal.SIGTERM
    workers[2].kill()

    ended = run("join", "job")

    assert ended.code == 0, ended.err
    assert final_rows(job) == Counter(urls)
    status = fetchmill.shared_jobs.status(job)
    assert status.finished
    assert status.ledger["listed"] == status.ledger["fetched"] == len(urls)
    assert status.bytes_done == status.bytes_of_list
    # Data without a commit record is removed, so that a plain glob finds exactly the results.
    assert len(list((job / "data").iterdir())) == status.ranges_done
    assert run("verify", "job").code == 0
    assert sorted(run("ls", "job").out.split()) == urls
    assert run("cat", "job", urls[7]).out == synthetic_body("file-000000000007", 100).decode()
    assert len(fetchmill.open(job)) == pyarrow.table(fetchmill.open(job)).num_rows == len(urls)


def test_stopped_folder_job_resumes(server: Callable[..., Server], run: Run, start: Start, tmp_path: Path) -> None:
    """After `stop`, the workers exit with 0, and `resume` continues the job."""
    with_delay = server(synthetic=12_000, delay=(0.02, 0.02))
    urls = write_list(tmp_path / "urls.txt", with_delay, 12_000)
    job = tmp_path / "job"
    worker = start("get", "urls.txt", "job", *OPTIONS, "parquet", "-j", "32")
    wait_for(lambda: has_fetched(job, 100), worker)

    assert run("stop", "job").code == 0
    assert worker.wait(60) == 0
    stopped = run("status", "job")
    assert "stopped; fetchmill resume" in stopped.out
    assert not fetchmill.shared_jobs.status(job).finished
    # A worker that joins a stopped job has nothing to do.
    assert run("join", "job").code == 0
    assert not fetchmill.shared_jobs.status(job).finished

    assert run("resume", "job").code == 0
    assert final_rows(job) == Counter(urls)


@pytest.mark.timing
def test_last_ranges_are_divided_before_workers_wait(
    server: Callable[..., Server], start: Start, tmp_path: Path
) -> None:
    """Two workers fetch the last two ranges, and divide them before one of the workers runs out of work."""
    served = server(synthetic=2_400, delay=(0.02, 0.02))
    (tmp_path / "urls").mkdir()
    for file in range(2):
        text = "".join(f"{served.url}/get/file-{file * 1_200 + number:012}\n" for number in range(1_200))
        (tmp_path / "urls" / f"{file}.txt").write_text(text)

    workers = [start("get", "urls", "job", *OPTIONS, "parquet", "-j", "4") for _ in range(2)]

    for worker in workers:
        _, err = worker.communicate(timeout=120)
        assert worker.returncode == 0, err
    # A range takes 6 s. If workers divided ranges only while one of them waits, there would be two to four records.
    assert len(list((tmp_path / "job" / "commits").iterdir())) >= 6
    assert sum(final_rows(tmp_path / "job").values()) == 2_400


@pytest.mark.timing
def test_waiting_worker_gets_work_before_next_heartbeat(
    server: Callable[..., Server], start: Start, tmp_path: Path
) -> None:
    """The first worker has the only range, which takes 30 s. Its next heartbeat is due in two minutes."""
    served = server(synthetic=2_400, delay=(0.05, 0.05))
    write_list(tmp_path / "urls.txt", served, 2_400)
    job = tmp_path / "job"
    command = ("get", "urls.txt", "job", *OPTIONS, "parquet", "-j", "4", "--lease", "600s")
    workers = [start(*command)]
    # The second heartbeat of a worker follows soon after its first one.
    wait_for(lambda: served.stats()["get"] > 100, workers[0])
    workers.append(start(*command))

    def committers() -> set[str]:
        return {json.loads(path.read_text())["worker"] for path in (job / "commits").glob("[!.]*.json")}

    wait_for(lambda: len(committers()) == 2, workers[0])
    found = committers()
    if not fetchmill.shared_jobs.status(job).finished:
        fetchmill.shared_jobs.stop(job, now=True)
    for worker in workers:
        worker.kill()
    assert len(found) == 2


def test_simultaneous_starters_create_one_folder_job(
    server: Callable[..., Server], run: Run, start: Start, tmp_path: Path
) -> None:
    """A process with different options is refused, and the error names the options."""
    urls = write_list(tmp_path / "urls.txt", server(synthetic=2_000), 2_000)
    workers = [start("get", "urls.txt", "job", *OPTIONS, "parquet") for _ in range(4)]

    assert [worker.wait(60) for worker in workers] == [0] * 4
    assert final_rows(tmp_path / "job") == Counter(urls)
    other = run("get", "urls.txt", "job", *OPTIONS, "jsonl")
    assert (other.code, "format is 'parquet' in the job at job, but 'jsonl' here" in other.err) == (2, True)


def test_worker_exits_with_0_when_objects_failed(server: Callable[..., Server], run: Run, tmp_path: Path) -> None:
    """Otherwise, a scheduler would restart the worker. `resume` exits with 3."""
    url = server(synthetic=10).url
    (tmp_path / "urls.txt").write_text(f"{url}/get/file-000000000001\n{url}/get/nothing\nno url\n")

    worker = run("get", "urls.txt", "job", *OPTIONS, "parquet")

    assert worker.code == 0, worker.err
    assert run("resume", "job").code == 3
    failures = run("status", "job", "--failures").out.splitlines()
    assert sorted(line.split("\t")[1] for line in failures) == ["absent", "failed"]
    assert "url: 1" in run("status", "job").out


def test_worker_without_space_for_journals_is_refused(
    server: Callable[..., Server], run: Run, environment: dict[str, str], tmp_path: Path
) -> None:
    """The error says how much space is needed, and where. Nothing is fetched."""
    served = server(synthetic=10)
    write_list(tmp_path / "urls.txt", served, 10)

    with small_disk(64 << 20, 1_000) as disk:
        ended = run_on_disk(run, environment)(
            "get", tmp_path / "urls.txt", tmp_path / "job", *OPTIONS, "parquet", "--state", disk / "state"
        )

    assert ended.code == 7, ended.err
    assert "MiB free, and a worker needs 256 MiB there for its journals; free some space, or" in ended.err
    assert not list((tmp_path / "job").glob("commits/*"))


def test_range_that_kills_workers_is_abandoned(server: Callable[..., Server], run: Run, tmp_path: Path) -> None:
    """After three claims of workers that died, the range is abandoned and reported, and the job ends."""
    write_list(tmp_path / "urls.txt", server(synthetic=10), 10)
    assert run("get", "urls.txt", "job", *OPTIONS, "parquet", "--rate", "1000").code == 0
    job = tmp_path / "job"
    (commit,) = (job / "commits").iterdir()
    range_id = commit.stem
    commit.unlink()
    (job / "finished.json").unlink()
    for number in (1, 2, 3):
        (job / "claims" / f"{range_id}.{number}").write_text('{"worker": "dead-1-aaaaaa"}')

    assert run("join", "job").code == 0
    assert "set aside" in run("status", "job").out
    assert fetchmill.shared_jobs.status(job).set_aside == (range_id,)
    assert run("resume", "job").code == 3


def test_secrets_are_never_in_job_directory(server: Callable[..., Server], run: Run, tmp_path: Path) -> None:
    """Each worker needs its own secrets. A worker without them gets an error that names them."""
    served = server(synthetic=10)
    write_list(tmp_path / "urls.txt", served, 10)
    secret = ("--bearer", "s3cret-token", "--header", "X-Key: s3cret-key", "--header", "User-Agent: me")
    ended = run("get", "urls.txt", "job", *OPTIONS, "parquet", *secret, "--credentials-for", served.url)
    assert ended.code == 0, ended.err

    for path in (tmp_path / "job").rglob("*"):
        assert path.is_dir() or b"s3cret" not in path.read_bytes(), path
    assert json.loads((tmp_path / "job" / "job.json").read_text())["options"]["headers"] == {"User-Agent": "me"}
    without = run("join", "job")
    assert (without.code, "needs bearer, header X-Key" in without.err) == (2, True)
    assert run("join", "job", *secret[:4]).code == 0


@pytest.mark.parametrize(
    ("damage", "code", "message"),
    [
        (lambda job: (job / "job.json").write_text("[]"), 10, "damaged"),
        (lambda job: edit(job / "job.json", release="0.0.1"), 2, "the same release"),
        (lambda job: edit(next((job / "commits").iterdir()), attempt="../../x"), 10, "damaged"),
        (lambda job: edit(next((job / "commits").iterdir()), job="another"), 10, "belongs to another job"),
        (lambda job: edit(next((job / "commits").iterdir()), range=[5, 1]), 10, "damaged"),
        (lambda job: edit(job / "job.json", lease="x"), 10, "damaged"),
    ],
    ids=["job", "release", "attempt", "other-job", "range", "lease"],
)
def test_invalid_job_directory_files_are_refused(
    damage: Callable[[Path], object],
    code: int,
    message: str,
    server: Callable[..., Server],
    run: Run,
    tmp_path: Path,
) -> None:
    """A file that is damaged, from another release, or points elsewhere is refused in one line."""
    write_list(tmp_path / "urls.txt", server(synthetic=10), 10)
    assert run("get", "urls.txt", "job", *OPTIONS, "parquet").code == 0

    damage(tmp_path / "job")

    for command in ("join", "status", "ls", "verify"):
        ended = run(command, "job")
        assert (ended.code, message in ended.err) == (code, True), (command, ended.err)
        assert ended.err.count("fetchmill: error: ") == 1


def test_job_directory_cannot_name_command(server: Callable[..., Server], run: Run, tmp_path: Path) -> None:
    """Otherwise, everybody who joins the job would run the command."""
    write_list(tmp_path / "urls.txt", server(synthetic=10), 10)
    assert run("get", "urls.txt", "job", *OPTIONS, "parquet").code == 0
    edit(tmp_path / "job" / "job.json", options={"format": "parquet", "bearer_command": "touch run; echo t"})

    ended = run("join", "job")

    assert (ended.code, "contains bearer_command" in ended.err) == (6, True), ended.err
    assert not (tmp_path / "run").exists()


def edit(path: Path, **values: Any) -> None:  # noqa: ANN401 - what JSON has
    """Changes values in a JSON file."""
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def test_shared_job_refuses_changed_list(server: Callable[..., Server], run: Run, tmp_path: Path) -> None:
    """Ranges are byte ranges of the list, so after a change they would contain other targets."""
    write_list(tmp_path / "urls.txt", server(synthetic=10), 10)
    assert run("get", "urls.txt", "job", *OPTIONS, "parquet").code == 0
    next((tmp_path / "job" / "commits").iterdir()).unlink()
    with (tmp_path / "urls.txt").open("a") as file:
        file.write("http://127.0.0.1:9/more\n")

    ended = run("join", "job")

    assert (ended.code, "has changed since the job was created" in ended.err) == (2, True)
    assert not list((tmp_path / "job" / "claims").iterdir())


def test_relative_journal_folder_is_removed(server: Callable[..., Server], run: Run, tmp_path: Path) -> None:
    """The folder's parent is the current folder, which is kept."""
    urls = write_list(tmp_path / "urls.txt", server(synthetic=10), 10)

    ended = run("get", "urls.txt", "job", *OPTIONS, "parquet", "--state", "state")

    assert ended.code == 0, ended.err
    assert final_rows(tmp_path / "job") == Counter(urls)
    assert not (tmp_path / "state").exists()


REFUSED = [
    ("http://127.0.0.1:9/", ("--listing", "json", "--store", "items"), "a shared job cannot use --store: "),
    ("urls.txt", ("--format", "files"), "stores shards"),
    ("urls.txt", ("--engine", "threads"), "cannot use engine threads"),
    ("urls.txt", ("--sample", "3"), "a shared job cannot use --sample: "),
    ("urls.txt", ("--max-failed", "3"), "a shared job cannot use --max-failed: "),
    ("urls.txt", ("--bwlimit", "1MB"), "a shared job cannot use --bwlimit: "),
    ("urls.txt", ("--names", "seq"), "names seq counts"),
    ("urls.txt", ("--names", "a{index}.bin"), "names with {index} number"),
    ("urls.txt", ("--names", "{{{index!r}}}.bin"), "names with {index} number"),
    ("urls.csv", ("--column", "url"), "--csv-header auto"),
    ("nothing.txt", (), "cannot open the list"),
]


@pytest.mark.parametrize(("source", "options", "message"), REFUSED)
def test_unsupported_shared_job_options_are_refused(
    source: str, options: tuple[str, ...], message: str, run: Run, tmp_path: Path
) -> None:
    """The error comes before anything is written."""
    (tmp_path / "urls.txt").write_text("http://127.0.0.1:9/\n")
    (tmp_path / "urls.csv").write_text("url,n\nhttp://127.0.0.1:9/,1\n")

    ended = run("get", source, "job", "--shared", "--format", "parquet", *options)

    assert (ended.code, message in ended.err) == (2, True), ended.err
    assert not (tmp_path / "job").exists()


def test_folder_with_foreign_files_is_refused(run: Run, tmp_path: Path) -> None:
    """A job directory must be missing, empty, or already contain a job."""
    (tmp_path / "urls.txt").write_text("http://127.0.0.1:9/\n")
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "thesis.tex").touch()

    ended = run("get", "urls.txt", "job", "--shared", "--format", "parquet")

    assert (ended.code, "is not empty (thesis.tex)" in ended.err) == (2, True)
    assert run("join", "job").code == 2
    # Folders in the job's own folders count, too.
    (tmp_path / "job" / "thesis.tex").unlink()
    (tmp_path / "job" / "data" / "precious").mkdir(parents=True)
    assert run("get", "urls.txt", "job", "--shared", "--format", "parquet").code == 2
    assert (tmp_path / "job" / "data" / "precious").is_dir()


def test_rate_applies_to_all_workers_together(
    server: Callable[..., Server], run: Run, start: Start, tmp_path: Path
) -> None:
    """Three workers together obey the rate, and `set` changes it."""
    served = server(synthetic=4_000)
    urls = write_list(tmp_path / "urls.txt", served, 4_000)
    command = ("get", "urls.txt", "job", *OPTIONS, "parquet", "--rate", "200")
    workers = [start(*command) for _ in range(3)]
    wait_for(lambda: served.stats()["get"] > 50, workers[0])
    before, count = time.monotonic(), served.stats()["get"]
    time.sleep(2)
    # After a pause, each worker may send a tenth of a second's requests in one burst.
    assert served.stats()["get"] - count <= 200 * (time.monotonic() - before) * 1.05 + 3 * 20

    assert run("set", "job", "--rate", "100000").code == 0
    assert [worker.wait(60) for worker in workers] == [0] * 3
    assert final_rows(tmp_path / "job") == Counter(urls)


def test_emit_writes_scheduler_files_that_join_workers(run: Run) -> None:
    """Each scheduler gets a job file whose workers run `fetchmill join`."""
    slurm = run("emit", "slurm", "/lustre/a run", "--workers", "50")
    kubernetes = run("emit", "kubernetes", "/data/Run_1", "--workers", "8", "--image", "fetchmill:1", "--claim", "data")
    batch = run("emit", "aws-batch", "/efs/run", "--workers", "9", "--queue", "q", "--definition", "d")

    assert "#SBATCH --array=1-50" in slurm.out
    assert "exec fetchmill join '/lustre/a run'" in slurm.out
    spec = json.loads(kubernetes.out)
    assert (spec["metadata"]["name"], spec["spec"]["parallelism"]) == ("fetchmill-run-1", 8)
    assert spec["spec"]["template"]["spec"]["containers"][0]["command"] == ["fetchmill", "join", "/data/Run_1"]
    assert json.loads(batch.out)["arrayProperties"] == {"size": 9}
    in_bucket = run("emit", "kubernetes", "s3://bucket/run", "--workers", "8", "--image", "fetchmill:1")
    pod = json.loads(in_bucket.out)["spec"]["template"]["spec"]
    assert pod["containers"][0]["command"] == ["fetchmill", "join", "s3://bucket/run"]
    assert "volumes" not in pod
    assert "needs --image" in run("emit", "kubernetes", "/data/run", "--workers", "8").err


@pytest.mark.parametrize("format", ["tar", "warc", "jsonl"])
@pytest.mark.sampled(1)
def test_folder_of_json_lines_is_shared(format: str, server: Callable[..., Server], run: Run, tmp_path: Path) -> None:
    """The files are plain and compressed JSON lines. The result equals that of a job on one machine."""
    url = server(synthetic=100).url
    lists = tmp_path / "lists"
    lists.mkdir()
    rows = [f'{{"url": "{url}/get/file-{number:012}", "n": {number}}}\n' for number in range(60)]
    (lists / "a.jsonl").write_text("\ufeff" + "".join([*rows[:20], '["no object"]\n', *rows[20:30]]))
    (lists / "b.jsonl.gz").write_bytes(gzip.compress("".join(rows[30:]).encode()))

    shared = run("get", "lists", "job", *OPTIONS, format)
    single = run("get", "lists", "out", "--allow-private", "--format", format)

    assert (shared.code, single.code) == (0, 3), shared.err
    found = [sorted(fetchmill.open(tmp_path / name).items()) for name in ("job", "out")]
    assert found[0] == found[1]
    assert len(found[0]) == len(rows)
    kinds = [[each.kind for each in fetchmill.failures(tmp_path / name)] for name in ("job", "out")]
    assert kinds == [["url"], ["url"]]


def test_parquet_list_is_divided_by_rows(server: Callable[..., Server], start: Start, run: Run, tmp_path: Path) -> None:
    """Ranges may start inside a row group and end early."""
    served = server(synthetic=12_000, delay=(0.02, 0.02))
    urls = [f"{served.url}/get/file-{number:012}" for number in range(12_000)]
    pyarrow.parquet.write_table(pyarrow.table({"n": range(12_000), "url": urls}), tmp_path / "urls.parquet")
    job = tmp_path / "job"
    options = ("--column", "url", "--keep-columns", "n", "-j", "32")
    worker = start("get", "urls.parquet", "job", *OPTIONS, "parquet", *options)
    wait_for(lambda: has_fetched(job, 100), worker)
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(60) == 128 + signal.SIGTERM
    status = fetchmill.shared_jobs.status(job)
    # On a busy machine, a second range may end before the signal arrives.
    assert status.ranges_done > 0
    assert not status.finished

    assert run("join", "job").code == 0
    assert final_rows(job) == Counter(urls)
    assert {each.columns["n"] for each in fetchmill.open(job).records()} == set(range(12_000))
    assert run("verify", "job").code == 0


def test_list_is_added_to_running_and_finished_jobs(
    server: Callable[..., Server], run: Run, start: Start, tmp_path: Path
) -> None:
    """Running workers, or workers that join later, fetch the added list. A file can be added only once."""
    served = server(synthetic=9_000, delay=(0.01, 0.02))
    urls = write_list(tmp_path / "all.txt", served, 9_000)
    for number, name in enumerate(("urls.txt", "more.txt", "last.txt")):
        (tmp_path / name).write_text("".join(f"{url}\n" for url in urls[number * 3_000 : (number + 1) * 3_000]))
    job = tmp_path / "job"
    workers = [start("get", "urls.txt", "job", *OPTIONS, "parquet", "-j", "32") for _ in range(2)]
    wait_for(lambda: has_fetched(job, 100), workers[0])

    added = run("extend", "job", "more.txt")

    assert (added.code, "workers pick it up" in added.err) == (0, True), added.err
    assert [worker.wait(60) for worker in workers] == [0, 0]
    assert final_rows(job) == Counter(urls[:6_000])
    assert run("verify", "job").code == 0
    assert "added        more.txt" in run("status", "job").out

    fetchmill.shared_jobs.extend(job, tmp_path / "last.txt")

    status = fetchmill.shared_jobs.status(job)
    assert (status.finished, status.added) == (False, ("more.txt", str(tmp_path / "last.txt")))
    assert run("join", "job").code == 0
    assert final_rows(job) == Counter(urls)
    assert json.loads((job / "finished.json").read_text())["ledger"]["fetched"] == 9_000
    assert run("verify", "job").code == 0
    again = run("extend", "job", "more.txt")
    assert (again.code, "already has the list" in again.err) == (2, True), again.err


def test_simultaneously_added_lists_are_all_kept(
    server: Callable[..., Server], run: Run, start: Start, tmp_path: Path
) -> None:
    """Each list gets its own number."""
    urls = write_list(tmp_path / "urls.txt", server(synthetic=600), 600)
    assert run("get", "urls.txt", "job", *OPTIONS, "parquet").code == 0
    for number in range(4):
        (tmp_path / f"more{number}.txt").write_text(f"{urls[0]}?{number}\n")

    adding = [start("extend", "job", f"more{number}.txt") for number in range(4)]

    assert [process.wait(60) for process in adding] == [0] * 4
    assert sorted(fetchmill.shared_jobs.status(tmp_path / "job").added) == [f"more{number}.txt" for number in range(4)]
    assert run("join", "job").code == 0
    assert fetchmill.shared_jobs.status(tmp_path / "job").ledger["listed"] == 604


def test_list_unsuitable_for_job_is_refused(server: Callable[..., Server], run: Run, tmp_path: Path) -> None:
    """Refused are another format, standard input, a server, and a list record that was changed."""
    urls = write_list(tmp_path / "urls.txt", server(synthetic=10), 10)
    assert run("get", "urls.txt", "job", *OPTIONS, "parquet").code == 0
    (tmp_path / "more.jsonl").write_text('{"url": "' + urls[0] + '"}\n')

    for source, message in (("more.jsonl", "is jsonl"), ("-", "not a list"), (urls[0], "not a list")):
        refused = run("extend", "job", source)
        assert (refused.code, message in refused.err) == (2, True), refused.err
    assert run("extend", "nowhere", "urls.txt").code == 2

    (tmp_path / "more.txt").write_text(f"{urls[0]}?\n")
    assert run("extend", "job", "more.txt").code == 0
    edit(tmp_path / "job" / "lists" / "00001.json", first_file=7)
    damaged = run("status", "job")
    assert (damaged.code, "does not match this job" in damaged.err) == (10, True), damaged.err
