"""`bounded.as_completed`: at most `limit` in progress, no lost results and no leftovers, whatever ends it."""

import asyncio
import contextlib
import gc
import itertools
from collections.abc import AsyncIterator, Coroutine, Iterator
from typing import Any

import pytest

from concurrency import Gauge, others, settle, taken_async
from fetchmill import bounded


@pytest.mark.parametrize("limit", [1, 3, 100, None])
def test_plain_loop_yields_all_results_within_limit(limit: int | None) -> None:
    """The limit makes no difference to the results."""
    gauge = Gauge()

    async def main() -> list[int]:
        return [await awaitable for awaitable in bounded.as_completed(gauge.works(range(20)), limit)]

    assert sorted(asyncio.run(main())) == list(range(20))
    assert gauge.most == min(limit or 20, 20)


@pytest.mark.parametrize("limit", [1, 3, 100, None])
@pytest.mark.parametrize("is_async", [False, True])
def test_async_loop_yields_finished_tasks(limit: int | None, is_async: bool) -> None:
    """The input may be a generator or an async generator."""
    gauge = Gauge()

    async def made() -> AsyncIterator[Coroutine[Any, Any, int]]:
        for work in gauge.works(range(20)):
            await asyncio.sleep(0)
            yield work

    async def main() -> list[int]:
        source = made() if is_async else gauge.works(range(20))
        found = []
        async for task in bounded.as_completed(source, limit):
            assert task.done()
            found.append(task.result())
        return found

    assert sorted(asyncio.run(main())) == list(range(20))
    assert gauge.most <= (limit or 20)


def test_as_completed_yields_results_in_completion_order() -> None:
    """The order of the input makes no difference."""

    async def main() -> list[float]:
        sleepers = [asyncio.sleep(seconds, seconds) for seconds in (0.06, 0.02, 0.04)]
        return [await awaitable for awaitable in bounded.as_completed(sleepers, 3)]

    assert asyncio.run(main()) == [0.02, 0.04, 0.06]


def test_as_completed_reads_endless_input_up_to_free_slots() -> None:
    """A slow loop slows down the reading of the input."""
    gauge = Gauge()
    read = itertools.count()

    async def main() -> None:
        loop = bounded.as_completed(gauge.works(read, 0), 5)
        taken = 0
        async for _task in loop:
            taken += 1
            await asyncio.sleep(0.002)
            assert gauge.begun - taken <= 2 * 5
            if taken == 20:
                break

    asyncio.run(main())

    assert next(read) <= 20 + 2 * 5


def test_async_loop_yields_given_futures_themselves() -> None:
    """Futures that the caller passed in are returned themselves, so the caller can identify them."""

    async def main() -> None:
        tasks = {asyncio.create_task(asyncio.sleep(0.001 * number)) for number in range(5)}
        assert {task async for task in bounded.as_completed(iter(tasks), 2)} == tasks

    asyncio.run(main())


def test_unawaited_awaitables_do_not_exceed_limit() -> None:
    """Requested awaitables are read from the input, but wait for a free slot."""
    gauge = Gauge()

    async def main() -> list[int]:
        awaitables = list(bounded.as_completed(gauge.works(range(10)), 2))
        assert len(awaitables) == 10
        await asyncio.sleep(0)
        assert gauge.begun == 2
        return [await awaitable for awaitable in reversed(awaitables)]

    assert sorted(asyncio.run(main())) == list(range(10))
    assert gauge.most == 2


def test_awaitables_can_be_awaited_concurrently() -> None:
    """Each awaitable takes a separate result."""
    gauge = Gauge()

    async def main() -> list[int]:
        return list(await asyncio.gather(*bounded.as_completed(gauge.works(range(10)), 3)))

    assert sorted(asyncio.run(main())) == list(range(10))
    assert gauge.most == 3


def test_loop_continues_after_error_of_one_awaitable() -> None:
    """The error is raised by its awaitable, and no other result is lost."""

    async def work(number: int) -> int:
        if number % 3 == 0:
            raise ValueError(number)
        return number

    async def main() -> tuple[list[int], list[int]]:
        done, failed = [], []
        for awaitable in bounded.as_completed((work(number) for number in range(10)), 2):
            try:
                done.append(await awaitable)
            except ValueError as error:
                failed.append(error.args[0])
        return sorted(done), sorted(failed)

    assert asyncio.run(main()) == ([1, 2, 4, 5, 7, 8], [0, 3, 6, 9])


@pytest.mark.parametrize("read_before", [0, 1, 2, 7])
@pytest.mark.parametrize("is_plain", [False, True])
def test_as_completed_raises_input_error_after_results(read_before: int, is_plain: bool) -> None:
    """Results before the error are not lost."""
    gauge = Gauge()

    def works() -> Iterator[Coroutine[Any, Any, int]]:
        yield from gauge.works(range(read_before))
        raise LookupError("no more")

    async def plain(found: list[int]) -> None:
        for awaitable in bounded.as_completed(works(), 2):
            found.append(await awaitable)  # noqa: PERF401 - it raises in between

    async def main() -> list[int]:
        found: list[int] = []
        if is_plain:
            with pytest.raises(LookupError, match="no more"):
                await plain(found)
        else:
            tasks, error = await taken_async(bounded.as_completed(works(), 2))
            assert isinstance(error, LookupError)
            found = [task.result() for task in tasks]
        assert others() == 0
        return found

    assert sorted(asyncio.run(main())) == list(range(read_before))


def test_as_completed_raises_async_input_error_after_results() -> None:
    """The error ends the loop, and the input is closed."""
    gauge = Gauge()
    closed = []

    async def works() -> AsyncIterator[Coroutine[Any, Any, int]]:
        try:
            for work in gauge.works(range(5)):
                yield work
            raise LookupError("no more")
        finally:
            closed.append(True)

    async def main() -> list[int]:
        tasks, error = await taken_async(bounded.as_completed(works(), 2))
        assert isinstance(error, LookupError)
        return [task.result() for task in tasks]

    assert sorted(asyncio.run(main())) == list(range(5))
    assert closed == [True]


def test_non_awaitable_item_raises_after_earlier_results() -> None:
    """The error comes after the results of earlier items."""

    async def main() -> None:
        works: list[Any] = [asyncio.sleep(0, "one"), 2]
        loop = bounded.as_completed(works, 1)
        assert await next(loop) == "one"
        with pytest.raises(TypeError, match="awaitable"):
            await next(loop)

    asyncio.run(main())


@pytest.mark.parametrize("is_plain", [False, True])
def test_break_cancels_started_tasks_and_stops_reading(is_plain: bool) -> None:
    """Tasks are cancelled as soon as no reference to the iterator is left."""
    gauge = Gauge()
    read = itertools.count()

    async def main() -> None:
        works = itertools.chain([gauge.work(-1, 0)], gauge.works(read, 60))
        if is_plain:
            for awaitable in bounded.as_completed(works, 4):
                assert await awaitable == -1
                break
        else:
            async for task in bounded.as_completed(works, 4):
                assert task.result() == -1
                break
        await settle()
        assert others() == 0

    asyncio.run(main())

    assert gauge.cancelled == 4
    assert next(read) == 4


@pytest.mark.parametrize("is_plain", [False, True])
def test_error_ending_loop_cancels_remaining_tasks(is_plain: bool) -> None:
    """Remaining tasks are cancelled even while the error, and with it its frames, is still referenced."""
    gauge = Gauge()

    async def fail() -> int:
        await asyncio.sleep(0.005)
        raise ValueError

    async def loop() -> None:
        works = itertools.chain([fail()], gauge.works(itertools.count(), 60))
        if is_plain:
            for awaitable in bounded.as_completed(works, 3):
                await awaitable
        else:
            async for task in bounded.as_completed(works, 3):
                task.result()

    async def main() -> Exception | None:
        held = None
        try:
            await loop()
        except ValueError as error:
            held = error
        await settle()
        assert others() == 0
        return held

    assert asyncio.run(main())
    assert gauge.cancelled == gauge.begun


def test_break_closes_async_input() -> None:
    """The input's generator is closed, even in the middle of a wait."""
    closed = []

    async def works() -> AsyncIterator[Coroutine[Any, Any, None]]:
        try:
            yield asyncio.sleep(0)
            await asyncio.sleep(60)
        finally:
            closed.append(True)

    async def main() -> None:
        async for _task in bounded.as_completed(works(), 4):
            break
        await settle()
        assert others() == 0

    asyncio.run(main())

    assert closed == [True]


def test_break_does_not_cancel_given_futures() -> None:
    """Futures that the caller passed in belong to the caller."""

    async def main() -> None:
        given = asyncio.get_running_loop().create_future()
        async with bounded.as_completed([given, asyncio.sleep(0)], 4) as loop:
            async for _task in loop:
                break
        assert not given.cancelled()

    asyncio.run(main())


def test_single_awaitable_keeps_other_tasks_alive() -> None:
    """In `await next(as_completed(...))`, only the awaitable keeps the tasks alive."""
    gauge = Gauge()

    async def main() -> int:
        first = await next(bounded.as_completed(gauge.works(range(9)), 3))
        gc.collect()
        await settle()
        assert others() == 0
        return first

    assert asyncio.run(main()) in range(3)


def test_aclose_waits_until_tasks_are_cancelled() -> None:
    """Tasks that have not begun never begin, and cause no warning."""
    gauge = Gauge()

    async def main() -> None:
        loop = bounded.as_completed(gauge.works(range(10), 60), 2)
        awaitables = [next(loop) for _ in range(5)]
        await asyncio.sleep(0)
        await loop.aclose()
        assert others() == 0
        for awaitable in awaitables:
            with pytest.raises(asyncio.CancelledError):
                await awaitable

    asyncio.run(main())

    assert (gauge.begun, gauge.cancelled) == (2, 2)


def test_as_completed_keeps_result_when_wait_is_cancelled() -> None:
    """A result whose wait was cancelled goes to the next wait."""
    gauge = Gauge()

    async def main() -> list[int]:
        found = []
        for awaitable in bounded.as_completed(gauge.works(range(3), 0.02), 1):
            with contextlib.suppress(TimeoutError):
                found.append(await asyncio.wait_for(awaitable, 0.005))
        return found

    assert asyncio.run(main()) == [0, 1, 2]


def test_cancellation_ends_loop_and_started_tasks() -> None:
    """Cancelling the task that runs the loop ends everything that the loop started."""
    gauge = Gauge()

    async def loop() -> None:
        for awaitable in bounded.as_completed(gauge.works(itertools.count(), 60), 3):
            await awaitable

    async def main() -> None:
        task = asyncio.create_task(loop())
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await settle()
        assert others() == 0

    asyncio.run(main())

    assert gauge.cancelled == 3


@pytest.mark.parametrize("limit", [2, None])
def test_timeout_is_raised_by_unfinished_awaitables(limit: int | None) -> None:
    """Every waiting awaitable raises the timeout; with a limit, running tasks are cancelled."""
    gauge = Gauge()

    async def main() -> tuple[list[int], int]:
        works = itertools.chain([gauge.work(7, 0)], gauge.works(range(3), 60))
        done, late = [], 0
        for awaitable in bounded.as_completed(works, limit, timeout=0.05):
            try:
                done.append(await awaitable)
            except TimeoutError:
                late += 1
        await settle()
        assert others() == (0 if limit else 3)
        return done, late

    done, late = asyncio.run(main())

    assert done == [7]
    assert late == 3
    assert gauge.begun == (3 if limit else 4)


@pytest.mark.parametrize("is_async", [False, True])
def test_timeout_ends_async_loop(is_async: bool) -> None:
    """The timeout applies even if all items that were read are done and the input continues."""

    async def works() -> AsyncIterator[Coroutine[Any, Any, None]]:
        yield asyncio.sleep(0)
        await asyncio.sleep(60)

    async def main() -> None:
        source = works() if is_async else (asyncio.sleep(seconds) for seconds in (0, 60, 60))
        done, error = await taken_async(bounded.as_completed(source, 2, timeout=0.05))
        await settle()
        assert isinstance(error, TimeoutError)
        assert (len(done), others()) == (1, 0)

    asyncio.run(main())


def test_unreached_timeout_has_no_effect() -> None:
    """All results arrive before the timeout, and no error is raised."""

    async def main() -> list[None]:
        sleepers = (asyncio.sleep(0) for _ in range(5))
        return [task.result() async for task in bounded.as_completed(sleepers, 2, timeout=60)]

    assert len(asyncio.run(main())) == 5


def test_loop_over_started_iterator_yields_remaining_results() -> None:
    """No result is lost between `next` calls and a later loop."""
    gauge = Gauge()

    async def main() -> list[int]:
        loop = bounded.as_completed(gauge.works(range(6)), 2)
        found = [await next(loop), await next(loop)]
        return found + [task.result() async for task in loop]

    assert sorted(asyncio.run(main())) == list(range(6))


def test_as_completed_refuses_invalid_arguments() -> None:
    """The limit is checked immediately, and the input at the first step."""
    with pytest.raises(ValueError, match="limit must be a whole number of at least 1"):
        bounded.as_completed([], 0)

    async def works() -> AsyncIterator[Coroutine[Any, Any, None]]:
        yield asyncio.sleep(0)

    async def main() -> None:
        with pytest.raises(TypeError, match="needs `async for`"):
            _ = next(bounded.as_completed(works(), 1))
        with pytest.raises(TypeError, match="expected an iterable of awaitables, not Future"):
            _ = next(bounded.as_completed(asyncio.get_running_loop().create_future(), 1))

    asyncio.run(main())
