"""Rules that end a run: --max-failed, --max-duration, --max-bytes. Nothing is lost, and the same command continues."""

import json
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fetchmill
from engines import ENGINES, engine_options, limit_options
from fetchmill._job import run as running
from fetchmill.engines import engine_job
from fetchmill.testing import Fault, Server
from independent import find_unbalanced
from raw_server import Exchange, RawServer, reply
from stored import read_objects

Run = Callable[..., Any]
Serve = Callable[..., Server]

of_all_engines = pytest.mark.parametrize("engine", ENGINES)
STOPPED = 8


def report_of(ended: Any) -> dict[str, Any]:  # noqa: ANN401 - how a command ended
    """Returns the last event of `--json`."""
    event: dict[str, Any] = json.loads(ended.out.splitlines()[-1])
    assert event["event"] == "report", ended.err
    return event


@pytest.mark.sampled(1)
@of_all_engines
def test_max_bytes_ends_run_and_same_command_continues(engine: str, run: Run, server: Serve, dest: Path) -> None:
    """Each run makes progress, and requests in flight are kept."""
    source = server(synthetic=500, size=1000)
    command = ("get", source.url, dest, "--json", *engine_options(engine), *limit_options(engine))

    # The whole job would take ten seconds; an engine may report its replies a second late.
    stopped = run(*command, "--max-bytes", "50KB", "--rate", "50")
    again = run(*command, "--max-bytes", "400KB", "--rate", "400")
    finished = run(*command)

    first, second, last = map(report_of, (stopped, again, finished))
    assert (stopped.code, again.code in (0, STOPPED), finished.code) == (STOPPED, True, 0)
    assert (first["stopped_by"], first["interrupted"], first["already_finished"]) == ("max_bytes", True, False)
    assert (last["stopped_by"], last["interrupted"]) == (None, False)
    assert 50 <= first["fetched"] < 500
    # Bytes of an earlier run do not count.
    assert second["fetched"] >= min(first["fetched"] + 400, 500)
    assert last["fetched"] == len(list(read_objects(dest, "files"))) == source.stats()["get"] == 500
    assert find_unbalanced(dest) == []


@pytest.mark.sampled(1)
@of_all_engines
def test_max_duration_ends_run_and_same_command_continues(engine: str, run: Run, server: Serve, dest: Path) -> None:
    """No target is requested twice."""
    source = server(synthetic=600, size=10)
    command = ("get", source.url, dest, "--json", *engine_options(engine), *limit_options(engine))

    stopped = run(*command, "--max-duration", "1s", "--rate", "10")
    finished = run(*command, "--max-duration", "1h")

    assert (stopped.code, finished.code) == (STOPPED, 0)
    first, last = report_of(stopped), report_of(finished)
    assert (first["stopped_by"], first["interrupted"], last["stopped_by"]) == ("max_duration", True, None)
    assert first["fetched"] < 600
    assert first["seconds"] < 60
    assert last["fetched"] == len(list(read_objects(dest, "files"))) == source.stats()["get"] == 600


@pytest.mark.sampled(1)
@of_all_engines
def test_max_failed_stops_job_only_above_limit(engine: str, run: Run, server: Serve, dest: Path) -> None:
    """The limit applies to the whole job.

    With the same limit, the next run stops again; with a larger one, it continues.
    """
    source = server(synthetic=900, faults=(Fault("status", rate=0.5, status=403),))
    command = ("get", source.url, dest, "--json", *engine_options(engine), *limit_options(engine))

    stopped = run(*command, "--max-failed", "50", "--rate", "150")
    again = run(*command, "--max-failed", "50", "--rate", "150")
    finished = run(*command, "--max-failed", "90%")

    assert (stopped.code, again.code, finished.code) == (STOPPED, STOPPED, 0)
    first, second, last = map(report_of, (stopped, again, finished))
    assert first["failed"] > 50
    assert (first["stopped_by"], first["tolerated"]) == ("max_failed", False)
    assert first["pending"] > 0 or first["listed_at"] is None
    assert second["stopped_by"] == "max_failed"
    assert (last["tolerated"], last["interrupted"], last["pending"]) == (True, False, 0)
    assert last["fetched"] + last["failed"] == source.stats()["get"] == 900
    assert find_unbalanced(dest) == []


@pytest.mark.parametrize(
    ("limits", "code"),
    [
        (("--max-failed", "5"), 0),
        (("--max-failed", "50%"), 0),
        (("--max-failed", "49%"), 3),
        (("--max-failed", "3"), 3),
        (("--max-failed", "3", "--allow-absent"), 0),
        (("--max-failed", "30%", "--allow-absent"), 0),
        (("--max-failed", "2", "--allow-absent"), 3),
        (("--max-failed", "0"), 3),
        (("--allow-absent",), 3),
        ((), 3),
    ],
)
def test_max_failed_sets_exit_code_of_finished_job(
    run: Run, server: Serve, dest: Path, tmp_path: Path, limits: tuple[str, ...], code: int
) -> None:
    """Absent targets count unless they are allowed; skipped targets are not part of the total."""
    source = server(synthetic=20, faults=(Fault("status", match="file-00000000001*", status=403),))
    names = [f"file-{number:012}" for number in (0, 1, 2, 3, 4, 10, 11, 12)] + ["absent-1", "absent-2", "left-out"]
    (tmp_path / "urls.txt").write_text("".join(f"{source.url}/get/{name}\n" for name in names))
    command = ("get", "urls.txt", dest, "--allow-private", "--exclude", "*left-out", *limits)

    ended = run(*command)

    # A run that was stopped at the last moment continues.
    assert (run(*command) if ended.code == STOPPED else ended).code == code, ended.err


def test_max_failed_is_applied_to_finished_job(run: Run, server: Serve, dest: Path) -> None:
    """Each repeated command applies its own limit to the failures of the finished job."""
    source = server(synthetic=20, faults=(Fault("status", rate=0.5, status=403),))

    assert run("get", source.url, dest).code == 3
    assert run("get", source.url, dest, "--max-failed", "75%").code == 0
    assert run("get", source.url, dest, "--max-failed", "1").code == 3
    assert run("get", source.url, dest).code == 3


@pytest.mark.parametrize("limit", [("--max-duration", "1s"), ("--max-bytes", "300")])
def test_check_stops_at_its_limits(run: Run, server: Serve, tmp_path: Path, limit: tuple[str, str]) -> None:
    """The rows appear once they are complete."""
    source = server(synthetic=300)
    urls = [f"{source.url}/get/file-{number:012}" for number in range(300)]
    (tmp_path / "urls.txt").write_text("".join(f"{url}\n" for url in urls))
    command = ("check", "urls.txt", "rows.csv", "--allow-private", "--rate-per-host", "0", "--json")

    stopped = run(*command, *limit, "--rate", "20")
    finished = run(*command)

    assert (stopped.code, finished.code) == (STOPPED, 0), stopped.err
    assert report_of(stopped)["stopped_by"] == limit[0].removeprefix("--").replace("-", "_")
    assert report_of(finished)["rows"] == 300
    assert len((tmp_path / "rows.csv").read_text().splitlines()) == 301


def test_summary_names_stop_rule_and_how_to_continue(run: Run, server: Serve, dest: Path) -> None:
    """One line has the name of the option."""
    source = server(synthetic=300, faults=(Fault("status", status=403),))

    ended = run("get", source.url, dest, "--max-failed", "20", "--rate", "100")

    assert ended.code == STOPPED
    assert "stopped by --max-failed after a checkpoint; run the same command with a larger --max-failed" in ended.err


def test_python_report_names_stop_rule(server: Serve, dest: Path) -> None:
    """No exception is raised."""
    source = server(synthetic=300)

    report = fetchmill.get(source.url, dest, max_duration=0.5, rate=20)

    assert (report.stopped_by, report.interrupted, report.tolerated) == ("max_duration", True, False)
    assert fetchmill.get(source.url, dest, max_failed="1%").tolerated


def test_hung_function_does_not_block_end_of_run(monkeypatch: pytest.MonkeyPatch, dest: Path) -> None:
    """A hung function gets as much time as after an interrupt, and its target stays pending."""
    monkeypatch.setattr(running, "DRAIN_SECONDS_MAX", 0.5)
    monkeypatch.setattr(engine_job, "JOIN_SECONDS", 0.2)
    goes_on = threading.Event()

    def fetch(target: Any) -> bytes:  # noqa: ANN401 - a target
        if target.sequence == 5:
            goes_on.wait(60)
        return b"1"

    urls = [f"http://a.test/{number}" for number in range(50)]
    options: dict[str, Any] = {"engine": "threads", "concurrency": 4, "fetch": fetch}
    try:
        report = fetchmill.get(urls, dest, max_duration=1, **options)
    finally:
        goes_on.set()

    assert (report.stopped_by, report.interrupted) == ("max_duration", True)
    assert report.pending >= 1
    assert report.seconds < 50
    assert fetchmill.get(urls, dest, **options).fetched == 50


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (
            ("--max-failed", "101%"),
            "--max-failed must be a number of targets, or a percentage such as 1% (0% to 100%), not 101%",
        ),
        (("--max-failed", "many"), "--max-failed must be a number of targets"),
        (("--max-duration", "0"), "--max-duration must be a number of seconds above 0, not 0"),
        (("--max-bytes", "0"), "--max-bytes must be a whole number of at least 1, not 0"),
    ],
)
def test_invalid_stop_limits_are_refused(run: Run, dest: Path, option: tuple[str, str], message: str) -> None:
    """The error comes before anything is created."""
    ended = run("get", "http://127.0.0.1:1", dest, *option)

    assert ended.code == 2
    assert message in ended.err
    assert not dest.exists()


@pytest.mark.sampled(3)
@of_all_engines
def test_bwlimit_applies_to_all_workers_together(engine: str, run: Run, server: Serve, dest: Path) -> None:
    """Requests in flight at the end are not awaited."""
    source = server(synthetic=60, size=20_000)
    options = ("--bwlimit", "600KB", "--json", *engine_options(engine), *limit_options(engine))

    ended = run("get", source.url, dest, *options)

    report = report_of(ended)
    assert (ended.code, report["fetched"], report["bytes"]) == (0, 60, 1_200_000)
    assert report["seconds"] >= (1_200_000 - 8 * 20_000 - 60_000) / 600_000 - 0.1


@pytest.mark.parametrize("tls", [False, True])
def test_bwlimit_applies_within_large_body(server: Serve, dest: Path, tmp_path: Path, tls: bool) -> None:
    """The body does not arrive in one piece, and the time that it waits does not count against its server."""
    source = server(synthetic=2, size=1_000_000, tls=tls)
    authority = tmp_path / "authority.pem"
    authority.write_text(source.ca_pem or "")

    report = fetchmill.get(
        source.url, dest, bwlimit=800e3, idle_timeout=30, total_timeout=30, ca_file=authority if tls else None
    )

    assert (report.fetched, report.failed) == (2, 0)
    assert report.seconds >= 2
    assert [len(body) for _, body in read_objects(dest, "files")] == [1_000_000] * 2


def test_check_obeys_bwlimit(run: Run, server: Serve, tmp_path: Path) -> None:
    """The part of each body that a check reads counts toward the rate."""
    source = server(synthetic=10, size=60_000)
    (tmp_path / "urls.txt").write_text("".join(f"{source.url}/get/file-{n:012}\n" for n in range(10)))

    ended = run("check", "urls.txt", "--allow-private", "--rate-per-host", "0", "--bwlimit", "300KB", "--json")

    assert (ended.code, report_of(ended)["rows"]) == (0, 10)
    assert report_of(ended)["seconds"] >= 0.5


def answers_of(dest: Path) -> dict[str, int]:
    """Returns the number of targets that failed or were absent, by kind."""
    return dict(Counter(failure.kind for failure in fetchmill.failures(dest)))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("format", ["files", "parquet"])
@pytest.mark.parametrize(
    ("kinds", "left"),
    [
        ("status", {"server-error": 3, "absent": 1}),
        ("5xx", {"status": 2, "absent": 1}),
        ("404,403", {"server-error": 3}),
        ("serv*", {"status": 2, "absent": 1}),
        ("reset", {"status": 2, "server-error": 3, "absent": 1}),
        ("any", {}),
    ],
)
def test_retry_failed_requests_only_given_answers(
    run: Run, server: Serve, dest: Path, tmp_path: Path, kinds: str, left: dict[str, int], format: str
) -> None:
    """Other targets stay unchanged, and a later retry run fetches them."""
    broken = (
        Fault("status", match="file-00000000001*", status=403, times=1),
        Fault("status", match="file-00000000002*", status=500, times=1),
    )
    source = server(synthetic=30, faults=(*broken, Fault("status", match="file-000000000005", status=404, times=1)))
    names = [f"file-{number:012}" for number in (0, 1, 5, 10, 11, 20, 21, 22)]
    (tmp_path / "urls.txt").write_text("".join(f"{source.url}/get/{name}\n" for name in names))
    command = ("get", "urls.txt", dest, "--allow-private", "--attempts", "1", "--format", format)

    assert run(*command).code == 3
    assert answers_of(dest) == {"status": 2, "server-error": 3, "absent": 1}
    ended = run(*command, f"--retry-failed={kinds}")

    assert ended.code == (3 if left else 0), ended.err
    assert answers_of(dest) == left
    report = fetchmill.status(dest)
    assert (report.fetched, report.pending) == (8 - sum(left.values()), 0)
    assert dict(report.failures) == {kind: count for kind, count in left.items() if kind != "absent"}
    assert find_unbalanced(dest) == []
    assert run("verify", dest).code == 0
    assert run("get", "--retry-failed", *command[1:]).code == 0
    assert answers_of(dest) == {}
    assert len(list(read_objects(dest, format))) == 8


def test_retry_failed_listing_requests_folders_without_listing(
    run: Run, raw: Callable[..., RawServer], dest: Path
) -> None:
    """Their failure kind is `listing`."""
    good = [False]
    file = reply(b"1")
    top = reply(b'[{"name": "a", "type": "directory"}, {"name": "b", "type": "directory"}]')
    folder = reply(b'[{"name": "x", "type": "file", "size": 1}]')

    def list_folder(status: str) -> Callable[[Exchange], bytes]:
        return lambda _: folder if good[0] else reply(status=status)

    routes = {"/": top, "/a/": list_folder("403 No"), "/b/": list_folder("401 No"), "/a/x": file, "/b/x": file}
    command = ("get", raw(routes).url, dest, "--listing", "autoindex")
    assert run(*command).code == 3
    assert answers_of(dest) == {"listing": 2}
    good[0] = True

    assert run(*command, "--retry-failed=403").code == 3
    assert (answers_of(dest), fetchmill.status(dest).fetched) == ({"listing": 1}, 1)
    assert run(*command, "--retry-failed=listing").code == 0
    assert (answers_of(dest), fetchmill.status(dest).fetched) == ({}, 2)
    assert find_unbalanced(dest) == []


def test_python_retry_failed_takes_sequence_of_kinds(server: Serve, dest: Path) -> None:
    """Other types and unknown kinds are refused."""
    source = server(synthetic=4, faults=(Fault("status", status=403, times=1),))
    fetchmill.get(source.url, dest)

    assert fetchmill.get(source.url, dest, retry_failed=["5xx"]).failed == 4
    assert fetchmill.get(source.url, dest, retry_failed=["5xx", "status"]).fetched == 4
    wrong: list[Any] = [["nonsense"], [], "5xx", [1], "yes"]
    for given in wrong:
        with pytest.raises(fetchmill.UsageError, match=r"retry_failed must be|is not a failure kind or status"):
            fetchmill.get(source.url, dest, retry_failed=given)
