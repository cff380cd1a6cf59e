"""`fetchmill get` and `fetchmill.get`: stored data, messages and return values."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fetchmill
from fetchmill.testing import Fault, Server, synthetic_body

pytestmark = pytest.mark.entry_point

Run = Callable[..., Any]
Serve = Callable[..., Server]

COUNT = 2500


def synthetic_tree(count: int, size: int = 100) -> dict[str, bytes]:
    """Returns the expected mirror of synthetic objects."""
    names = [f"file-{index:012}" for index in range(count)]
    return {name: synthetic_body(name, size) for name in names}


def events(text: str) -> list[dict[str, Any]]:
    """Parses JSON lines."""
    return [json.loads(line) for line in text.splitlines()]


def test_get_stores_each_object_once(run: Run, server: Serve, dest: Path, tree: Callable[..., Any]) -> None:
    """All layers take part; messages go to standard error, and the ledger balances."""
    source = server(synthetic=COUNT)

    ended = run("get", source.url, dest)

    assert (ended.code, ended.out) == (0, "")
    assert tree(dest) == synthetic_tree(COUNT)
    assert "2,500 listed = 2,500 fetched + 0 absent + 0 failed + 0 skipped\n" in ended.err
    assert "objects/s" in ended.err
    assert "s per object" in ended.err
    assert source.stats()["get"] == COUNT


def test_folder_is_mirrored_with_subfolders(
    run: Run, server: Serve, dest: Path, tmp_path: Path, tree: Callable[..., Any]
) -> None:
    """Names have slashes, spaces, percent signs and non-ASCII letters."""
    folder = tmp_path / "served"
    for name in ("a", "b/c", "b/d/e f", "100 %", "größe/ß", "q?x=1&y#z", "~tilde", "+plus"):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name * 3)
    expected = {name.replace("%", "%25"): body for name, body in tree(folder).items()}

    ended = run("get", server(folder).url, dest)

    assert ended.code == 0, ended.err
    assert tree(dest) == expected


def test_finished_job_reports_listing_time_without_requests(run: Run, server: Serve, dest: Path) -> None:
    """The message says when the listing was made; nothing is fetched again."""
    source = server(synthetic=10)
    run("get", source.url, dest)

    ended = run("get", source.url, dest)

    assert ended.code == 0
    assert "already complete; the source was listed at 2" in ended.err
    assert " UTC\n" in ended.err
    assert "use a new destination to fetch objects added since then" in ended.err
    assert "resuming" not in ended.err
    assert source.stats()["get"] == 10


@pytest.mark.parametrize(
    ("status", "arguments", "code"), [(404, [], 3), (404, ["--allow-absent"], 0), (403, ["--allow-absent"], 3)]
)
def test_absent_and_failed_targets_set_exit_code(
    run: Run, server: Serve, dest: Path, status: int, arguments: list[str], code: int
) -> None:
    """`--allow-absent` permits absent targets."""
    source = server(synthetic=100, faults=[Fault("status", status=status, match="file-00000000001*")])

    ended = run("get", source.url, dest, *arguments)

    counted = "10 absent + 0 failed" if status == 404 else "0 absent + 10 failed"
    assert ended.code == code
    assert f"100 listed = 90 fetched + {counted} + 0 skipped\n" in ended.err
    assert f"list them: fetchmill status {dest} --failures\n" in ended.err


def test_retry_failed_requests_only_failed_and_absent_targets(
    run: Run, server: Serve, dest: Path, tree: Callable[..., Any]
) -> None:
    """Fetched targets are not requested again."""
    faults = [
        Fault("status", status=403, match="file-00000000001*", times=1),
        Fault("status", status=404, match="file-000000000020"),
    ]
    source = server(synthetic=100, faults=faults)
    first = run("get", source.url, dest)

    ended = run("get", source.url, dest, "--retry-failed", "--allow-absent")

    expected = synthetic_tree(100)
    del expected["file-000000000020"]
    assert first.code == 3
    assert ended.code == 0, ended.err
    assert "100 listed = 99 fetched + 1 absent + 0 failed + 0 skipped\n" in ended.err
    assert tree(dest) == expected
    assert source.stats()["get"] == 111


def test_json_events_end_with_report(run: Run, server: Serve, dest: Path) -> None:
    """Standard output has all data, and nothing is printed elsewhere."""
    ended = run("get", server(synthetic=COUNT).url, dest, "--json")
    found = events(ended.out)

    assert (ended.code, ended.err) == (0, "")
    assert {event["event"] for event in found} <= {"progress", "notice", "report"}
    report = found[-1]
    assert report["event"] == "report"
    assert (report["listed"], report["fetched"], report["pending"], report["failures"]) == (COUNT, COUNT, 0, {})
    assert report["listed_at"].endswith("+00:00")


def test_error_is_one_line_and_one_event(run: Run, dest: Path) -> None:
    """No traceback is printed, and no destination is created."""
    ended = run("get", "ftp://127.0.0.1/", dest, "--json")

    assert ended.code == 2
    assert ended.err.startswith("fetchmill: error: ")
    assert ended.err.count("\n") == 1
    assert events(ended.out) == [
        {
            "event": "error",
            "exit_code": 2,
            "message": ended.err.removeprefix("fetchmill: error: ").strip(),
            "hint": None,
        }
    ]
    assert not dest.exists()


def test_quiet_prints_nothing(run: Run, server: Serve, dest: Path) -> None:
    """Both standard output and standard error stay empty."""
    ended = run("get", server(synthetic=100).url, dest, "--quiet")

    assert (ended.code, ended.out, ended.err) == (0, "", "")


def test_null_format_stores_only_outcomes(run: Run, server: Serve, dest: Path, tree: Callable[..., Any]) -> None:
    """With `--format null`, no object is stored, but the journal has the outcomes."""
    ended = run("get", server(synthetic=COUNT).url, dest, "--format", "null")

    assert ended.code == 0
    assert tree(dest) == {}
    assert fetchmill.status(dest).fetched == COUNT


@pytest.mark.sampled(1)
@pytest.mark.parametrize("closed", ["stdout", "stderr"])
def test_job_continues_when_output_pipe_is_closed(
    start: Run, server: Serve, dest: Path, tree: Callable[..., Any], closed: str
) -> None:
    """In `fetchmill get ... --json | head -1`, the reader closes the pipe."""
    source = server(synthetic=500, delay=(0, 0.1))
    reader, writer = os.pipe()
    os.close(reader)
    process = start("get", source.url, dest, *(["--json"] if closed == "stdout" else []), **{closed: writer})
    os.close(writer)
    out, err = process.communicate(timeout=120)

    assert process.returncode == 0, (out, err)
    assert tree(dest) == synthetic_tree(500)


def test_closed_standard_streams_are_not_reused_for_files(
    server: Serve, dest: Path, environment: dict[str, str], tree: Callable[..., Any]
) -> None:
    """The journal must not get the descriptor of standard error."""
    command = f"exec {sys.executable} -m fetchmill get {server(synthetic=100).url} {dest} <&- >&- 2>&-"

    ended = subprocess.run(["sh", "-c", command], env=environment, timeout=120, check=False)

    assert ended.returncode == 0
    assert tree(dest) == synthetic_tree(100)


def test_concurrent_second_run_is_refused(run: Run, start: Run, server: Serve, dest: Path) -> None:
    """The exit code is 9, and the first run continues."""
    source = server(synthetic=200, delay=(0.2, 0.4))
    first = start("get", source.url, dest)
    while not source.stats()["get"]:
        assert first.poll() is None

    second = run("get", source.url, dest)
    first.communicate(timeout=120)

    assert second.code == 9
    assert second.err.startswith("fetchmill: error: ")
    assert first.returncode == 0


def test_other_job_in_same_destination_is_refused(
    run: Run, server: Serve, dest: Path, tree: Callable[..., Any]
) -> None:
    """Another source or another format is refused, and nothing changes."""
    run("get", server(synthetic=10).url, dest)
    before = tree(dest)

    other_source = run("get", server(synthetic=10).url, dest)
    other_format = run("get", server(synthetic=10).url, dest, "--format", "null")

    assert (other_source.code, other_format.code) == (2, 2)
    assert tree(dest) == before


def test_python_get_returns_ledger(server: Serve, dest: Path, tree: Callable[..., Any]) -> None:
    """`fetchmill.get` runs the same job as the command."""
    faults = [
        Fault("status", status=410, match="file-000000000003"),
        Fault("status", status=401, match="file-000000000005"),
    ]
    source = server(synthetic=10, faults=faults)

    report = fetchmill.get(source.url, dest, limit=4, threads=1)

    assert (report.listed, report.fetched, report.absent, report.failed, report.skipped) == (10, 8, 1, 1, 0)
    assert report.failures == {"status": 1}
    assert report.bytes == 800
    assert report.balanced
    assert report.finished
    assert report.listed_at is not None
    assert report.listed_at.utcoffset() is not None
    assert len(tree(dest)) == 8


def test_python_get_releases_gil(server: Serve, dest: Path) -> None:
    """A Python thread of the same process continues to count while a job runs."""
    program = (
        "import sys, threading, fetchmill\n"
        "count = 0\n"
        "def work():\n"
        "    global count\n"
        "    while True: count += 1\n"
        "threading.Thread(target=work, daemon=True).start()\n"
        "before = count\n"
        "fetchmill.get(sys.argv[1], sys.argv[2])\n"
        "print(count - before)\n"
    )
    source = server(synthetic=200, delay=(0.1, 0.3))

    ended = subprocess.run(
        [sys.executable, "-c", program, source.url, dest], capture_output=True, text=True, timeout=120, check=True
    )

    assert int(ended.stdout) > 100_000


@pytest.mark.parametrize(
    ("options", "error"),
    [({"limit": 0}, fetchmill.UsageError), ({"format": "zip"}, ValueError), ({"speed": 1}, TypeError)],
)
def test_python_get_refuses_invalid_arguments(dest: Path, options: dict[str, Any], error: type[Exception]) -> None:
    """The error comes before anything is changed."""
    with pytest.raises(error):
        fetchmill.get("http://127.0.0.1:1", dest, **options)

    assert not dest.exists()
