"""Programs that tests and `make bounded` run separately, to measure memory and processor time.

Usage: bounded_programs.py PROGRAM COUNT SECONDS

Prints the peak memory (MiB) and the processor time (s).
"""

import asyncio
import random
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from fetchmill import bounded

LIMIT = 1000

Program = Callable[[int, float], Awaitable[int]]


def sleepers(count: int, seconds: float) -> Iterator[Coroutine[Any, Any, None]]:
    """Yields coroutines that sleep up to the given time, created on demand."""
    draw = random.Random(1).random
    return (asyncio.sleep(seconds * draw()) for _ in range(count))


async def as_completed(count: int, seconds: float) -> int:
    """Uses `async for`."""
    done = 0
    async for _task in bounded.as_completed(sleepers(count, seconds), limit=LIMIT):
        done += 1
    return done


async def as_completed_plain(count: int, seconds: float) -> int:
    """Uses a plain `for`."""
    done = 0
    for awaitable in bounded.as_completed(sleepers(count, seconds), limit=LIMIT):
        await awaitable
        done += 1
    return done


async def as_completed_async_input(count: int, seconds: float) -> int:
    """Reads an async generator."""

    async def made() -> AsyncIterator[Coroutine[Any, Any, None]]:
        for sleeper in sleepers(count, seconds):
            yield sleeper

    done = 0
    async for _task in bounded.as_completed(made(), limit=LIMIT):
        done += 1
    return done


async def task_pool(count: int, seconds: float) -> int:
    """Puts them into a pool."""
    async with bounded.TaskPool(LIMIT) as pool:
        for sleeper in sleepers(count, seconds):
            await pool.put(sleeper)
    return count


async def mapped(count: int, seconds: float) -> int:
    """Uses workers."""
    draw = random.Random(1).random
    tally = await bounded.each(lambda _: asyncio.sleep(seconds * draw()), range(count), limit=LIMIT)
    return tally.done


async def polling(count: int, seconds: float) -> int:
    """Works as it was first published: it checks the running tasks again and again."""
    left = sleepers(count, seconds)
    running = [asyncio.ensure_future(sleeper) for sleeper in islice(left, LIMIT)]
    done = 0
    while running:
        await asyncio.sleep(0)
        for future in running:
            if future.done():
                running.remove(future)
                done += 1
                if (sleeper := next(left, None)) is not None:
                    running.append(asyncio.ensure_future(sleeper))
                break
    return done


async def threads(count: int, _seconds: float) -> int:
    """Uses ten threads and a generator."""
    return sum(1 for _ in bounded.threads.map(abs, iter(range(count)), limit=10))


PROGRAMS: dict[str, Program] = {
    program.__name__: program
    for program in (as_completed, as_completed_plain, as_completed_async_input, task_pool, mapped, polling, threads)
}


def main() -> None:
    """Runs one of the programs."""
    name, count, seconds = sys.argv[1], int(float(sys.argv[2])), float(sys.argv[3])

    async def run() -> int:
        return await PROGRAMS[name](count, seconds)

    done = asyncio.run(run())
    if done != count:
        sys.exit(f"{name}: {done} of {count} were done")
    peak = next(line.split()[1] for line in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in line)
    sys.stdout.write(f"{int(peak) / 1024:.1f} {time.process_time():.2f}\n")


if __name__ == "__main__":
    main()
