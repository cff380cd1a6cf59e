"""`fetch=`: custom functions in every Python engine, their possible results, and their exceptions.

The functions are in engine_functions.py, where worker processes find them. `FETCHMILL_ENGINES` selects engines.
"""

import inspect
import os
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import requests

import engine_functions
import fetchmill
from engine_functions import body_of
from engines import IN_PYTHON, WITH_COROUTINES, WITH_PROCESSES, limit_of, wait_for, worker_processes
from fetchmill.testing import Server
from foreign import read_objects as read_with
from independent import Expected, find_problems, synthetic, synthetic_name
from stored import read_objects

Serve = Callable[..., Server]

# Nothing is requested at this port.
NOWHERE = "http://127.0.0.1:1"
OK = [f"ok-{number}" for number in range(20)]

of_engines = pytest.mark.parametrize("engine", IN_PYTHON)
of_engines_with_processes = pytest.mark.parametrize("engine", WITH_PROCESSES)
of_blocking_engines = pytest.mark.parametrize("engine", [each for each in IN_PYTHON if each not in WITH_COROUTINES])
of_awaiting_engines = pytest.mark.parametrize("engine", [each for each in IN_PYTHON if each in WITH_COROUTINES])


def function(engine: str, name: str) -> Any:  # noqa: ANN401 - a function of some kind
    """Returns the function of this name in the form that the engine needs: plain, or a coroutine function."""
    return getattr(engine_functions, f"{name}_soon" if engine in WITH_COROUTINES else name)


def targets(*names: str) -> list[tuple[str, str]]:
    """Returns URLs and names."""
    return [(f"{NOWHERE}/{number}?of={name}", name) for number, name in enumerate(names)]


def get(engine: str, source: Any, dest: Path, **options: Any) -> fetchmill.Report:  # noqa: ANN401 - of fetchmill.get
    """Runs a job with short delays between attempts."""
    settings: dict[str, Any] = {"engine": engine, "attempts": 2, **options}
    return fetchmill.get(source, dest, **settings)


def failures(dest: Path) -> dict[str, fetchmill.Failure]:
    """Returns failures by name."""
    return {failure.name: failure for failure in fetchmill.failures(dest)}


@pytest.fixture(autouse=True)
def _nothing_stays() -> Iterator[None]:
    """Checks that no thread and no process of an engine is left after a job."""
    threads, processes = threading.active_count(), worker_processes(os.getpid())
    yield
    assert wait_for(lambda: threading.active_count() <= threads)
    assert wait_for(lambda: worker_processes(os.getpid()) <= processes)


# --- input and results -------------------------------------------------------------------------------------------


@pytest.mark.sampled(5)
@of_engines
@pytest.mark.parametrize("format", ["files", "tar", "parquet", "jsonl", "null"])
def test_bytes_returned_by_function_are_stored(memory_path: Path, engine: str, format: str) -> None:
    """Each object is stored once in every format, and no request is made."""
    dest = memory_path / "out"

    report = get(engine, targets(*OK), dest, fetch=function(engine, "give"), format=format)

    assert (report.fetched, report.finished) == (len(OK), True)
    assert find_problems(dest, Expected({name: body_of(name) for name in OK}), format) == []


@pytest.mark.sampled(3)
@of_engines
def test_function_receives_target(dest: Path, engine: str) -> None:
    """The target has its number, name, URL and attempt, and the header fields of its request."""
    source = targets("b", "a")

    get(engine, source, dest, fetch=function(engine, "tell_target"), format="jsonl")

    found = {name: body.decode().split(" ", 4) for name, body in read_objects(dest, "jsonl")}
    assert {name: tuple(told[:4]) for name, told in found.items()} == {
        "b": ("0", "b", f"{NOWHERE}/0?of=b", "1"),
        "a": ("1", "a", f"{NOWHERE}/1?of=a", "1"),
    }
    assert all("'user-agent'" in told[4] and "'accept-encoding'" in told[4] for told in found.values())


@pytest.mark.sampled(3)
@of_engines
def test_function_fetches_listed_objects(server: Serve, dest: Path, engine: str) -> None:
    """A function fetches the objects that the engine has listed."""
    source = server(synthetic=50)

    report = get(engine, source.url, dest, fetch=function(engine, "give"))

    names = [synthetic_name(index) for index in range(50)]
    assert report.fetched == 50
    assert dict(read_objects(dest, "files")) == {name: body_of(name) for name in names}
    assert source.stats()["get"] == 0


@pytest.mark.sampled(3)
@of_engines
def test_reply_from_function_is_treated_like_server_reply(dest: Path, engine: str) -> None:
    """A reply's status decides: stored with its metadata, absent, failed immediately, or tried again."""
    names = ["reply", "status-404", "status-302", "status-403", "status-500"]

    report = get(engine, targets(*names), dest, fetch=function(engine, "give"), format="jsonl")

    found = failures(dest)
    assert (report.fetched, report.absent, report.failed) == (1, 1, 3)
    assert {name: (each.kind, each.status, each.attempts) for name, each in found.items()} == {
        "status-404": ("absent", 404, 1),
        "status-302": ("redirect", 302, 1),
        "status-403": ("status", 403, 1),
        "status-500": ("server-error", 500, 2),
    }
    (stored,) = read_with(dest, "jsonl", "json")
    assert (stored.name, stored.body, stored.status) == (b"reply", body_of("reply"), 200)
    assert (stored.content_type, stored.etag) == ("text/x-told", '"told"')
    assert stored.last_modified == datetime(2015, 2, 13, 12, 34, 56, tzinfo=UTC)


@of_blocking_engines
def test_requests_response_is_accepted(server: Serve, dest: Path, engine: str) -> None:
    """A `requests` response is accepted, and each worker has one session."""
    source = server(synthetic=40)

    report = get(
        engine,
        source.url,
        dest,
        fetch=engine_functions.get_with_requests,
        on_start=requests.Session,
        on_done=engine_functions.close_session,
    )

    assert report.fetched == 40
    assert find_problems(dest, synthetic(40)) == []
    assert source.stats()["get"] == 40


@of_blocking_engines
def test_urllib3_response_is_accepted(server: Serve, dest: Path, engine: str) -> None:
    """A `urllib3` response, whose body is called `data`, is accepted."""
    source = server(synthetic=20)

    report = get(engine, source.url, dest, fetch=engine_functions.get_with_urllib3)

    assert report.fetched == 20
    assert find_problems(dest, synthetic(20)) == []


@of_awaiting_engines
def test_aiohttp_session_belongs_to_its_worker(server: Serve, dest: Path, engine: str) -> None:
    """The session is opened and closed in the event loop that uses it, and its responses are accepted."""
    source = server(synthetic=40)

    report = get(
        engine,
        source.url,
        dest,
        fetch=engine_functions.get_with_aiohttp,
        on_start=engine_functions.open_aiohttp,
        on_done=engine_functions.close_aiohttp,
    )

    assert report.fetched == 40
    assert find_problems(dest, synthetic(40)) == []
    assert source.stats()["get"] == 40


# --- errors in the function --------------------------------------------------------------------------------------


@pytest.mark.sampled(3)
@of_engines
def test_exception_in_function_fails_only_its_target(dest: Path, engine: str) -> None:
    """The target fails with kind `function` after its attempts. The detail is one line with type and text."""
    report = get(engine, targets("error-1", *OK, "error-2"), dest, fetch=function(engine, "give"))

    found = failures(dest)
    assert (report.fetched, report.failures) == (len(OK), {"function": 2})
    assert {name: (each.kind, each.status, each.attempts) for name, each in found.items()} == {
        "error-1": ("function", None, 2),
        "error-2": ("function", None, 2),
    }
    assert all(each.detail.startswith("LookupError") and name in each.detail for name, each in found.items())
    assert all("\n" not in each.detail for each in found.values())
    assert dict(read_objects(dest, "files")) == {name: body_of(name) for name in OK}


@pytest.mark.sampled(3)
@of_engines
def test_target_is_retried_when_function_raises(dest: Path, engine: str) -> None:
    """The usual retry policy applies, and the target has the number of its attempt."""
    report = get(engine, targets("late", *OK), dest, fetch=function(engine, "give"), attempts=3)

    assert (report.fetched, report.failed, report.attempts) == (len(OK) + 1, 0, len(OK) + 3)
    assert (dest / "late").read_bytes() == body_of("late")


@pytest.mark.sampled(3)
@of_engines
def test_invalid_function_result_fails_target(dest: Path, engine: str) -> None:
    """The target fails with kind `function`, and the detail has the type of the result."""
    report = get(engine, targets("number", *OK), dest, fetch=function(engine, "give"))

    assert (report.fetched, report.failures) == (len(OK), {"function": 1})
    assert "int" in failures(dest)["number"].detail


@pytest.mark.sampled(1)
@of_engines
def test_bug_in_function_ends_job_early(
    dest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    """If the first targets all fail at the same line of code, the job stops and reports the error and the line."""
    notes = tmp_path / "notes"
    notes.mkdir()
    monkeypatch.setenv("NOTES", str(notes))
    names = [f"n{number}" for number in range(5000)]

    with pytest.raises(fetchmill.UsageError) as caught:
        get(engine, targets(*names), dest, fetch=function(engine, "mistake"), limit=limit_of(engine), attempts=5)

    text = str(caught.value)
    assert "NameError: name 'undefined_name' is not defined" in text
    assert "engine_functions.py, line" in text
    assert "in mistake" in text
    assert "\n" not in text
    assert len((notes / "calls").read_text().split()) < 200

    monkeypatch.undo()
    report = get(engine, targets(*names), dest, fetch=function(engine, "give"))
    assert (report.fetched, report.failed) == (len(names), 0)


@of_engines
def test_function_error_after_good_replies_fails_only_targets(dest: Path, engine: str) -> None:
    """The error may be due to unusual targets, so the job continues."""
    names = [*OK, *(f"odd-{number}" for number in range(10))]
    limit = {"limit": 1} if engine not in WITH_PROCESSES else {"threads": 1, "limit": 1}

    report = get(engine, targets(*names), dest, fetch=function(engine, "give_or_mistake"), **limit)

    assert (report.fetched, report.failures) == (len(OK), {"function": 10})
    assert failures(dest)["odd-3"].detail.startswith("TypeError")


@pytest.mark.sampled(1)
@of_engines_with_processes
def test_function_killing_its_process_fails_only_its_target(dest: Path, engine: str) -> None:
    """A target that kills its process fails with kind `worker` after its attempts.

    Other targets in progress are fetched.
    """
    names = [*OK[:10], "kill-1", *OK[10:]]

    report = get(engine, targets(*names), dest, fetch=function(engine, "give"), attempts=3)

    assert (report.fetched, report.failures) == (len(OK), {"worker": 1})
    assert find_problems(dest, Expected({name: body_of(name) for name in OK}, frozenset({"kill-1"}))) == []
    assert {name: (each.kind, each.attempts) for name, each in failures(dest).items()} == {"kill-1": ("worker", 3)}


# --- workers -----------------------------------------------------------------------------------------------------


@pytest.mark.sampled(2)
@of_engines
def test_on_start_and_on_done_run_once_per_worker(
    dest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    """The result of `on_start` is passed with each target, and to `on_done`, in the same worker."""
    notes = tmp_path / "notes"
    notes.mkdir()
    monkeypatch.setenv("NOTES", str(notes))
    names = [f"n{number}" for number in range(100)]

    report = get(
        engine,
        targets(*names),
        dest,
        fetch=function(engine, "note"),
        on_start=function(engine, "open_notes"),
        on_done=function(engine, "close_notes"),
        limit=limit_of(engine),
    )

    lines = {path.name: path.read_text().split() for path in notes.iterdir()}
    assert report.fetched == 100
    assert all((each[0], each[-1], len(set(each))) == ("start", "end", len(each)) for each in lines.values())
    assert 1 <= len(lines) <= (1 if engine == "asyncio" else limit_of(engine))
    assert sorted(name for each in lines.values() for name in each[1:-1]) == sorted(names)
    assert all(name in lines[body.decode()] for name, body in read_objects(dest, "files"))
    processes = {name.partition("-")[0] for name in lines}
    assert (processes == {str(os.getpid())}) == (engine not in WITH_PROCESSES)


@pytest.mark.sampled(1)
@of_engines
def test_exception_in_on_start_ends_job(dest: Path, engine: str) -> None:
    """An exception in `on_start` ends the job and is raised. No target fails, and the job can continue."""
    options = {"fetch": function(engine, "note"), "on_start": function(engine, "refuse_to_start")}

    with pytest.raises(PermissionError, match="no client for you"):
        get(engine, targets(*OK), dest, **options)

    report = get(engine, targets(*OK), dest, fetch=function(engine, "give"))
    assert (report.fetched, report.failed) == (len(OK), 0)


@pytest.mark.timing
@pytest.mark.parametrize("engine", [engine for engine in IN_PYTHON if engine == "threads"])
def test_workers_start_only_when_needed(tmp_path: Path, engine: str) -> None:
    """With 100 targets and 50 ms per start, limit 100 takes at most twice as long as limit 10."""
    names = [f"n{number}" for number in range(100)]
    seconds: dict[int, float] = {}

    for attempt in range(3):
        for limit in (10, 100):
            began = time.monotonic()
            get(
                engine,
                targets(*names),
                tmp_path / f"out-{attempt}-{limit}",
                fetch=engine_functions.give_with_client,
                on_start=engine_functions.open_slowly,
                format="null",
                limit=limit,
            )
            seconds[limit] = min(seconds.get(limit, 1e9), time.monotonic() - began)
        if seconds[100] <= 2 * seconds[10]:
            break

    assert seconds[100] <= 2 * seconds[10], seconds


# --- refused functions -------------------------------------------------------------------------------------------


def assert_refused(engine: str, dest: Path, *words: str, **options: Any) -> None:  # noqa: ANN401 - of fetchmill.get
    """Checks that the error is one line with these words, and that nothing was created."""
    with pytest.raises(fetchmill.UsageError) as caught:
        get(engine, targets("a"), dest, **options)

    assert "\n" not in str(caught.value)
    assert all(word in str(caught.value) for word in words), str(caught.value)
    assert not dest.exists()


@of_engines
def test_wrong_kind_of_function_is_refused(dest: Path, engine: str) -> None:
    """Coroutine functions for blocking engines, plain ones for event loops, and other values are refused."""
    wrong = engine_functions.no_coroutine if engine in WITH_COROUTINES else engine_functions.coroutine

    assert inspect.iscoroutinefunction(wrong) == (engine not in WITH_COROUTINES)
    assert_refused(engine, dest, "fetch", "coroutine", engine, fetch=wrong)
    assert_refused(engine, dest, "fetch", fetch="give")


@of_engines_with_processes
def test_unpicklable_function_is_refused(dest: Path, engine: str) -> None:
    """A function that refers to a lock of this process is refused, also as `on_start` or `on_done`."""
    lock = threading.Lock()

    async def inner(target: Any) -> bytes:  # noqa: ANN401
        return body_of(target.name) if lock.locked() else b""

    def start() -> None:
        lock.acquire()

    unpicklable: Any = (
        inner if engine in WITH_COROUTINES else lambda target: body_of(target.name) if lock.locked() else b""
    )
    fit = function(engine, "give")

    assert_refused(engine, dest, "fetch", fetch=unpicklable)
    assert_refused(engine, dest, "on_start", fetch=fit, on_start=start)
    assert_refused(engine, dest, "on_done", fetch=fit, on_done=start)


@pytest.mark.skipif(not IN_PYTHON, reason="needs the option engine")
def test_native_engine_refuses_function(dest: Path) -> None:
    """`native` refuses a function, because it makes its requests without Python."""
    assert_refused("native", dest, "fetch", "engine", fetch=engine_functions.give)


@of_engines
def test_on_start_and_on_done_are_refused_without_function(dest: Path, engine: str) -> None:
    """`on_start` and `on_done` are refused without a function."""
    assert_refused(engine, dest, "on_start", "fetch", on_start=engine_functions.open_slowly)
