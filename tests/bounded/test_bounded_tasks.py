"""`bounded.each` and `bounded.map` for coroutine functions: workers start on demand, each with its own resources."""

import asyncio
import contextlib
import gc
import itertools
import time
import weakref
from collections.abc import AsyncIterator, Iterator
from importlib import import_module
from typing import Any

import pytest

from concurrency import Gauge, others, settle, taken_async
from fetchmill import bounded


async def plus_one(number: int) -> int:
    """Takes longer for smaller numbers, within groups of three."""
    await asyncio.sleep(0.001 * (3 - number % 3))
    return number + 1


@pytest.mark.parametrize("limit", [1, 3, 100])
@pytest.mark.parametrize("ordered", [False, True])
def test_tasks_return_result_of_each_item(limit: int, ordered: bool) -> None:
    """Results are in input order if requested."""

    async def main() -> list[int]:
        return [number async for number in bounded.map(plus_one, range(20), limit=limit, ordered=ordered)]

    found = asyncio.run(main())

    assert (found if ordered else sorted(found)) == list(range(1, 21))


def test_tasks_yield_results_in_completion_order() -> None:
    """Results come in order only if requested."""

    async def main() -> list[float]:
        async def sleep(seconds: float) -> float:
            return await asyncio.sleep(seconds, seconds)

        return [seconds async for seconds in bounded.map(sleep, [0.06, 0.02, 0.04], limit=3)]

    assert asyncio.run(main()) == [0.02, 0.04, 0.06]


def test_several_iterables_end_with_shortest() -> None:
    """The function gets one item of each iterable."""

    async def add(one: int, other: int) -> int:
        return one + other

    async def main() -> list[int]:
        return [total async for total in bounded.map(add, itertools.count(), [5, 6], limit=2, ordered=True)]

    assert asyncio.run(main()) == [5, 7]


def test_async_iterable_must_be_only_iterable() -> None:
    """A single async iterable is accepted, and closed at the end."""
    closed = []

    async def numbers() -> AsyncIterator[int]:
        try:
            for number in range(5):
                await asyncio.sleep(0)
                yield number
        finally:
            closed.append(True)

    async def main() -> list[int]:
        with pytest.raises(TypeError, match="an async iterable must be the only iterable"):
            bounded.map(plus_one, numbers(), [1], limit=2)
        return [number async for number in bounded.map(plus_one, numbers(), limit=2)]

    assert sorted(asyncio.run(main())) == [1, 2, 3, 4, 5]
    assert closed == [True]


@pytest.mark.parametrize("ordered", [False, True])
def test_tasks_read_endless_input_within_window(ordered: bool) -> None:
    """The window is twice the limit, in addition to the results that were taken."""
    gauge = Gauge()
    read = itertools.count()

    async def main() -> None:
        taken = 0
        async for _number in bounded.map(gauge.work, read, limit=3, ordered=ordered):
            taken += 1
            await asyncio.sleep(0.003)
            assert gauge.begun - taken <= 2 * 3
            if taken == 10:
                break
        await settle()
        assert others() == 0

    asyncio.run(main())

    assert gauge.most == 3
    assert next(read) <= 10 + 2 * 3


def test_task_resource_is_passed_to_items_and_on_done() -> None:
    """`on_start` runs once per worker; plain functions and coroutine functions work."""
    opened: list[list[int]] = []
    closed: list[list[int]] = []

    async def open_one() -> list[int]:
        await asyncio.sleep(0)
        opened.append([])
        return opened[-1]

    async def work(number: int, own: list[int]) -> None:
        own.append(number)
        await asyncio.sleep(0.002)

    async def main() -> bounded.Tally:
        return await bounded.each(work, range(12), limit=3, on_start=open_one, on_done=closed.append)

    assert asyncio.run(main()) == bounded.Tally(done=12, failed=0, failures=())
    assert len(opened) == 3
    assert sorted(itertools.chain(*opened)) == list(range(12))
    assert sorted(closed) == sorted(opened)


def test_tasks_start_on_demand() -> None:
    """Two items do not start a hundred workers."""
    started = itertools.count()

    async def main() -> None:
        async def work(_item: int, _started: int) -> None:
            await asyncio.sleep(0.005)

        await bounded.each(work, range(2), limit=100, on_start=lambda: next(started))

    asyncio.run(main())

    assert next(started) == 2


def test_task_error_is_raised_after_resources_are_closed() -> None:
    """Resources are closed before the error is raised."""
    gauge = Gauge()
    closed = []

    async def work(number: int, _own: None) -> None:
        if number == 3:
            raise ValueError(number)
        await gauge.work(number, 60)

    async def put_away(_own: None) -> None:
        await asyncio.sleep(0.005)
        closed.append(True)

    async def main() -> None:
        with pytest.raises(ValueError, match="3"):
            await bounded.each(work, itertools.count(), limit=4, on_start=lambda: None, on_done=put_away)
        assert others() == 0

    asyncio.run(main())

    assert gauge.cancelled == 3
    assert len(closed) == 4


def test_task_error_forms_no_reference_cycle() -> None:
    """An error is not part of a reference cycle."""

    class OwnError(Exception):
        pass

    async def work(_number: int) -> None:
        raise OwnError

    async def main() -> "weakref.ref[Exception]":
        found, _ = await taken_async(bounded.map(work, [1], limit=1, on_error="return"))
        assert isinstance(found[0], bounded.Failed)
        assert isinstance(found[0].error, Exception)
        return weakref.ref(found[0].error)

    gc.disable()
    try:
        assert asyncio.run(main())() is None
    finally:
        gc.enable()


def test_tasks_return_errors_on_request() -> None:
    """With `on_error="return"`, each error comes with its item."""

    async def work(number: int) -> int:
        if number % 2:
            raise ValueError(number)
        return number

    async def main() -> tuple[list[int | bounded.Failed], bounded.Tally]:
        results = bounded.map(work, range(4), limit=2, ordered=True, on_error="return")
        tally = await bounded.each(work, range(1000), limit=9, on_error="return")
        return [result async for result in results], tally

    found, tally = asyncio.run(main())

    assert found[::2] == [0, 2]
    assert [(result.item, type(result.error)) for result in found if isinstance(result, bounded.Failed)] == [
        (1, ValueError),
        (3, ValueError),
    ]
    assert (tally.done, tally.failed, len(tally.failures)) == (500, 500, 100)


def test_stop_async_iteration_in_task_becomes_runtime_error() -> None:
    """StopIteration and the like do not silently end the loop."""

    async def work(_number: int) -> None:
        raise StopAsyncIteration

    async def main() -> None:
        await bounded.each(work, range(4), limit=2)

    with pytest.raises(RuntimeError, match="the function raised StopAsyncIteration"):
        asyncio.run(main())


def test_function_cancelling_own_task_raises_error() -> None:
    """The cancelled item must not be missing silently."""

    async def work(_number: int) -> None:
        task = asyncio.current_task()
        assert task
        task.cancel()
        await asyncio.sleep(0)

    async def main() -> None:
        await bounded.each(work, range(4), limit=2)

    with pytest.raises((RuntimeError, ExceptionGroup)) as raised:
        asyncio.run(main())

    error = raised.value.exceptions[0] if isinstance(raised.value, ExceptionGroup) else raised.value
    assert "was cancelled by the function that it called" in str(error)


def test_item_fails_when_function_awaits_cancelled_task() -> None:
    """The other items are not affected."""

    async def work(number: int) -> None:
        future = asyncio.get_running_loop().create_future()
        if number == 1:
            future.cancel()
        else:
            future.set_result(None)
        await future

    async def main() -> bounded.Tally:
        return await bounded.each(work, range(4), limit=2, on_error="return")

    tally = asyncio.run(main())

    assert (tally.done, tally.failed) == (3, 1)
    assert (tally.failures[0].item, type(tally.failures[0].error)) == (1, asyncio.CancelledError)


@pytest.mark.parametrize("read_before", [0, 1, 7])
def test_tasks_raise_input_error_after_earlier_results(read_before: int) -> None:
    """Results before the error are not lost."""

    def numbers() -> Iterator[int]:
        yield from range(read_before)
        raise LookupError("no more")

    async def main() -> list[int]:
        found, error = await taken_async(bounded.map(plus_one, numbers(), limit=2))
        assert isinstance(error, LookupError)
        assert others() == 0
        return found

    assert sorted(asyncio.run(main())) == list(range(1, read_before + 1))


def test_task_on_start_error_ends_call() -> None:
    """An error in `on_start` ends the call, whatever `on_error` is."""
    gauge = Gauge()
    starts = itertools.count()
    closed: list[int] = []

    def start() -> int:
        if (number := next(starts)) == 2:
            raise ConnectionError("no more")
        return number

    async def main() -> None:
        with pytest.raises(ConnectionError, match="no more"):
            await bounded.each(
                lambda number, _own: gauge.work(number, 60),
                itertools.count(),
                limit=5,
                on_start=start,
                on_done=closed.append,
                on_error="return",
            )
        assert others() == 0

    asyncio.run(main())

    assert sorted(closed) == [0, 1]


def test_task_on_done_errors_are_raised_after_results() -> None:
    """Errors of several `on_done` calls are all raised after the results."""

    def put_away(_own: None) -> None:
        raise OSError("not put away")

    async def work(number: int) -> int:
        await asyncio.sleep(0.002)
        return number

    async def main() -> list[int]:
        found, error = await taken_async(bounded.map(work, range(4), limit=2, on_done=put_away))
        assert isinstance(error, ExceptionGroup)
        assert [type(one) for one in error.exceptions] == [OSError, OSError]
        return found

    assert sorted(asyncio.run(main())) == [0, 1, 2, 3]


def test_break_cancels_tasks_and_closes_resources() -> None:
    """`break` cancels everything as soon as the results are no longer referenced."""
    gauge = Gauge()
    closed: list[None] = []

    async def work(number: int) -> int:
        return await gauge.work(number, 60 if number else 0)

    async def main() -> None:
        async for number in bounded.map(work, itertools.count(), limit=4, on_done=closed.append):
            assert number == 0
            break
        await settle()
        assert others() == 0

    asyncio.run(main())

    assert gauge.now == 0
    assert len(closed) == 4


def test_task_block_exit_waits_for_on_done() -> None:
    """Calls of `on_done` may take long and are not cancelled."""
    closed = []

    async def put_away(_own: None) -> None:
        await asyncio.sleep(0.01)
        closed.append(True)

    async def main() -> None:
        async with bounded.map(plus_one, itertools.count(), limit=4, on_done=put_away) as results:
            await anext(results)
            await anext(results)
        assert others() == 0
        assert len(closed) == 4
        with pytest.raises(StopAsyncIteration):
            await anext(results)

    asyncio.run(main())


def test_map_keeps_result_when_wait_is_cancelled() -> None:
    """A result whose wait was cancelled goes to the next wait."""
    gauge = Gauge()

    async def main() -> list[int]:
        results = bounded.map(lambda number: gauge.work(number, 0.02), range(3), limit=1)
        found: list[int] = []
        while len(found) < 3:
            with contextlib.suppress(TimeoutError):
                found.append(await asyncio.wait_for(anext(results), 0.005))
        return found

    assert asyncio.run(main()) == [0, 1, 2]


def test_timeout_cancels_tasks() -> None:
    """The timeout cancels everything; earlier results are returned."""
    gauge = Gauge()

    async def main() -> list[int]:
        works = bounded.map(
            lambda number: gauge.work(number, 60 * (number > 1)), itertools.count(), limit=3, timeout=0.05
        )
        found, error = await taken_async(works)
        assert isinstance(error, TimeoutError)
        assert others() == 0
        return found

    assert asyncio.run(main()) == [0, 1]
    assert gauge.cancelled == 3


def test_task_rate_spaces_items_evenly() -> None:
    """One worker is enough for items that take no time."""
    began: list[float] = []
    started = itertools.count()

    async def work(_number: int, _own: int) -> None:
        began.append(time.monotonic())

    async def main() -> None:
        await bounded.each(work, range(11), limit=50, rate=100, on_start=lambda: next(started))

    asyncio.run(main())

    # An item never starts too early, except for the slack; its delay depends on the machine.
    assert all(moment - began[0] >= 0.01 * number - 0.025 for number, moment in enumerate(began))
    assert next(started) <= 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"limit": 0}, "limit must be a whole number of at least 1"),
        ({"limit": 1, "rate": 0}, "rate must be a number of items per second above 0"),
        ({"limit": 1, "on_error": "ignore"}, "on_error must be 'raise' or 'return', not 'ignore'"),
    ],
)
def test_map_refuses_invalid_arguments_immediately(options: dict[str, object], message: str) -> None:
    """The error says what to do, in the same words for coroutines, threads and processes."""
    for module in ("tasks", "threads", "processes"):
        map_: Any = import_module(f"fetchmill.bounded.{module}").map
        with pytest.raises(ValueError, match=message):
            map_(plus_one, [], **options)
