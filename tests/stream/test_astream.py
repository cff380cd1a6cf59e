"""`fetchmill.astream`: a stream in an event loop, which leaves nothing behind if the loop continues without it."""

import asyncio
import gc
import itertools
import os
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping

import pytest

import fetchmill
from fetchmill.testing import Server
from process_threads import own_threads
from raw_server import Behaviour, RawServer, reply

Serve = Callable[..., Server]
Raw = Callable[[Mapping[str, Behaviour]], RawServer]
WINDOW = 256


def urls(server: Server, count: int) -> list[str]:
    """Returns the URLs of the first synthetic objects."""
    return [f"{server.url}/get/file-{number:012d}" for number in range(count)]


def events() -> int:
    """Returns the descriptors that wake up event loops."""
    return sum(is_event(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd"))


def is_event(link: str) -> bool:
    """Returns whether a descriptor wakes up an event loop. It may already be closed."""
    try:
        return "eventfd" in os.readlink(link)
    except FileNotFoundError:
        return False


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    """Asserts that the test leaves as many threads and event descriptors as there were before."""
    before = own_threads(), events()
    yield
    gc.collect()
    assert (own_threads(), events()) <= before


async def listed(items: list[str], pause: float = 0.0) -> AsyncIterator[str]:
    """Yields the items with pauses between them."""
    for item in items:
        if pause:
            await asyncio.sleep(pause)
        yield item


@pytest.mark.sampled(3)
@pytest.mark.parametrize("pause", [None, 0.0, 0.0005])
@pytest.mark.parametrize("ordered", [False, True])
def test_every_item_of_async_stream_gets_its_reply(server: Serve, pause: float | None, ordered: bool) -> None:
    """The input is an iterable, or an async iterable that may suspend."""
    wanted = urls(server(synthetic=1000), 1000)

    async def main() -> list[int]:
        items = wanted if pause is None else listed(wanted, pause)
        return [reply.index async for reply in fetchmill.astream(items, ordered=ordered) if reply.ok]

    found = asyncio.run(main())

    assert (found if ordered else sorted(found)) == list(range(1000))


def test_available_reply_is_returned_without_suspending(server: Serve) -> None:
    """No other task runs between two available replies."""
    wanted = urls(server(synthetic=640), 640)

    async def main() -> tuple[int, int]:
        turns = 0

        async def count_turns() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        counting = asyncio.create_task(count_turns())
        together = 0
        before = -1
        async for _ in fetchmill.astream(wanted):
            together += turns == before
            before = turns
        counting.cancel()
        return together, turns

    together, turns = asyncio.run(main())

    assert together > 320
    assert turns > 1


@pytest.mark.parametrize("is_async", [False, True])
def test_input_is_not_read_while_event_loop_is_busy(server: Serve, is_async: bool) -> None:
    """This holds even if the event loop has nothing else to do."""
    wanted = urls(server(synthetic=3000), 3000)
    taken = itertools.count()
    count = 0

    def counted() -> Iterator[str]:
        nonlocal count
        for url in wanted:
            count = next(taken) + 1
            yield url

    async def acounted() -> AsyncIterator[str]:
        for url in counted():
            yield url

    async def main() -> None:
        found = set()
        async with fetchmill.astream(acounted() if is_async else counted(), limit=8) as replies:
            async for reply in replies:
                found.add(reply.index)
                if len(found) == 500:
                    await asyncio.sleep(0.2)
                    before = count
                    await asyncio.sleep(0.5)
                    assert count == before <= 500 + 8 + WINDOW + 1
        assert found == set(range(3000))

    asyncio.run(main())


@pytest.mark.parametrize("is_async", [False, True])
def test_abandoned_async_loop_leaves_no_task(server: Serve, is_async: bool) -> None:
    """The loop is left with `break`, and the stream is not closed explicitly."""
    wanted = urls(server(synthetic=500), 500)

    async def main() -> None:
        async for _ in fetchmill.astream(listed(wanted, 0.001) if is_async else wanted):
            break
        await asyncio.sleep(0.05)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main(), debug=True)


def test_program_with_open_async_stream_ends_silently(raw: Raw, capfd: pytest.CaptureFixture[str]) -> None:
    """There is no pending task, no warning and no hang."""
    server = raw({"/never": lambda exchange: exchange.stall()})
    kept = []

    async def endless() -> AsyncIterator[str]:
        while True:
            yield server.url + "/never"

    async def main() -> None:
        # On a busy machine, a step may be slow, and debug mode would report that.
        asyncio.get_running_loop().slow_callback_duration = 60
        replies = fetchmill.astream(endless())
        kept.append(replies)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(replies), 0.1)

    asyncio.run(main(), debug=True)
    kept.clear()
    gc.collect()

    assert capfd.readouterr() == ("", "")


def test_cancelled_wait_can_be_repeated(raw: Raw) -> None:
    """No reply is lost."""

    def late(_exchange: object) -> bytes:
        time.sleep(0.3)
        return reply(b"x")

    server = raw({"/late": late})

    async def main() -> bytes | memoryview:
        async with fetchmill.astream([server.url + "/late"]) as replies:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(replies), 0.05)
            return (await anext(replies)).body

    assert asyncio.run(main()) == b"x"


@pytest.mark.parametrize("is_async", [False, True])
def test_input_exception_is_raised_by_async_loop(server: Serve, is_async: bool) -> None:
    """The exception ends the loop."""
    running = server(synthetic=10)

    def broken() -> Iterator[str]:
        yield from urls(running, 5)
        raise KeyError("mine")

    async def abroken() -> AsyncIterator[str]:
        for url in broken():
            yield url

    async def main() -> None:
        replies = fetchmill.astream(abroken() if is_async else broken())
        with pytest.raises(KeyError, match="mine"):
            async for _ in replies:
                pass
        assert [reply async for reply in replies] == []

    asyncio.run(main())


def test_invalid_item_of_async_input_is_refused() -> None:
    """The error is raised in the loop that takes the replies."""

    async def odd() -> AsyncIterator[object]:
        yield 5

    async def main() -> None:
        async for _ in fetchmill.astream(odd()):  # type: ignore[arg-type]
            pass

    with pytest.raises(fetchmill.UsageError, match="must yield URLs"):
        asyncio.run(main())


def test_first_failure_is_raised_by_async_stream_if_requested() -> None:
    """The exception describes the failure."""

    async def main() -> None:
        async for _ in fetchmill.astream(["http://127.0.0.1:1/"], attempts=1, on_error="raise"):
            pass

    with pytest.raises(fetchmill.ReplyError, match="refused"):
        asyncio.run(main())


def test_blocking_stream_works_inside_running_loop(server: Serve) -> None:
    """A blocking stream does not use the running loop. An async input gets a separate loop."""
    wanted = urls(server(synthetic=200), 200)

    async def main() -> list[int]:
        return [sum(reply.ok for reply in fetchmill.stream(items)) for items in (wanted, listed(wanted))]

    assert asyncio.run(main()) == [200, 200]


def test_async_streams_of_one_client_run_concurrently(server: Serve) -> None:
    """The streams may share one event loop or run in the loops of several threads."""
    wanted = urls(server(synthetic=1000), 1000)
    found: list[list[int]] = []

    with fetchmill.Client(limit=8) as client:

        async def take(part: int) -> int:
            return len([reply async for reply in client.astream(wanted[part::4]) if reply.ok])

        async def main() -> list[int]:
            return await asyncio.gather(*(take(part) for part in range(4)))

        runs = [threading.Thread(target=lambda: found.append(asyncio.run(main()))) for _ in range(2)]
        for run in runs:
            run.start()
        for run in runs:
            run.join(30)

    assert found == [[250] * 4] * 2
