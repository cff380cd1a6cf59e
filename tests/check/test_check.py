"""`fetchmill check LIST [RESULTS]`: one row per target, whatever sites answer and whatever ends the run."""

import json
import os
import signal
import sqlite3
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import fetchmill
from check_results import count_urls, read_rows, write_urls
from conftest import wait_for_rows
from fetchmill._job.check import check_pattern
from fetchmill.testing import Fault, Server
from lists import write_list
from raw_server import RawServer

Run = Callable[..., Any]
Serve = Callable[..., Server]
Row = dict[str, Any]

# Some seconds of requests, so that a kill hits the middle.
SLOW: dict[str, Any] = {"synthetic": 1500, "delay": (0.05, 0.15)}
# All requests of a host are sent together, so that none waits because of another one's reply.
AT_ONCE = ("--limit-per-host", "0", "--rate-per-host", "0")
HASTE = ("--allow-private", *AT_ONCE, "--concurrency", "50", "--commit-window", "0.05")
OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\nok"


def urls_of(source: Server, count: int) -> list[str]:
    """Returns the URLs of a synthetic server's first objects."""
    return [f"{source.url}/get/file-{index:012}" for index in range(count)]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["r.parquet", "r.csv", "r.csv.gz", "r.jsonl"])
def test_check_writes_one_row_per_target_in_each_format(run: Run, server: Serve, tmp_path: Path, name: str) -> None:
    """Fetched, absent and refused targets and invalid URLs have one row each; the exit code is 0."""
    urls = urls_of(server(synthetic=300), 300)
    absent, refused = urls[0] + "x", "http://127.0.0.1:1/"
    listed = write_urls(tmp_path, [*urls, absent, refused, "no url"])

    ended = run("check", listed, name, "--allow-private")

    assert ended.code == 0, ended.err
    assert f"results: {name}" in ended.out
    rows = {row["url"] or row["key"]: row for row in read_rows(tmp_path / name)}
    assert rows.keys() == {*urls, absent, refused, "line 303"}
    answers = {site: (str(row["status"] or ""), row["kind"] or "") for site, row in rows.items()}
    assert answers == dict.fromkeys(urls, ("200", "")) | {
        absent: ("404", ""),
        refused: ("", "refused"),
        "line 303": ("", "url"),
    }
    assert "it has no scheme" in rows["line 303"]["detail"]


def test_check_rows_have_column_types_and_kept_columns(run: Run, server: Serve, tmp_path: Path) -> None:
    """In Parquet, numbers are numbers, times have a zone, and values that do not apply are null."""
    urls = urls_of(server(synthetic=3), 3)
    rows = [{"rank": str(rank), "name": f"näme {rank}", "url": url} for rank, url in enumerate(urls)]
    listed = write_list(tmp_path, rows, "csv")
    before = datetime.now(UTC)

    ended = run(
        *("check", listed, "r.parquet", "--column", "url", "--key-column", "name", "--keep-columns", "rank"),
        "--allow-private",
    )

    assert ended.code == 0, ended.err
    found = {row["key"]: row for row in read_rows(tmp_path / "r.parquet")}
    assert found.keys() == {"näme 0", "näme 1", "näme 2"}
    row = found["näme 1"]
    assert (row["url"], row["rank"], row["status"], row["kind"]) == (urls[1], "1", 200, None)
    assert (row["content_type"], row["content_length"], row["body_bytes"]) == ("text/plain", 100, 100)
    assert (row["attempts"], row["redirects"], row["final_url"], row["suspect"]) == (1, [], None, False)
    assert timedelta(0) <= row["started_at"] - before < timedelta(seconds=60)


def test_check_takes_complete_reply_as_final_answer(run: Run, server: Serve, tmp_path: Path) -> None:
    """There is one attempt. A 500, a 429 and a 403 have a status and no kind; a truncated body has both."""
    faults = [
        Fault("status", status=500, match="file-000000000000"),
        Fault("status", status=429, retry_after=60, match="file-000000000001"),
        Fault("status", status=403, match="file-000000000002"),
        Fault("truncate", match="file-000000000003"),
        Fault("eof", match="file-000000000004"),
        Fault("reset", match="file-000000000005"),
    ]
    source = server(synthetic=6, faults=faults)
    urls = urls_of(source, 6)

    ended = run("check", write_urls(tmp_path, urls), "r.jsonl", "--allow-private", *AT_ONCE)

    assert ended.code == 0, ended.err
    rows = {row["url"]: row for row in read_rows(tmp_path / "r.jsonl")}
    assert [(rows[url]["status"], rows[url]["kind"]) for url in urls] == [
        *((500, None), (429, None), (403, None), (200, "truncated"), (200, None), (None, "reset"))
    ]
    assert {row["attempts"] for row in rows.values()} == {1}
    assert source.stats()["get"] == 6


def test_check_reads_only_start_of_large_body(run: Run, server: Serve, tmp_path: Path) -> None:
    """At most 64 KiB are read, and this is not a failure."""
    urls = urls_of(server(synthetic=2, size=3_000_000), 2)

    ended = run("check", write_urls(tmp_path, urls), "r.jsonl", "--allow-private")

    assert ended.code == 0, ended.err
    for row in read_rows(tmp_path / "r.jsonl"):
        assert (row["status"], row["kind"], row["content_length"]) == (200, None, 3_000_000)
        assert row["body_bytes"] <= 64 * 1024


def test_check_follows_redirects_unless_disabled(run: Run, raw: Any, tmp_path: Path) -> None:  # noqa: ANN401
    """The row has the last URL; a loop has the kind `redirect-loop` and its last status."""

    def moved(to: str) -> bytes:
        return f"HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n".encode()

    site: RawServer = raw({"/a": moved("/b"), "/b": moved("/c"), "/c": OK, "/loop": moved("/loop")})
    listed = write_urls(tmp_path, [f"{site.url}/a", f"{site.url}/loop"])

    followed = run("check", listed, "followed.jsonl", "--allow-private")
    left = run("check", listed, "left.jsonl", "--allow-private", "--no-redirects")

    assert (followed.code, left.code) == (0, 0)
    rows = {row["url"]: row for row in read_rows(tmp_path / "followed.jsonl")}
    assert (rows[f"{site.url}/a"]["status"], rows[f"{site.url}/a"]["final_url"]) == (200, f"{site.url}/c")
    assert (rows[f"{site.url}/loop"]["status"], rows[f"{site.url}/loop"]["kind"]) == (302, "redirect-loop")
    assert {(row["status"], row["kind"], row["final_url"]) for row in read_rows(tmp_path / "left.jsonl")} == {
        (302, None, None)
    }


def test_check_without_results_prints_only_summary(
    run: Run, server: Serve, tmp_path: Path, environment: dict[str, str]
) -> None:
    """The summary has counts with shares and the first failures; no file is left."""
    urls = urls_of(server(synthetic=30), 30)
    listed = write_urls(tmp_path, [*urls, *(f"http://127.0.0.1:1/{number}" for number in range(30))])
    temporary = tmp_path / "temporary"
    temporary.mkdir()

    ended = run("check", listed, "--allow-private", env=environment | {"TMPDIR": str(temporary)})

    assert (ended.code, ended.err) == (0, "")
    assert "  30   50.0 %  200\n  30   50.0 %  refused\nthe first 20 failures:\n  refused  http://" in ended.out
    assert ended.out.count("http://127.0.0.1:1/") == 20
    assert list(temporary.iterdir()) == []
    assert {path.name for path in tmp_path.iterdir()} == {"urls.txt", "temporary"}


@pytest.mark.parametrize(
    ("fail_on", "code"),
    [
        (("404",), 3),
        (("4xx",), 3),
        (("any",), 3),
        (("dns*,ref*",), 3),
        (("timeout*,5xx", "--fail-on", "refused"), 3),
        (("5xx,dns*,301",), 0),
        (("sunshine",), 2),
        (("6xx",), 0),
        (("0xx",), 2),
        (("tls*,",), 2),
    ],
)
def test_check_fail_on_sets_exit_code(
    run: Run, server: Serve, tmp_path: Path, fail_on: tuple[str, ...], code: int
) -> None:
    """`--fail-on` matches answers that occurred. An unknown answer is a usage error, and no request is sent."""
    source = server(synthetic=2)
    urls = urls_of(source, 2)
    if fail_on[0].startswith("timeout"):
        fail_on = ("*timeout,5xx", *fail_on[1:])
    listed = write_urls(tmp_path, [*urls, urls[0] + "x", "http://127.0.0.1:1/"])

    ended = run("check", listed, "--allow-private", "--quiet", "--fail-on", *fail_on)

    assert (ended.code, ended.out) == (code, ""), ended.err
    assert source.stats()["get"] == (0 if code == 2 else 3)


def test_finished_check_repeats_summary_without_requests(run: Run, server: Serve, tmp_path: Path) -> None:
    """The second run has the same summary and the same exit code."""
    source = server(synthetic=20)
    listed = write_urls(tmp_path, [*urls_of(source, 20), "http://127.0.0.1:1/"])
    arguments = ("check", listed, "r.parquet", "--allow-private", "--fail-on", "any")

    first, asked = run(*arguments), source.stats()["get"]
    again = run(*arguments)

    assert (first.code, again.code) == (3, 3)
    assert first.out.splitlines()[1:] == again.out.splitlines()[1:]
    assert again.out.startswith("already complete: 21 rows")
    assert source.stats()["get"] == asked == 20
    assert list((tmp_path / "r.parquet.fetchmill/failures").iterdir()) == []


@pytest.mark.one_in(3)
def test_killed_check_resumes_with_one_row_per_url(
    run: Run, server: Serve, start: Callable[..., Any], tmp_path: Path
) -> None:
    """The check is killed with `kill -9` three times while it runs."""
    source = server(**SLOW)
    urls = urls_of(source, 1500)
    listed = write_urls(tmp_path, urls)
    for done in (100, 400, 800):
        process = start("check", listed, "r.parquet", *HASTE)
        wait_for_rows(tmp_path / "r.parquet", done)
        process.send_signal(signal.SIGKILL)
        process.wait(30)
        assert not (tmp_path / "r.parquet").exists()

    ended = run("check", listed, "r.parquet", *HASTE)

    assert ended.code == 0, ended.err
    assert "resuming: " in ended.err
    assert count_urls(read_rows(tmp_path / "r.parquet")) == dict.fromkeys(urls, 1)
    assert source.stats()["get"] < 1500 + 3 * 400


@pytest.mark.sampled(1)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_check_stopped_by_signal_resumes(
    run: Run, server: Serve, start: Callable[..., Any], tmp_path: Path, number: signal.Signals
) -> None:
    """The check saves its progress and exits with the signal's code; results appear only with the last row."""
    urls = urls_of(server(**SLOW), 1500)
    listed = write_urls(tmp_path, urls)
    process = start("check", listed, "r.csv", *HASTE)
    wait_for_rows(tmp_path / "r.csv", 100)

    process.send_signal(number)
    out, _ = process.communicate(timeout=120)

    assert process.returncode == 128 + number
    assert "run the same command again to resume" in out
    assert not (tmp_path / "r.csv").exists()
    assert run("check", listed, "r.csv", *HASTE).code == 0
    assert count_urls(read_rows(tmp_path / "r.csv")) == dict.fromkeys(urls, 1)


def test_signal_leaves_no_temporary_folder_of_check(
    server: Serve, start: Callable[..., Any], tmp_path: Path, environment: dict[str, str]
) -> None:
    """A check without results cannot be resumed, so nothing of it is kept."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    listed = write_urls(tmp_path, urls_of(server(**SLOW), 1500))
    process = start("check", listed, *HASTE, env=environment | {"TMPDIR": str(temporary)})
    deadline = time.monotonic() + 60
    while not list(temporary.glob("*/job.sqlite")) and time.monotonic() < deadline:
        time.sleep(0.02)

    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=120)

    assert process.returncode == 130
    assert "stopped; no progress was saved" in out
    assert "again to resume" not in out
    assert list(temporary.iterdir()) == []


def test_check_refuses_foreign_or_invalid_results_path(run: Run, server: Serve, tmp_path: Path) -> None:
    """The error is one line, and nothing was changed."""
    source = server(synthetic=2)
    listed = write_urls(tmp_path, urls_of(source, 2))
    (tmp_path / "precious.csv").write_text("precious")
    (tmp_path / "folder.csv").mkdir()

    for name, message in {
        "precious.csv": "exists, but was not written by this job",
        "folder.csv": "exists, but was not written by this job",
        "nowhere/r.csv": "the folder nowhere does not exist",
        "r.txt": "does not give the format of the results",
    }.items():
        refused = run("check", listed, name, "--allow-private")
        assert (refused.code, refused.out) == (2, "")
        assert message in refused.err
    assert {path.name for path in tmp_path.iterdir()} == {"urls.txt", "precious.csv", "folder.csv"}
    assert (tmp_path / "precious.csv").read_text() == "precious"
    assert source.stats()["get"] == 0


def test_check_refuses_results_or_state_of_other_job(run: Run, server: Serve, tmp_path: Path) -> None:
    """A check cannot change its identity while its results exist."""
    listed = write_urls(tmp_path, urls_of(server(synthetic=2), 2))
    assert run("check", listed, "r.csv", "--allow-private").code == 0

    for arguments in (
        ("check", listed, "r.csv", "--template", "{}"),
        ("check", listed, "other.csv", "--state", "r.csv.fetchmill"),
        ("get", listed, "out", "--format", "null", "--state", "r.csv.fetchmill"),
    ):
        refused = run(*arguments, "--allow-private")
        assert refused.code == 2, arguments
        assert "belongs to another job" in refused.err


def test_file_appearing_during_check_is_not_replaced(
    run: Run, server: Serve, start: Callable[..., Any], tmp_path: Path
) -> None:
    """No row is lost: once the other file is gone, the same command writes the results without a request."""
    source = server(**SLOW)
    urls = urls_of(source, 1500)
    listed = write_urls(tmp_path, urls)
    process = start("check", listed, "r.jsonl", *HASTE)
    wait_for_rows(tmp_path / "r.jsonl", 10)
    (tmp_path / "r.jsonl").write_text("precious")
    _, err = process.communicate(timeout=120)
    assert process.returncode == 2
    assert "exists, but was not written by this job; move it away" in err
    asked = source.stats()["get"]

    assert run("check", listed, "r.jsonl", *HASTE).code == 2
    assert (tmp_path / "r.jsonl").read_text() == "precious"
    (tmp_path / "r.jsonl").unlink()
    ended = run("check", listed, "r.jsonl", *HASTE)

    assert ended.code == 0, ended.err
    assert count_urls(read_rows(tmp_path / "r.jsonl")) == dict.fromkeys(urls, 1)
    assert source.stats()["get"] == asked
    assert list(tmp_path.glob(".*")) == []


@pytest.mark.parametrize("is_renamed", [False, True])
def test_kill_between_results_and_journal_loses_no_row(
    run: Run, server: Serve, tmp_path: Path, is_renamed: bool
) -> None:
    """The kill comes when the file is complete, but the job is not yet finished."""
    source = server(synthetic=50)
    urls = urls_of(source, 50)
    listed = write_urls(tmp_path, urls)
    assert run("check", listed, "r.csv", "--allow-private").code == 0
    with sqlite3.connect(tmp_path / "r.csv.fetchmill/job.sqlite") as journal:
        [name] = journal.execute("SELECT value FROM job WHERE key = 'results_unfinished'").fetchone()
        journal.execute("DELETE FROM job WHERE key IN ('finished_at', 'summary')")
    if not is_renamed:
        os.rename(tmp_path / "r.csv", tmp_path / name)

    ended = run("check", listed, "r.csv", "--allow-private")

    assert ended.code == 0, ended.err
    assert "50  100.0 %  200" in ended.out
    assert count_urls(read_rows(tmp_path / "r.csv")) == dict.fromkeys(urls, 1)
    assert source.stats()["get"] == 50
    assert list(tmp_path.glob(".*")) == []


def test_moved_check_results_are_reported_as_missing(run: Run, server: Serve, tmp_path: Path) -> None:
    """The error says how to check again."""
    listed = write_urls(tmp_path, urls_of(server(synthetic=2), 2))
    assert run("check", listed, "r.csv", "--allow-private").code == 0
    (tmp_path / "r.csv").unlink()

    again = run("check", listed, "r.csv", "--allow-private")

    assert again.code == 0
    assert "the results file r.csv no longer exists; remove r.csv.fetchmill to start over" in again.out


@pytest.mark.sampled(3)
@pytest.mark.parametrize("command", [("status", "--failures"), ("verify",), ("ls",), ("export",), ("serve",)])
def test_object_commands_refuse_check_results(
    run: Run, server: Serve, tmp_path: Path, command: tuple[str, ...]
) -> None:
    """The error is one line; `status` shows the progress of the check."""
    listed = write_urls(tmp_path, urls_of(server(synthetic=2), 2))
    assert run("check", listed, "r.csv", "--allow-private").code == 0
    more = ("out", "--format", "tar") if command[0] == "export" else ()

    refused = run(command[0], "r.csv", *command[1:], *more)

    assert refused.code == 2
    assert len(refused.err.splitlines()) == 1
    assert "fetched      2" in run("status", "r.csv").out


def test_last_check_event_has_complete_report(run: Run, server: Serve, tmp_path: Path) -> None:
    """The event has the counts and the failed rows."""
    listed = write_urls(tmp_path, [*urls_of(server(synthetic=2), 2), "http://127.0.0.1:1/"])

    ended = run("check", listed, "--allow-private", "--json")

    report = json.loads(ended.out.splitlines()[-1])
    assert (report["event"], report["rows"], report["counts"]) == ("report", 3, {"200": 2, "refused": 1})
    assert [(row["url"], row["kind"], row["status"]) for row in report["failed"]] == [
        ("http://127.0.0.1:1/", "refused", None)
    ]


def test_python_check_accepts_iterables(server: Serve, tmp_path: Path) -> None:
    """URLs, pairs with a key, and async iterables work; a generator is closed."""
    urls = urls_of(server(synthetic=50), 50)
    ended = []

    def given() -> Any:  # noqa: ANN401 - a generator
        try:
            yield from ((url, f"key {index}") for index, url in enumerate(urls))
        finally:
            ended.append(True)

    async def later() -> Any:  # noqa: ANN401 - an async generator
        for url in urls:
            yield url

    report = fetchmill.check(given(), tmp_path / "r.parquet")
    counted = fetchmill.check(later())

    assert (report.rows, report.counts, report.failed, ended) == (50, {"200": 50}, (), [True])
    assert (counted.rows, counted.results, counted.count("2xx"), counted.count("any")) == (50, None, 50, 0)
    assert {row["key"]: row["url"] for row in read_rows(tmp_path / "r.parquet")} == {
        f"key {index}": url for index, url in enumerate(urls)
    }


def test_impossible_check_options_are_usage_errors(tmp_path: Path) -> None:
    """This holds in Python and on the command line."""
    (tmp_path / "urls.csv").write_text("url,status\nhttp://127.0.0.1:1/,1\n")
    for options in (
        {"source": "http://127.0.0.1:1"},
        {"source": tmp_path / "urls.csv", "column": "url", "keep_columns": ["suspect"]},
        {"source": [], "resolver": ["nobody"]},
        {"source": [], "resolver": ["system", "127.0.0.1"]},
        {"source": [], "allow_private": True, "public_only": True},
        {"source": [], "timeout": 0},
        {"source": [], "headers": {"X-Token": "secret"}},
        {"source": [], "results": tmp_path / "r.zip"},
    ):
        with pytest.raises(fetchmill.UsageError):
            fetchmill.check(**options)
    with pytest.raises(fetchmill.UsageError, match="is not a failure kind or status"):
        check_pattern("")
