"""Attempts, waits and time limits of items, for tasks, threads and processes."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import process_functions as functions
from fetchmill import bounded
from fetchmill.bounded import processes, threads
from fetchmill.bounded.retries import WAIT_MAX, RetryPolicy

Call = Callable[..., list[Any]]


def with_tasks(function: Callable[..., Any], items: list[Any], **options: Any) -> list[Any]:  # noqa: ANN401
    """Runs `bounded.map` with a plain function."""

    async def call(*arguments: Any) -> Any:  # noqa: ANN401
        await asyncio.sleep(0)
        return function(*arguments)

    async def run() -> list[Any]:
        return [result async for result in bounded.map(call, items, limit=2, ordered=True, **options)]

    return asyncio.run(run())


def with_threads(function: Callable[..., Any], items: list[Any], **options: Any) -> list[Any]:  # noqa: ANN401
    """Runs `bounded.threads.map`."""
    return list(threads.map(function, items, limit=2, ordered=True, **options))


def with_processes(function: Callable[..., Any], items: list[Any], **options: Any) -> list[Any]:  # noqa: ANN401
    """Runs `bounded.processes.map`."""
    return list(processes.map(function, items, limit=2, ordered=True, **options))


of_all = pytest.mark.parametrize("call", [with_tasks, with_threads, with_processes])


@of_all
def test_failed_item_is_retried_up_to_attempts(call: Call, tmp_path: Path) -> None:
    """The last error of a failed item counts."""
    items = [(str(tmp_path / f"{fails}"), fails) for fails in range(4)]

    found = call(functions.fail_so_often, items, attempts=3, retry_wait=0.001, on_error="return")

    assert found[:3] == [1, 2, 3]
    assert isinstance(found[3], bounded.Failed)
    assert str(found[3].error) == "attempt 3"


@of_all
def test_error_outside_retry_on_is_raised_immediately(call: Call, tmp_path: Path) -> None:
    """Only errors in `retry_on` are retried."""
    with pytest.raises(ValueError, match="attempt 1"):
        call(functions.fail_so_often, [(str(tmp_path / "a"), 1)], attempts=3, retry_on=(OSError, KeyError))


def test_retry_wait_doubles_up_to_bound_with_jitter() -> None:
    """Waits double up to 30 s and are shortened at random by up to a half."""
    policy = RetryPolicy(attempts=100, retry_wait=1.0)

    for attempt, longest in ((1, 1.0), (2, 2.0), (5, 16.0), (6, WAIT_MAX), (99, WAIT_MAX), (5000, WAIT_MAX)):
        waits = {policy.wait_after(attempt) for _ in range(50)}
        assert len(waits) > 1
        assert longest / 2 <= min(waits) <= max(waits) <= longest


def test_item_timeout_applies_to_each_coroutine_attempt() -> None:
    """A coroutine that takes longer is cancelled and may be retried."""
    began: list[float] = []

    async def hang(seconds: float) -> float:
        began.append(seconds)
        await asyncio.sleep(seconds)
        return seconds

    async def run() -> list[Any]:
        options: Any = {"item_timeout": 0.1, "attempts": 2, "retry_wait": 0.0, "on_error": "return"}
        return [result async for result in bounded.map(hang, [0.0, 60.0], limit=2, ordered=True, **options)]

    quick, slow = asyncio.run(run())

    assert quick == 0.0
    assert isinstance(slow.error, TimeoutError)
    assert began == [0.0, 60.0, 60.0]


def test_process_over_item_timeout_is_killed_and_replaced() -> None:
    """The item of the killed process fails, and all others are done."""
    began = time.monotonic()

    found = with_processes(time.sleep, [0, 60, 0, 0], item_timeout=0.5, on_error="return")

    assert time.monotonic() - began < 30
    assert [isinstance(result, bounded.Failed) for result in found] == [False, True, False, False]
    assert isinstance(found[1].error, bounded.ItemTimeoutError)
    assert isinstance(found[1].error, TimeoutError)
    assert "it took longer than 0.5 s" in str(found[1].error)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"attempts": 0}, "attempts must be a whole number of at least 1"),
        ({"attempts": 1.5}, "attempts must be a whole number of at least 1, not 1.5"),
        ({"retry_wait": -1}, "retry_wait must be a number of seconds of at least 0, not -1"),
        ({"item_timeout": 0}, "item_timeout must be a number of seconds above 0, or None, not 0"),
        ({"limit": "4"}, "limit must be a whole number of at least 1, not '4'"),
        ({"limit": 1.5}, "limit must be a whole number of at least 1, not 1.5"),
    ],
)
def test_invalid_retry_options_are_refused(options: dict[str, Any], message: str) -> None:
    """Impossible values are refused before anything begins."""
    with pytest.raises(ValueError, match=message):
        processes.map(abs, [1], **{"limit": 1, **options})


def test_item_timeout_is_refused_for_threads() -> None:
    """A thread has no time limit, because a call in a thread cannot be stopped."""
    with pytest.raises(TypeError, match="item_timeout"):
        threads.map(abs, [1], limit=1, item_timeout=1)  # type: ignore[call-overload]
