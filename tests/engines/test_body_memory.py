"""How many requests an event loop has in flight, given the memory for bodies, and which bodies it may read."""

import asyncio
import random

import pytest

from fetchmill.engines.answers import FailureAnswer, ReplyAnswer
from fetchmill.engines.body_memory import BODIES_BYTES_MAX, BodyMemory, bytes_of

pytestmark = pytest.mark.entry_point

LARGE = 5_000_000


def in_flight(memory: BodyMemory) -> int:
    """Returns the maximum number of requests in flight."""
    return next(count for count in range(100_000) if not memory.has_room(count))


def reply(length: int) -> ReplyAnswer:
    """Returns an answer with the given number of bytes."""
    return ReplyAnswer(0, 200, bytes(length))


def test_few_requests_are_sent_before_body_sizes_are_known() -> None:
    """Bodies may have 5 MB: a thousand of them could take 5 GB before the first one is complete."""
    assert in_flight(BodyMemory()) * LARGE < 3 * BODIES_BYTES_MAX


def test_all_requests_are_allowed_after_first_small_bodies() -> None:
    """Failures have the same effect, because nothing is known about bodies that do not arrive."""
    for answer in (reply(100), FailureAnswer(0, "reset")):
        memory = BodyMemory()
        for _ in range(4):
            memory.note(answer)
            memory.release(bytes_of([answer]))
        assert memory.has_room(16_000)


def test_one_large_body_lowers_request_limit() -> None:
    """After one large body, even a held one, other large bodies are expected."""
    memory = BodyMemory()
    for length in (100, 100, 100, LARGE):
        memory.note(reply(length))

    assert in_flight(memory) == (BODIES_BYTES_MAX - LARGE - 300) // LARGE


@pytest.mark.parametrize("loops", [1, 2, 1000])
def test_event_loops_of_job_share_its_memory(loops: int) -> None:
    """Each loop has a share of the memory, whatever the number of loops."""
    assert BodyMemory(loops).bytes_max == max(BODIES_BYTES_MAX // loops, 8 << 20)


async def settled() -> None:
    """Returns when everything that can continue has done so."""
    for _ in range(10):
        await asyncio.sleep(0)


async def read(memory: BodyMemory, done: list[str], name: str, *counts: int, connection_bytes: int = 0) -> None:
    """Reads a body in pieces of the given sizes, each when it is admitted, and records its name."""
    with memory.begin_body(connection_bytes) as room:
        for count in counts:
            if not memory.take(room, count):
                await memory.wait(room, count)
    memory.note(reply(sum(counts)))
    done.append(name)


def test_waiting_bodies_are_admitted_in_head_order() -> None:
    """A small body does not overtake a large one, and a body whose task is cancelled is skipped."""

    async def check() -> None:
        memory, done = BodyMemory(), list[str]()
        memory.note(reply(BODIES_BYTES_MAX - LARGE))
        tasks = [
            asyncio.create_task(read(memory, done, name, length))
            for name, length in [("first", LARGE), ("second", LARGE), ("gone", LARGE), ("third", 1), ("fourth", 1)]
        ]
        await settled()
        assert (done, memory.used) == (["first"], BODIES_BYTES_MAX)
        assert not memory.has_room(4), "others wait: nothing more is asked for"
        tasks[2].cancel()
        await settled()
        assert done == ["first"]
        memory.release(LARGE)
        await settled()
        assert done == ["first", "second"]
        memory.release(1)
        await settled()
        assert done == ["first", "second", "third"]
        memory.release(BODIES_BYTES_MAX)
        await settled()
        assert (done, memory.used) == (["first", "second", "third", "fourth"], 1)

    asyncio.run(check())


def test_waiting_bodies_do_not_deadlock_on_held_memory() -> None:
    """Connections whose next bodies wait hold all memory: the first body continues, and then the others."""

    async def check() -> None:
        memory, done = BodyMemory(), list[str]()
        for _ in range(2):
            memory.note(reply(BODIES_BYTES_MAX // 2))
        bodies = [
            asyncio.create_task(read(memory, done, name, LARGE, LARGE, connection_bytes=BODIES_BYTES_MAX // 2))
            for name in ("first", "second")
        ]
        await settled()
        assert (done, memory.used) == (["first"], BODIES_BYTES_MAX + 2 * LARGE)
        # The connection's held replies, and its new one, are certain and were taken.
        memory.release(BODIES_BYTES_MAX // 2 + 2 * LARGE)
        await asyncio.gather(*bodies)
        assert done == ["first", "second"]

    asyncio.run(check())


HUGE = BODIES_BYTES_MAX + 1


class Connections:
    """Requests for bodies of all sizes, on connections that hold some of their replies, with a slow dispatcher."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.memory = BodyMemory()
        self.bytes_peak = 0
        self.complete = 0
        self._given: list[int] = []

    async def ask(self, requests: int) -> None:
        """Sends requests on one connection, one after the other.

        Held replies are returned after some more, or after a large one.
        """
        held = 0
        for _ in range(requests):
            length = self._random.choice([1, 1000, 200_000, LARGE, HUGE])
            held += await self._read(length, held)
            if held > 1 << 18 or self._random.random() < 1 / 4:
                self._given.append(held)
                held = 0
        self._given.append(held)

    async def take(self) -> None:
        """Takes replies at intervals, as the dispatcher does, until it is cancelled."""
        while True:
            await asyncio.sleep(0)
            if self._random.random() < 1 / 4:
                given, self._given = self._given, []
                self.memory.release(sum(given))

    async def _read(self, length: int, held: int) -> int:
        pieces = self._random.choice([1, 3])
        with self.memory.begin_body(held) as room:
            for number in range(pieces):
                count = length * (number + 1) // pieces - length * number // pieces
                if not self.memory.take(room, count):
                    await self.memory.wait(room, count)
                self.bytes_peak = max(self.bytes_peak, self.memory.used)
                await asyncio.sleep(0)
            answer = FailureAnswer(0, "reset") if self._random.random() < 1 / 8 else reply(length)
        self.memory.note(answer)
        self.complete += 1
        return bytes_of([answer])


@pytest.mark.parametrize("seed", range(20))
def test_admitted_bodies_exceed_budget_by_at_most_one(seed: int) -> None:
    """This holds for all body sizes, with held replies, and with unknown lengths. No body waits forever."""

    async def check() -> None:
        connections = Connections(seed)
        taking = asyncio.create_task(connections.take())
        async with asyncio.timeout(60):
            await asyncio.gather(*(connections.ask(20) for _ in range(20)))
        await settled()
        taking.cancel()
        assert connections.complete == 400
        assert connections.bytes_peak <= BODIES_BYTES_MAX + HUGE

    asyncio.run(check())
