"""Many threads, each with a request at a time: the engine `threads`.

Threads start on demand: when more targets are there than threads, as many at once as are ready, and one more. Starting
one may be slow (a client is made), and a hundred starts at once would hold up those that are ready.
"""

import threading
from queue import SimpleQueue
from typing import TYPE_CHECKING

from fetchmill.engines.exchange import DRAIN_SECONDS, Answers, exchange, read_ahead
from fetchmill.engines.transports import BlockingTransport

if TYPE_CHECKING:
    from fetchmill._native import Desk, Target


def run(desk: "Desk", transport: BlockingTransport, limit: int) -> None:
    """Fetches what the desk gives in at most `limit` threads, until there is no more.

    Threads that are still in a request when the job is stopped are left behind: they end with it, and its target stays
    pending.
    """
    threads = _Threads(transport, limit)
    try:
        exchange(desk, threads.give, threads.answers, limit + read_ahead(limit))
    finally:
        threads.end()


class _Threads:
    """The threads and the queues between. What they hold is bounded by what `exchange` gives."""

    def __init__(self, transport: BlockingTransport, limit: int) -> None:
        self.answers: Answers = SimpleQueue()
        self._transport = transport
        self._limit = limit
        self._work: SimpleQueue[Target | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._waiting = 0
        self._ready = 0
        self._is_over = False

    def give(self, batch: list["Target"]) -> None:
        with self._lock:
            self._waiting += len(batch)
        for target in batch:
            self._work.put(target)
        self._hire()

    def _hire(self) -> None:
        """Starts threads if there is more to do than there are."""
        with self._lock:
            if self._is_over:
                return
            there = len(self._threads)
            starting = there - self._ready
            wanted = min(self._waiting - there, self._limit - there, self._ready + 1 - starting)
            for _ in range(wanted):
                thread = threading.Thread(target=self._work_off, name="fetchmill-worker", daemon=True)
                self._threads.append(thread)
                thread.start()

    def _work_off(self) -> None:
        try:
            state = self._transport.start()
            with self._lock:
                self._ready += 1
            try:
                self._fetch_all(state)
            finally:
                self._transport.done(state)
        except BaseException as error:  # noqa: BLE001 - raised where the job waits
            self.answers.put(error)

    def _fetch_all(self, state: object) -> None:
        self._hire()
        while (target := self._work.get()) is not None and not self._is_over:
            self.answers.put([self._transport.fetch(target, state)])
            with self._lock:
                self._waiting -= 1

    def end(self) -> None:
        """Lets the threads go, and waits for those that come to their end."""
        with self._lock:
            self._is_over = True
            threads = list(self._threads)
        for _ in threads:
            self._work.put(None)
        for thread in threads:
            thread.join(DRAIN_SECONDS / len(threads))
