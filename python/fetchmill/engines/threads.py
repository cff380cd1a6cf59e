"""The `threads` engine: many threads that each make one request at a time.

Threads are started on demand, if targets outnumber threads. A start can be slow, because it creates a client, and a
hundred simultaneous starts would delay the ready threads. Therefore, the number of threads starting at the same time is
limited to the number of ready threads plus one. Threads do not end early. If the limit on requests in flight falls,
surplus threads wait for their turn.
"""

import threading
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import TYPE_CHECKING

from fetchmill.engines.exchange import DRAIN_SECONDS, HELD_MAX, AnswerQueue, exchange
from fetchmill.engines.transports import BlockingTransport, resting_connections

if TYPE_CHECKING:
    from fetchmill._native import Dispatcher, Target
    from fetchmill.engines.answers import Answer


def run(dispatcher: "Dispatcher", transport: BlockingTransport, *, has_rests: bool = False) -> None:
    """Fetch the dispatcher's targets, up to its concurrency at a time, until no targets are left.

    With `has_rests`, use additional threads, because a thread does not make requests while its connection rests.

    If the job is stopped while a thread is making a request, the job does not wait for the thread. The thread ends
    after the request, and its target stays pending.
    """
    dispatcher.observe_arrivals(transport.origin_replies)
    threads = _ThreadPool(transport, has_rests=has_rests)
    try:
        exchange(dispatcher, threads, HELD_MAX)
    finally:
        threads.end()


class _Places:
    """A semaphore with a variable limit, for requests in flight."""

    def __init__(self) -> None:
        self._freed = threading.Condition()
        self._limit = 0
        self.taken = 0

    def resize(self, limit: int) -> None:
        if limit == self._limit:
            return
        with self._freed:
            self._limit = limit
            self._freed.notify_all()

    def __enter__(self) -> None:
        with self._freed:
            while self.taken >= self._limit:
                self._freed.wait()
            self.taken += 1

    def __exit__(
        self, _class: type[BaseException] | None, _value: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        with self._freed:
            self.taken -= 1
            self._freed.notify()


class _ThreadPool:
    """The threads and their queues. `exchange` limits the number of targets in the queues."""

    def __init__(self, transport: BlockingTransport, *, has_rests: bool) -> None:
        self.answers: AnswerQueue = SimpleQueue()
        self._transport = transport
        self._has_rests = has_rests
        self._threads_max = 0
        self._places = _Places()
        self._work: SimpleQueue[Target | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._waiting = 0
        self._ready = 0
        self._is_over = False

    @property
    def held(self) -> int:
        return self._transport.held()

    def resize(self, limit: int) -> None:
        self._threads_max = limit + (resting_connections(limit) if self._has_rests else 0)
        self._places.resize(limit)

    def running(self) -> tuple[int, int]:
        with self._lock:
            taken = self._places.taken
            return taken, max(0, self._waiting - taken)

    def on_reported(self, answers: "list[Answer]") -> None:
        """Do nothing, because threads do not wait for reports."""

    def add_targets(self, batch: list["Target"]) -> None:
        with self._lock:
            self._waiting += len(batch)
        for target in batch:
            self._work.put(target)
        self._start_threads()

    def _start_threads(self) -> None:
        """Start threads if waiting targets outnumber threads."""
        with self._lock:
            if self._is_over:
                return
            there = len(self._threads)
            starting = there - self._ready
            wanted = min(self._waiting - there, self._threads_max - there, self._ready + 1 - starting)
            for _ in range(wanted):
                thread = threading.Thread(target=self._fetch_waiting, name="fetchmill-worker", daemon=True)
                self._threads.append(thread)
                thread.start()

    def _fetch_waiting(self) -> None:
        try:
            state = self._transport.start()
            with self._lock:
                self._ready += 1
            try:
                self._fetch_all(state)
            finally:
                self._transport.done(state)
        except BaseException as error:  # noqa: BLE001 - re-raised where the job waits
            self.answers.put(error)

    def _fetch_all(self, state: object) -> None:
        self._start_threads()
        while (target := self._next_target(state)) is not None and not self._is_over:
            with self._places:
                answers = self._transport.fetch(target, state)
            with self._lock:
                self._waiting -= 1
            self._publish(answers)
            self._publish(self._transport.rest(state, is_idle=False))

    def _next_target(self, state: object) -> "Target | None":
        """Wait for the next target. If none is available, first wait until the thread's held answers are certain."""
        try:
            return self._work.get_nowait()
        except Empty:
            self._publish(self._transport.rest(state, is_idle=True))
            return self._work.get()

    def _publish(self, answers: "list[Answer]") -> None:
        if answers:
            self.answers.put(answers)

    def end(self) -> None:
        """Ask the threads to end, and wait up to `DRAIN_SECONDS` for them."""
        with self._lock:
            self._is_over = True
            threads = list(self._threads)
        for _ in threads:
            self._work.put(None)
        for thread in threads:
            thread.join(DRAIN_SECONDS / len(threads))
