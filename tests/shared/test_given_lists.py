"""Shared jobs whose list only one process can read: standard input or an iterable in a program."""

import json
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet
import pytest

import fetchmill.shared_jobs
from conftest import Ended
from fetchmill._shared import local_state
from fetchmill.errors import StorageError, UsageError
from fetchmill.testing import Server, s3
from shared_jobs import final_rows, final_rows_of_bucket, write_list

Run = Callable[..., Ended]
Start = Callable[..., "subprocess.Popen[str]"]
Serve = Callable[..., Server]

OPTIONS = ("--shared", "--allow-private", "--format", "parquet")


def get_from_input(run: Run, list_file: Path, job: object, *options: str, **settings: Any) -> Ended:  # noqa: ANN401
    """Runs `get --shared` with a list on standard input."""
    with list_file.open("rb") as source:
        return run("get", "-", job, *OPTIONS, *options, stdin=source, **settings)


@pytest.mark.parametrize("options", [(), ("--limit-per-host", "2")], ids=["ranges", "not-divided"])
def test_standard_input_is_copied_into_job(options: tuple[str, ...], server: Serve, run: Run, tmp_path: Path) -> None:
    """Other workers read the copy. An incomplete copy of a dead process is removed, and a second list is refused."""
    urls = write_list(tmp_path / "urls.txt", server(synthetic=300), 300)
    job = tmp_path / "job"
    (job / "list").mkdir(parents=True)
    (job / "list" / f"{'0' * 21}.txt").write_text("a part of a dead process")

    ended = get_from_input(run, tmp_path / "urls.txt", job, *options, "--state", "state")

    assert ended.code == 0, ended.err
    assert final_rows(job) == Counter(urls)
    (copy,) = (job / "list").iterdir()
    assert copy.read_bytes() == (tmp_path / "urls.txt").read_bytes()
    assert copy.stat().st_mode & 0o077 == 0
    assert not list(tmp_path.glob("state/**/*.txt"))
    assert fetchmill.shared_jobs.status(job).source == "standard input"
    assert run("verify", job).code == 0
    assert run("join", job).code == 0
    again = get_from_input(run, tmp_path / "urls.txt", job)
    assert (again.code, f"fetchmill join {job}" in again.err) == (2, True), again.err
    assert list((job / "list").iterdir()) == [copy]


def test_rows_on_standard_input_keep_columns(server: Serve, run: Run, tmp_path: Path) -> None:
    """The options set the format, because standard input has no file name."""
    urls = write_list(tmp_path / "urls.txt", server(synthetic=20), 20)
    (tmp_path / "rows").write_text("id,url\n" + "".join(f"{number},{url}\n" for number, url in enumerate(urls)))
    options = ("--delimiter", ",", "--csv-header", "yes", "--column", "url", "--keep-columns", "id")

    ended = get_from_input(run, tmp_path / "rows", "job", *options)

    assert ended.code == 0, ended.err
    assert rows_of(tmp_path / "job") == sorted((url, str(number)) for number, url in enumerate(urls))


def test_errors_name_standard_input(run: Run, tmp_path: Path) -> None:
    """Errors do not mention the file in which the input was saved. No files are left."""
    (tmp_path / "rows").write_text("id,url\n1,http://127.0.0.1/\n")
    options = ("--delimiter", ",", "--csv-header", "yes", "--column", "link", "--state", "state")

    ended = get_from_input(run, tmp_path / "rows", "job", *options)

    assert (ended.code, "standard input" in ended.err, "state/" in ended.err) == (2, True, False), ended.err
    assert not (tmp_path / "job").exists()
    assert not list(tmp_path.glob("state/lists/*"))


def rows_of(job: Path) -> list[tuple[str, str]]:
    """Returns the names and ids of a job's objects."""
    tables = [pyarrow.parquet.read_table(shard) for shard in job.glob("data/*/*.parquet")]
    return sorted(
        pair for table in tables for pair in zip(table["name"].to_pylist(), table["id"].to_pylist(), strict=True)
    )


def test_given_list_is_stored_in_bucket(server: Serve, run: Run, environment: dict[str, str], tmp_path: Path) -> None:
    """Workers need no common folder."""
    urls = write_list(tmp_path / "urls.txt", server(synthetic=50), 50)
    with s3({}) as store:
        env = environment | store.environment()
        job = f"s3://{store.bucket}/run"

        ended = get_from_input(run, tmp_path / "urls.txt", job, "--endpoint-url", store.url, env=env)

        assert ended.code == 0, ended.err
        assert final_rows_of_bucket(store) == Counter(urls)
        (copy,) = [body for key, body in store.objects().items() if "/list/" in key]
    assert copy == (tmp_path / "urls.txt").read_bytes()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_partially_read_list_is_never_used(
    how: signal.Signals, server: Serve, run: Run, start: Start, tmp_path: Path
) -> None:
    """The process ends while it reads the list. No job is created, and the next process reads a new list."""
    urls = write_list(tmp_path / "urls.txt", server(synthetic=30), 30)
    reading = start("get", "-", "job", *OPTIONS, "--state", "state", stdin=subprocess.PIPE)
    assert reading.stdin is not None
    reading.stdin.write(f"{urls[0]}\n")
    reading.stdin.flush()
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob("state/lists/*")):
        assert time.monotonic() < deadline, reading.poll()
        time.sleep(0.01)

    reading.send_signal(how)

    assert reading.wait(60) in (-how, 128 + how)
    assert not (tmp_path / "job" / "job.json").exists()
    assert not list(tmp_path.glob("job/list/*"))
    ended = get_from_input(run, tmp_path / "urls.txt", "job", "--state", "state")
    assert ended.code == 0, ended.err
    assert final_rows(tmp_path / "job") == Counter(urls)
    assert not list(tmp_path.glob("state/lists/*"))


def test_iterable_of_program_becomes_list(server: Serve, tmp_path: Path) -> None:
    """The items are URLs and dicts, and the iterable is read only once."""
    urls = write_list(tmp_path / "urls.txt", server(synthetic=20), 20)
    items: Iterator[dict[str, object]] = ({"url": url, "id": number} for number, url in enumerate(urls))

    status = fetchmill.shared_jobs.get(
        items, tmp_path / "job", format="parquet", allow_private=True, keep_columns=["id"]
    )

    assert (status.finished, status.ledger["fetched"], status.source) == (True, 20, "an iterable")
    assert rows_of(tmp_path / "job") == sorted((url, str(number)) for number, url in enumerate(urls))
    fetchmill.shared_jobs.get(urls[:5], tmp_path / "plain", format="parquet", allow_private=True)
    assert final_rows(tmp_path / "plain") == Counter(urls[:5])
    (copy,) = (tmp_path / "plain" / "list").iterdir()
    assert [json.loads(line) for line in copy.read_text().splitlines()] == urls[:5]
    with pytest.raises(UsageError, match="already has a shared job"):
        fetchmill.shared_jobs.get(urls, tmp_path / "plain", format="parquet", allow_private=True)


def failing() -> Iterator[str]:
    """Yields one URL and then raises an exception."""
    yield "http://127.0.0.1/1"
    raise OSError("the program's own error")


@pytest.mark.parametrize(
    ("items", "error", "message"),
    [
        ([1], UsageError, "must be a URL or a dict, not int"),
        ([("http://127.0.0.1/1", "name")], UsageError, "must be a URL or a dict, not tuple"),
        ([{"url": "http://127.0.0.1/1", "id": {1}}], UsageError, "cannot be written as JSON"),
        (SimpleNamespace(columns=["url"]), UsageError, "cannot use a table"),
        (7, UsageError, "an iterable of URLs or dicts, not int"),
        (failing(), OSError, "the program's own error"),
    ],
)
def test_invalid_items_of_iterable_are_refused(
    items: Any,  # noqa: ANN401
    error: type[Exception],
    message: str,
    tmp_path: Path,
) -> None:
    """No part of the list is left."""
    with pytest.raises(error, match=message):
        fetchmill.shared_jobs.get(items, tmp_path / "job", format="parquet", state=tmp_path / "state")

    assert not list(tmp_path.glob("job/*"))
    assert not list(tmp_path.glob("state/**/*.jsonl"))


def test_given_list_needs_space_on_local_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No job is created, and no files are left."""
    monkeypatch.setattr(local_state, "ROOM_BYTES_MIN", 1 << 80)

    with pytest.raises(StorageError, match="MiB free"):
        fetchmill.shared_jobs.get(["http://127.0.0.1/1"], tmp_path / "job", format="parquet", state=tmp_path / "state")

    assert not list(tmp_path.glob("job/*"))
    assert not list(tmp_path.glob("state/**/*.jsonl"))
