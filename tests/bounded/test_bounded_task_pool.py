"""`bounded.TaskPool`: a slot per task, and no lost errors."""

import asyncio

import pytest

from concurrency import Gauge, others
from fetchmill import bounded


@pytest.mark.parametrize("limit", [1, 3, 50])
def test_pool_put_waits_for_slot_and_exit_for_all_tasks(limit: int) -> None:
    """Leaving the block waits for any number of tasks."""
    gauge = Gauge()

    async def main() -> None:
        async with bounded.TaskPool(limit) as pool:
            for number in range(20):
                await pool.put(gauge.work(number))
                assert gauge.begun <= number + 1
        assert others() == 0

    asyncio.run(main())

    assert (gauge.begun, gauge.now) == (20, 0)
    assert gauge.most == min(limit, 20)


def test_pool_raises_error_group_and_cancels_other_tasks() -> None:
    """The group has all errors, including those that occurred at the same moment and during cancellation."""
    gauge = Gauge()

    async def fail(error: Exception) -> None:
        await asyncio.sleep(0.01)
        raise error

    async def fail_late() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            raise OSError("could not be put away")

    async def main() -> None:
        async with bounded.TaskPool(5) as pool:
            await pool.put(fail(ValueError(1)))
            await pool.put(fail(KeyError(2)))
            await pool.put(fail_late())
            await pool.put(gauge.work(1, 60))

    with pytest.raises(ExceptionGroup) as raised:
        asyncio.run(main())

    assert {type(error) for error in raised.value.exceptions} == {ValueError, KeyError, OSError}
    assert gauge.cancelled == 1


def test_pool_task_error_wakes_waiting_put() -> None:
    """The coroutine of the waiting `put` never runs, and causes no warning."""
    gauge = Gauge()
    reached = []

    async def fail() -> None:
        await asyncio.sleep(0.01)
        raise ValueError

    async def main() -> None:
        async with bounded.TaskPool(1) as pool:
            await pool.put(fail())
            await pool.put(gauge.work(1))
            reached.append(True)

    with pytest.raises(ExceptionGroup):
        asyncio.run(main())

    assert (gauge.begun, reached) == (0, [])


def test_pool_block_error_cancels_tasks() -> None:
    """All errors are raised as one group."""
    gauge = Gauge()

    async def block() -> None:
        async with bounded.TaskPool(3) as pool:
            await pool.put(gauge.work(1, 60))
            await asyncio.sleep(0)
            raise LookupError

    async def main() -> None:
        with pytest.raises(ExceptionGroup) as raised:
            await block()
        assert [type(error) for error in raised.value.exceptions] == [LookupError]
        assert others() == 0

    asyncio.run(main())

    assert gauge.cancelled == 1


def test_cancellation_ends_pool_put_and_all_tasks() -> None:
    """No task is left afterwards."""
    gauge = Gauge()

    async def fill() -> None:
        async with bounded.TaskPool(2) as pool:
            while True:
                await pool.put(gauge.work(1, 60))

    async def main() -> None:
        task = asyncio.create_task(fill())
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert others() == 0

    asyncio.run(main())

    assert (gauge.begun, gauge.cancelled) == (2, 2)


def test_cancelled_pool_task_releases_slot() -> None:
    """The cancellation of a task is not an error."""
    gauge = Gauge()

    async def work_and_leave() -> None:
        task = asyncio.current_task()
        assert task
        task.cancel()
        await gauge.work(1, 60)

    async def main() -> None:
        async with bounded.TaskPool(1) as pool:
            await pool.put(work_and_leave())
            await pool.put(gauge.work(2))

    asyncio.run(main())

    assert (gauge.begun, gauge.cancelled) == (2, 1)


def test_timed_out_pool_put_takes_no_slot() -> None:
    """The slot stays free for another `put`."""
    gauge = Gauge()

    async def main() -> None:
        async with bounded.TaskPool(1) as pool:
            await pool.put(gauge.work(1, 0.05))
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(pool.put(gauge.work(2)), 0.01)
            await asyncio.wait_for(pool.put(gauge.work(3)), 10)

    asyncio.run(main())

    assert gauge.begun == 2


def test_pool_is_unusable_outside_its_block() -> None:
    """A pool can only be used within its block; nothing would wait for its tasks outside."""
    gauge = Gauge()

    async def main() -> None:
        pool = bounded.TaskPool(1)
        for _ in range(2):
            with pytest.raises(RuntimeError):
                await asyncio.wait_for(pool.put(gauge.work(1)), 10)
        with pytest.raises(ValueError, match="limit must be a whole number of at least 1"):
            bounded.TaskPool(0)

    asyncio.run(main())

    assert gauge.begun == 0
