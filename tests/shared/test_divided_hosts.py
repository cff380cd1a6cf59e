"""Lists divided by host: one worker at a time sends requests to a host, and has its whole limit."""

import gzip
import json
import re
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

import fetchmill
import fetchmill.shared_jobs
from conftest import Ended
from divided_lists import HOSTS, OPTIONS, names
from fetchmill._options.get import GetOptions
from fetchmill._shared.creation import files_of
from fetchmill._shared.host_division import count_of_parts
from fetchmill._shared.list_rows import NotByHostError, rows_of
from fetchmill._shared.part_files import PartFiles
from fetchmill._shared.ranges import GROUPS, HostPart
from fetchmill._shared.shares import HostShares
from fetchmill.testing import s3
from observed_host import Observed, serving_hosts
from shared_jobs import job_record

Run = Callable[..., Ended]
Start = Callable[..., "subprocess.Popen[str]"]

OF_HOST = 16


@pytest.fixture
def hosts() -> Iterator[list[Observed]]:
    """Returns many servers, one per host."""
    with serving_hosts(HOSTS) as hosts:
        yield hosts


@pytest.fixture
def prompt_hosts(hosts: list[Observed]) -> list[Observed]:
    """Returns many servers with a shorter delay, for tests with one worker."""
    for host in hosts:
        host.delay = 0.005
    return hosts


def urls_of(hosts: list[Observed], count: int = OF_HOST) -> list[str]:
    """Returns URLs of all hosts in mixed order."""
    return [f"{host.url}/{number}" for number in range(count) for host in hosts]


def write(path: Path, lines: list[str]) -> Path:
    """Writes a list and returns its path."""
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def record(job: Path) -> dict[str, object]:
    """Returns the record of a job."""
    values = json.loads((job / "job.json").read_text())
    assert isinstance(values, dict)
    return values


def wait_until(what: Callable[[], bool]) -> None:
    """Waits for a condition."""
    deadline = time.monotonic() + 60
    while not what():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.01)


def test_each_host_has_one_worker_at_a_time(hosts: list[Observed], run: Run, start: Start, dest: Path) -> None:
    """The three workers fetch in parallel, although each host has only one request in flight."""
    urls = urls_of(hosts)
    write(dest.parent / "urls.txt", urls)
    workers = [start("get", "urls.txt", dest, *OPTIONS, stderr=subprocess.PIPE) for _ in range(3)]

    said = "".join(worker.communicate(timeout=60)[1] for worker in workers)

    assert [worker.returncode for worker in workers] == [0] * 3, said
    assert names(dest) == Counter(urls)
    assert max(host.most_in_flight for host in hosts) == 1
    status = fetchmill.shared_jobs.status(dest)
    assert sum(worker.fetched > 0 for worker in status.workers) >= 2
    # A single worker has at most 4 requests in flight.
    assert most_together(hosts) > 4
    line = (
        r"divided 512 URLs \([\d.]+ KiB\) of 32 hosts into 4 parts in [\d.]+ s, because --limit-per-host holds for all"
    )
    assert len(re.findall(line, said)) == 1, said
    assert re.search(line, "".join(log.read_text() for log in (dest / "logs").iterdir()))
    assert run("verify", dest).code == 0
    assert parts_of(dest) == {path.name for path in (dest / "list").iterdir()}
    assert not list((dest / "claims").iterdir())


def parts_of(job: Path) -> set[str]:
    """Returns the names of the parts of a job's list."""
    files = record(job)["files"]
    assert isinstance(files, list)
    return {Path(file["path"]).name for file in files}


def most_together(hosts: list[Observed]) -> int:
    """Returns the highest number of requests to all hosts within half the time of a reply."""
    came = sorted(each for host in hosts for each in host.came)
    return max(sum(first <= each <= first + 0.01 for each in came) for first in came)


def test_parts_of_dead_worker_are_continued_by_others(hosts: list[Observed], start: Start, dest: Path) -> None:
    """Another worker takes the parts over after the lease. No host has two requests in flight."""
    urls = urls_of(hosts, 30)
    write(dest.parent / "urls.txt", urls)
    workers = [start("get", "urls.txt", dest, *OPTIONS) for _ in range(3)]
    wait_until(lambda: sum(len(host.came) for host in hosts) > 150)
    victim = next(worker for worker in workers if any(f"-{worker.pid}-" in name for name in owners(dest)))
    victim.kill()

    assert sorted(worker.wait(60) for worker in workers) == [-9, 0, 0]

    assert names(dest) == Counter(urls)
    assert max(host.most_in_flight for host in hosts) == 1
    assert len({each for host in hosts for each in host.came}) > len(urls), "its targets were requested again"


def test_frozen_worker_loses_its_parts(hosts: list[Observed], start: Start, dest: Path) -> None:
    """If it wakes up after its lease, it ends its attempts. Until then, a host may have one extra request in flight."""
    urls = urls_of(hosts, 60)
    write(dest.parent / "urls.txt", urls)
    workers = [start("get", "urls.txt", dest, *OPTIONS, "--lease", "1s") for _ in range(2)]
    wait_until(lambda: sum(len(host.came) for host in hosts) > 150)
    frozen = next(worker for worker in workers if any(f"-{worker.pid}-" in name for name in owners(dest)))
    frozen.send_signal(signal.SIGSTOP)
    time.sleep(2.5)
    frozen.send_signal(signal.SIGCONT)

    assert [worker.wait(60) for worker in workers] == [0, 0]

    assert names(dest) == Counter(urls)
    assert max(host.most_in_flight for host in hosts) <= 2
    assert fetchmill.shared_jobs.status(dest).discarded > 0


def owners(job: Path) -> set[str]:
    """Returns the names of workers that hold parts."""
    found = set()
    for path in (job / "claims").glob("0*"):
        with suppress(FileNotFoundError):
            found.add(str(json.loads(path.read_text())["worker"]))
    return found


def test_process_killed_while_dividing_list_is_replaced(hosts: list[Observed], start: Start, dest: Path) -> None:
    """A waiting process divides the list again, and a third one joins. No files of the first process are left."""
    urls = urls_of(hosts)
    # Comments make the division slow and keep the job short.
    write(dest.parent / "urls.txt", urls + ["#"] * 2_000_000)
    first = start("get", "urls.txt", dest, *OPTIONS)
    wait_until(lambda: bool(list(dest.glob("claims/listing.*"))))
    first.kill()
    second, third = start("get", "urls.txt", dest, *OPTIONS), start("join", dest)
    assert not (dest / "job.json").exists()
    (dest / "list").mkdir()
    (dest / "list" / f"{'0' * 21}.txt").write_text("a part of the first process")

    assert (second.wait(60), third.wait(60)) == (0, 0)

    assert names(dest) == Counter(urls)
    assert max(host.most_in_flight for host in hosts) == 1
    assert parts_of(dest) == {path.name for path in (dest / "list").iterdir()}


def test_interrupted_division_releases_its_claim(
    prompt_hosts: list[Observed], run: Run, start: Start, dest: Path
) -> None:
    """The next process does not wait for the lease, which is an hour here."""
    urls = urls_of(prompt_hosts, 8)
    # Comments make the division slow and keep the job short.
    write(dest.parent / "urls.txt", urls + ["#"] * 2_000_000)
    first = start("get", "urls.txt", dest, *OPTIONS, "--lease", "1h", stderr=subprocess.PIPE)
    wait_until(lambda: bool(list(dest.glob("claims/listing.*"))))

    first.send_signal(signal.SIGTERM)

    assert "stopped before the job began" in first.communicate(timeout=60)[1]
    assert first.returncode == 128 + signal.SIGTERM
    assert not (dest / "job.json").exists()
    assert not list(dest.glob("claims/*"))
    write(dest.parent / "urls.txt", urls)
    assert run("get", "urls.txt", dest, *OPTIONS, "--lease", "1h").code == 0
    assert names(dest) == Counter(urls)


@pytest.mark.parametrize(("form", "bad"), [("csv", 2), ("jsonl", 4)])
def test_divided_rows_equal_rows_of_single_job(
    form: str, bad: int, prompt_hosts: list[Observed], run: Run, dest: Path
) -> None:
    """The list has several files with names, kept columns, blank lines, and lines without a URL."""
    folder = dest.parent / "lists"
    folder.mkdir()
    for file in range(2):
        rows = [(f"{file}-{number}", url) for number, url in enumerate(urls_of(prompt_hosts, 8))]
        if form == "csv":
            lines = ["id,url", *(f"{id},{url}" for id, url in rows), "", "bad,not a URL"]
        else:
            lines = [*(json.dumps({"url": url, "id": id}) for id, url in rows), "", '{"url": "not a URL"}', "nothing"]
        write(folder / f"{file}.{form}", lines)
    options = ["--column", "url", "--names", "o{id}", "--keep-columns", "id", "--allow-private", "--format", "parquet"]
    options += ["--csv-header", "yes", "--delimiter", ","] if form == "csv" else []

    ended = run("get", folder, dest, *OPTIONS, *options)
    single = run("get", folder, dest.parent / "single", *options, "--limit-per-host", "4")

    assert (ended.code, single.code) == (0, 3), (ended.err, single.err)
    assert f"divided {512 + bad} URLs" in ended.err, ended.err
    assert rows_in(dest / "data" / "*") == rows_in(dest.parent / "single")
    status = fetchmill.shared_jobs.status(dest)
    assert (status.ledger["fetched"], status.ledger["failed"]) == (512, bad)
    assert max(host.most_in_flight for host in prompt_hosts) <= 4


def rows_in(folder: Path, column: str = "id") -> list[tuple[str, object]]:
    """Returns names and a kept column of the objects in folders."""
    tables = [pyarrow.parquet.read_table(shard) for shard in folder.parent.glob(f"{folder.name}/*.parquet")]
    found = [
        pair for table in tables for pair in zip(table["name"].to_pylist(), table[column].to_pylist(), strict=True)
    ]
    return sorted(found)


def test_list_of_few_hosts_is_split_into_ranges(prompt_hosts: list[Observed], run: Run, dest: Path) -> None:
    """The limits are divided among the workers, and lists can be added."""
    urls = urls_of(prompt_hosts[:3], 200)
    write(dest.parent / "urls.txt", urls)
    write(dest.parent / "more.txt", [f"{prompt_hosts[0].url}/more"])

    ended = run("get", "urls.txt", dest, *OPTIONS)

    why = "does not divide urls.txt by host, because it has only 3 hosts and 600 URLs; --limit-per-host will be divided"
    assert (ended.code, why in ended.err) == (0, True), ended.err
    assert (record(dest)["is_by_host"], names(dest)) == (False, Counter(urls))
    assert not (dest / "list").exists()
    assert run("extend", dest, "more.txt").code == 0


@pytest.mark.parametrize(
    ("name", "begin", "options", "why"),
    [
        ("urls.json", "[", (), "urls.json is a JSON array"),
        ("urls.csv", '"url"\n', ("--csv-header", "yes", "--delimiter", ","), "urls.csv has quoted fields"),
        ("urls.csv.gz", "url\n", ("--column", "url", "--csv-header", "yes"), "urls.csv.gz need --csv-header yes or no"),
    ],
)
def test_indivisible_list_is_split_into_ranges_with_reason(
    name: str, begin: str, options: tuple[str, ...], why: str, prompt_hosts: list[Observed], run: Run, dest: Path
) -> None:
    """A message gives the reason, also for a compressed list."""
    urls = urls_of(prompt_hosts, 1)
    text = json.dumps(urls) if begin == "[" else begin + "".join(f"{url}\n" for url in urls)
    content = text.encode()
    (dest.parent / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)

    ended = run("get", name, dest, *OPTIONS, *options)

    assert (ended.code, why in ended.err) == (0, True), ended.err
    assert (record(dest)["is_by_host"], names(dest)) == (False, Counter(urls))


@pytest.mark.parametrize("form", ["txt.gz", "csv.zst", "jsonl.bz2"])
def test_compressed_list_is_divided(form: str, prompt_hosts: list[Observed], run: Run, dest: Path) -> None:
    """The rows are those of the uncompressed list. Its parts are not compressed."""
    urls = urls_of(prompt_hosts)
    lines = {
        "txt": ["\ufeff# a comment", *urls, ""],
        "csv": ["\ufeff", "id,url", *(f"{number},{url}" for number, url in enumerate(urls))],
        "jsonl": [json.dumps({"url": url}) for url in urls],
    }[form.partition(".")[0]]
    with pa.output_stream(dest.parent / f"urls.{form}") as out:
        out.write("\n".join(lines).encode())
    fields = ("--csv-header", "yes", "--delimiter", ",", "--column", "url") if "csv" in form else ()

    ended = run("get", f"urls.{form}", dest, *OPTIONS, *fields)

    assert (ended.code, "divided 512 URLs" in ended.err) == (0, True), ended.err
    assert names(dest) == Counter(urls)
    assert {Path(name).suffix for name in parts_of(dest)} == {f".{form.partition('.')[0]}"}
    assert run("verify", dest).code == 0


def test_parquet_list_is_divided(prompt_hosts: list[Observed], run: Run, dest: Path) -> None:
    """Each part has all columns with their types. A row without a URL is kept in one of the parts."""
    folder = dest.parent / "lists"
    folder.mkdir()
    urls = urls_of(prompt_hosts)
    for number, part in enumerate((urls[:100], [*urls[100:], "not a URL"])):
        rows = [{"n": 10**12 + index, "url": url, "tags": ["a", None]} for index, url in enumerate(part)]
        schema = pa.schema([("n", pa.int64()), ("url", pa.string()), ("tags", pa.list_(pa.string()))])
        pyarrow.parquet.write_table(pa.Table.from_pylist(rows, schema), folder / f"{number}.parquet")
    options = ("--keep-columns", "n", "--allow-private", "--format", "parquet")

    ended = run("get", folder, dest, *OPTIONS, *options)
    single = run("get", folder, dest.parent / "single", *options, "--limit-per-host", "4")

    assert (ended.code, single.code) == (0, 3), (ended.err, single.err)
    assert "divided 513 URLs" in ended.err, ended.err
    assert rows_in(dest / "data" / "*", "n") == rows_in(dest.parent / "single", "n")
    assert {type(value) for _, value in rows_in(dest / "data" / "*", "n")} == {int}
    parts = [pyarrow.parquet.read_table(path) for path in (dest / "list").iterdir()]
    assert [table.column_names for table in parts] == [["n", "url", "tags"]] * 4
    assert sum(table.num_rows for table in parts) == 513
    hosts = [{url.rpartition("/")[0] for url in table["url"].to_pylist() if "/" in url} for table in parts]
    assert sum(map(len, hosts)) == len(set().union(*hosts)) == len(HOSTS)
    assert fetchmill.shared_jobs.status(dest).ledger["failed"] == 1
    assert run("verify", dest).code == 0
    more = urls_of(prompt_hosts[:3], 1)
    pyarrow.parquet.write_table(pa.table({"url": [f"{url}?more" for url in more]}), dest.parent / "more.parquet")
    assert run("extend", dest, dest.parent / "more.parquet").code == 2, "it has no column n"


def test_user_lists_in_job_directory_are_kept(prompt_hosts: list[Observed], run: Run, dest: Path) -> None:
    """Only parts are removed from the folder `list`, because users may keep their own list there."""
    (dest / "list").mkdir(parents=True)
    own = [write(dest / "list" / name, urls_of(prompt_hosts)) for name in ("urls.txt", ".draft", "notes")]
    stale = write(dest / "list" / f"{'0' * 21}.txt", ["a part of a dead process"])

    ended = run("get", dest / "list" / "urls.txt", dest, *OPTIONS)

    assert (ended.code, record(dest)["is_by_host"]) == (0, True), ended.err
    assert [path.exists() for path in own] == [True] * 3
    assert not stale.exists()


def test_list_file_with_missing_column_is_accepted(prompt_hosts: list[Observed], run: Run, dest: Path) -> None:
    """Columns are checked for the list as a whole, as for a list that is not divided."""
    folder = dest.parent / "lists"
    folder.mkdir()
    write(folder / "0.jsonl", [json.dumps({"url": url, "id": 1}) for url in urls_of(prompt_hosts, 8)])
    write(folder / "1.jsonl", [json.dumps({"url": f"{url}/b"}) for url in urls_of(prompt_hosts, 8)])

    ended = run("get", folder, dest, *OPTIONS, "--keep-columns", "id")

    assert (ended.code, record(dest)["is_by_host"]) == (0, True), ended.err
    assert sum(names(dest).values()) == 512


def test_drained_job_resumes_without_original_list(prompt_hosts: list[Observed], run: Run, dest: Path) -> None:
    """The job directory has everything that the job needs."""
    urls = urls_of(prompt_hosts)
    write(dest.parent / "urls.txt", urls)

    assert run("get", "urls.txt", dest, *OPTIONS).code == 0

    assert record(dest)["is_by_host"]
    assert run("stop", dest).code == 0
    assert run("resume", dest).code == 0
    # The original list is no longer needed.
    (dest.parent / "urls.txt").unlink()
    assert run("join", dest).code == 0


def test_bucket_job_stores_parts_of_divided_list(
    hosts: list[Observed], start: Start, environment: dict[str, str], tmp_path: Path
) -> None:
    """Each worker downloads only the parts that it fetches."""
    urls = urls_of(hosts)
    write(tmp_path / "urls.txt", urls)
    with s3({}) as store:
        env = environment | store.environment()
        job = f"s3://{store.bucket}/run"
        options = ("--endpoint-url", store.url, *OPTIONS)
        workers = [start("get", "urls.txt", job, *options, env=env) for _ in range(2)]

        assert [worker.wait(60) for worker in workers] == [0, 0]

        parts = [key for key in store.objects() if "/list/" in key]
    assert len(parts) == 4
    assert sum(len(host.came) for host in hosts) == len(urls)
    assert max(host.most_in_flight for host in hosts) == 1


def test_standard_input_is_divided(prompt_hosts: list[Observed], run: Run, dest: Path) -> None:
    """The job directory has the parts and no copy of the whole list."""
    urls = urls_of(prompt_hosts)
    with write(dest.parent / "urls.txt", urls).open("rb") as source:
        ended = run("get", "-", dest, *OPTIONS, stdin=source)

    assert (ended.code, record(dest)["is_by_host"], record(dest)["source"]) == (0, True, "standard input"), ended.err
    assert names(dest) == Counter(urls)
    assert parts_of(dest) == {path.name for path in (dest / "list").iterdir()}


TEXT = (
    b"\xef\xbb\xbfhttp://a.test/1\n\n  # comment\nHTTP://A.test:80/2 \r\nexample.com\nhttp://b\xc3\xbccher.example/\n"
    b"http://a.test/1\n \t\nhttps://a.test\n#\nhttp://a.test:81/last"
)
CSV = b"id,url\n1,http://a.test/1\n\n\r\n2,http://A.test/2\r\n  \n3\nx,http://a.test/1\nx,http://a.test/1"
AB = ["http://a", "http://b"]
JSON = b'\xef\xbb\xbf{"url": "http://a.test/1"}\n"http://A.test/2"\n\n{"id": 1}\nhttps://b.test/x y\n[1]\nnothing\n'


@pytest.mark.parametrize(
    ("name", "content", "options", "expected"),
    [
        (
            "a.txt",
            TEXT,
            {},
            {0: "http://a.test", 3: "http://a.test", 4: "", 5: "http://xn--bcher-kva.example", 6: "http://a.test"}
            | {8: "https://a.test", 10: "http://a.test:81"},
        ),
        (
            "a.csv",
            CSV,
            {"column": "url", "csv_header": "yes", "delimiter": ","},
            {0: "http://a.test", 3: "http://a.test", 4: "", 5: "", 6: "http://a.test", 7: "http://a.test"},
        ),
        ("a.jsonl", JSON, {}, {0: "http://a.test", 1: "http://a.test", 3: "", 4: "https://b.test", 5: "", 6: ""}),
        ("b.txt", b"one\nTwo", {"template": "https://www.{}/x"}, {0: "https://www.one", 1: "https://www.two"}),
        ("c.txt", b"http://a/" + b"x" * (2 << 20) + b"\nhttp://b/\n", {}, {0: "", 1: "http://b"}),
        ("d.txt", b"http://a/1\nhttp://b/2\nhttp://a/1\n", {"exclude": ["*1"]}, dict(enumerate(AB + AB[:1]))),
    ],
)
def test_rows_are_grouped_by_host_of_their_url(
    name: str, content: bytes, options: dict[str, Any], expected: dict[int, str], tmp_path: Path
) -> None:
    """Hosts are parsed by the URL standard. Each line with a row is returned once and unchanged."""
    path = tmp_path / name
    path.write_bytes(content)
    list_format, (file,) = files_of(GetOptions(source=path, dest="out", format="parquet", **options))

    rows = list(rows_of(file, list_format, {"format": "parquet", **options}))

    lines = content[file.header :].removeprefix(b"\xef\xbb\xbf").split(b"\n")
    assert rows == [(lines[number] + b"\n", host) for number, host in expected.items()]


def test_bucket_object_urls_are_not_divided(tmp_path: Path) -> None:
    """The host of an s3:// URL depends on the store."""
    path = write(tmp_path / "a.txt", ["s3://bucket/key"])
    list_format, (file,) = files_of(GetOptions(source=path, dest="out", format="parquet"))

    with pytest.raises(NotByHostError, match="s3:// URLs"):
        list(rows_of(file, list_format, {"format": "parquet"}))


def test_all_rows_of_host_are_in_one_part(tmp_path: Path) -> None:
    """Rows keep their order within a host group, and no row is lost. This holds in memory and on disk."""
    rows = [(b"%d %s\n" % (number, b"x" * 999), f"http://host-{number % 500}") for number in range(60_000)]
    files = PartFiles(tmp_path)
    files.add(rows)
    assert (files.rows, files.hosts, files.bytes) == (60_000, 500, sum(len(row) for row, _ in rows))
    assert any(tmp_path.iterdir())

    parts = []
    for number in range(8):
        with (tmp_path / "part").open("wb") as out:
            files.move(HostPart(number=number, count=8), out)
        parts.append([int(line.split()[0]) for line in (tmp_path / "part").read_bytes().splitlines()])

    assert sorted(number for part in parts for number in part) == list(range(60_000))
    hosts = [{number % 500 for number in part} for part in parts]
    assert sum(map(len, hosts)) == 500
    for part in parts:
        of_host = [number for number in part if number % 500 == part[0] % 500]
        assert of_host == sorted(of_host)
    with suppress(FileNotFoundError):
        (tmp_path / "part").unlink()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("rows", "hosts", "concurrency", "limit", "parts"),
    [
        (1_000_000, 52_310, 64, 1, GROUPS),
        (1_000_000, 1_000, 64, 1, 4),
        (1_000_000, 1_000, 64, 2, 4),
        (1_000_000, 1_000, 64, 4, 0),
        (1_000_000, 1_000, 64, None, 0),
        (10_000, 10_000, 64, 1, 8),
        (1_000_000, 255, 64, 1, 0),
        (1_000_000, 1, 1, 1, 0),
        (0, 0, 64, 1, 0),
        (10**9, 100_000, 1_000, 1, 32),
    ],
)
def test_list_is_divided_only_when_more_workers_can_fetch(
    rows: int, hosts: int, concurrency: int, limit: int | None, parts: int
) -> None:
    """A part has enough hosts to occupy a worker. There are twice as many parts as workers that a limit allows."""
    assert count_of_parts(rows, hosts, concurrency, {"limit_per_host": limit}) == parts


def test_workers_of_divided_list_have_whole_limits() -> None:
    """Workers do not wait for each other, and none is on standby."""
    shares = HostShares("b", {"limit_per_host": 1}, None)
    shares.observe([])

    assert (shares.host_sharers, shares.rank, shares.is_standby, shares.has_host_limits) == (1, 0, False, False)
    # A worker that cannot write its heartbeat must end its attempts before others take over its parts.
    assert shares.is_exclusive
    assert not job_record().is_by_host
