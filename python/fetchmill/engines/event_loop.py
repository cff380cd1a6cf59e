"""An event loop with many requests: the engine `asyncio`, and what each process of the engine `combo` does.

One thread has the desk, one the loop. They meet once a batch: targets come in by `call_soon_threadsafe`, answers go out
together at the end of the loop's round. At most `limit` tasks exist, however many targets wait.
"""

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from fetchmill.engines.exchange import DRAIN_SECONDS, Answers, exchange, read_ahead
from fetchmill.engines.transports import AwaitingTransport

if TYPE_CHECKING:
    from fetchmill._native import Desk, Target
    from fetchmill.engines.answers import Answer


def run(desk: "Desk", transport: AwaitingTransport, limit: int) -> None:
    """Fetches what the desk gives with at most `limit` requests in flight, until there is no more."""
    loop = _Loop(transport, limit)
    loop.thread.start()
    try:
        exchange(desk, loop.give, loop.answers, limit + read_ahead(limit))
    finally:
        loop.end()


class _Loop:
    """The loop in its thread."""

    def __init__(self, transport: AwaitingTransport, limit: int) -> None:
        self.answers: Answers = SimpleQueue()
        self.thread = threading.Thread(target=self._run, name="fetchmill-loop", daemon=True)
        self._transport = transport
        self._limit = limit
        self._waiting: deque[Target] = deque()
        self._done: list[Answer] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = _new_loop()
        self._over = asyncio.Event()
        self._state: Any = None

    def give(self, batch: list["Target"]) -> None:
        """From the desk's thread."""
        self._call(self._take, batch)

    def end(self) -> None:
        """From the desk's thread: what still runs is cancelled."""
        self._call(self._over.set)
        self.thread.join(DRAIN_SECONDS)

    def _call(self, function: Callable[..., object], *arguments: object) -> None:
        """In the loop; one that has ended has said why."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function, *arguments)

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                runner.run(self._serve())
        except BaseException as error:  # noqa: BLE001 - raised where the job waits
            self.answers.put(error)

    async def _serve(self) -> None:
        self._state = await self._transport.start()
        try:
            self._start_tasks()
            await self._over.wait()
            for task in list(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
        finally:
            await self._transport.done(self._state)

    def _take(self, batch: list["Target"]) -> None:
        self._waiting.extend(batch)
        if self._state is not None:
            self._start_tasks()

    def _start_tasks(self) -> None:
        for _ in range(min(len(self._waiting), self._limit - len(self._tasks))):
            task = self._loop.create_task(self._work_off())
            self._tasks.add(task)
            task.add_done_callback(self._ended)

    async def _work_off(self) -> None:
        """One target after the other while there are some: a task is made for a stretch of them."""
        while self._waiting:
            answer = await self._transport.fetch(self._waiting.popleft(), self._state)
            if not self._done:
                self._loop.call_soon(self._hand_over)
            self._done.append(answer)

    def _hand_over(self) -> None:
        self.answers.put(self._done)
        self._done = []

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.answers.put(error)


def _new_loop() -> asyncio.AbstractEventLoop:
    """uvloop's, where it is installed."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
