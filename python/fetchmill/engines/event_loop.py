"""The `asyncio` engine: an event loop with many concurrent requests. Each process of the `combo` engine also runs it.

One thread runs the dispatcher, and another runs the loop. They synchronize once per batch: targets arrive through
`call_soon_threadsafe`, and all answers are passed on at the end of the loop's iteration. The number of tasks is limited
by the maximum number of requests in flight, and by the memory for their bodies.
"""

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from fetchmill.engines.body_memory import BodyMemory, bytes_of
from fetchmill.engines.exchange import DRAIN_SECONDS, AnswerQueue, exchange
from fetchmill.engines.transports import AsyncTransport, Target

if TYPE_CHECKING:
    from fetchmill._native import Dispatcher
    from fetchmill.engines.answers import Answer

# Maximum number of answers that connections hold until the answers are certain, in addition to requests in flight.
_HELD_MAX = 8192


def run(dispatcher: "Dispatcher", transport: AsyncTransport, loops: int = 1) -> None:
    """Fetch the dispatcher's targets, up to its concurrency at a time, until no targets are left.

    `loops` is the number of event loops that share the job's memory.
    """
    dispatcher.observe_arrivals(transport.origin_replies)
    loop = _EventLoop(transport, dispatcher.concurrency, BodyMemory(loops))
    loop.thread.start()
    try:
        # Each held answer allows another target to be handed out. The number of held answers is limited, because
        # targets that were already handed out are not paced if the origin starts to refuse requests.
        exchange(dispatcher, loop, _HELD_MAX)
    finally:
        loop.end()


class _EventLoop:
    """The event loop, which runs in its own thread and is the `AnswerReceiver` of its transport."""

    def __init__(self, transport: AsyncTransport, limit: int, body_memory: BodyMemory) -> None:
        self.answers: AnswerQueue = SimpleQueue()
        self.thread = threading.Thread(target=self._run, name="fetchmill-loop", daemon=True)
        self._transport = transport
        # Set by the dispatcher's thread.
        self.limit = limit
        self._waiting: deque[Target] = deque()
        self._done: list[Answer] = []
        self._is_publishing = False
        # Number of answers that the transport holds. The dispatcher's thread reads it.
        self.held = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self.body_memory = body_memory
        self._loop = _new_loop()
        self._over = asyncio.Event()
        self._state: Any = None

    def add_targets(self, batch: Sequence[Target]) -> None:
        """Add targets. Called by the dispatcher's thread."""
        self._call(self._append, batch)

    def resize(self, limit: int) -> None:
        """Set the maximum number of requests in flight. Called by the dispatcher's thread."""
        may_start = limit > self.limit
        self.limit = limit
        if may_start:
            self._call(self._append, ())

    def running(self) -> tuple[int, int]:
        """Return the numbers of running requests and waiting targets. Called by the dispatcher's thread."""
        return len(self._tasks), len(self._waiting)

    def on_reported(self, answers: "list[Answer]") -> None:
        """Release the answers taken by the dispatcher. Called by the dispatcher's thread."""
        self._call(self._release, bytes_of(answers))

    def hold(self, answer: "Answer") -> None:
        """Record an uncertain answer. Called by the transport."""
        self.body_memory.note(answer)
        self.held += 1
        # The dispatcher can now hand out another target.
        self._publish_soon()

    def give(self, answers: "list[Answer]") -> None:
        """Deliver held answers that have become certain. Called by the transport."""
        self.held -= len(answers)
        self._done += answers
        self._publish_soon()

    def ask_again(self, targets: list[Target], held_bytes: int) -> None:
        """Refetch the targets of held answers that will never be certain. Called by the transport."""
        self.held -= len(targets)
        self._waiting.extendleft(reversed(targets))
        self._release(held_bytes)

    def end(self) -> None:
        """Cancel running requests and wait for the loop's thread. Called by the dispatcher's thread."""
        self._call(self._over.set)
        self.thread.join(DRAIN_SECONDS)

    def _call(self, function: Callable[..., object], *arguments: object) -> None:
        """Call a function in the loop. Do nothing if the loop has ended, because its error is already in `answers`."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function, *arguments)

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                runner.run(self._serve())
        except BaseException as error:  # noqa: BLE001 - re-raised where the job waits
            self.answers.put(error)

    async def _serve(self) -> None:
        self._state = await self._transport.start(self)
        try:
            self._start_tasks()
            await self._over.wait()
            for task in list(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
        finally:
            await self._transport.done(self._state)

    def _append(self, batch: Sequence[Target]) -> None:
        self._waiting.extend(batch)
        if self._state is not None:
            self._start_tasks()

    def _release(self, held: int) -> None:
        self.body_memory.release(held)
        if self._state is not None:
            self._start_tasks()

    def _start_tasks(self) -> None:
        if self._over.is_set():
            return
        for _ in range(min(len(self._waiting), self.limit - len(self._tasks))):
            if not self.body_memory.has_room(len(self._tasks)):
                return
            task = self._loop.create_task(self._fetch_waiting())
            self._tasks.add(task)
            task.add_done_callback(self._on_task_done)

    async def _fetch_waiting(self) -> None:
        """Fetch waiting targets in sequence, in one task.

        The task ends when no target is waiting, or when memory is insufficient for the next target. The dispatcher's
        next report frees memory and starts new tasks.
        """
        while self._waiting:
            answer = await self._transport.fetch(self._waiting.popleft(), self._state)
            if answer is not None:
                self.body_memory.note(answer)
                self._done.append(answer)
                self._publish_soon()
            others = len(self._tasks) - 1
            if others >= self.limit or not self.body_memory.has_room(others):
                return

    def _publish_soon(self) -> None:
        """Publish the finished answers at the end of the loop's iteration, even if there are none."""
        if not self._is_publishing:
            self._is_publishing = True
            self._loop.call_soon(self._publish_answers)

    def _publish_answers(self) -> None:
        self._is_publishing = False
        self.answers.put(self._done)
        self._done = []

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.answers.put(error)
            return
        # Tasks that end in the same iteration count each other as running, so all of them may end although some should
        # continue. A remaining task fetches the waiting targets.
        if not self._tasks:
            self._start_tasks()


def _new_loop() -> asyncio.AbstractEventLoop:
    """Return uvloop's event loop if uvloop is installed, otherwise asyncio's."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
