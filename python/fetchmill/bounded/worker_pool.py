"""Threads that work through calls: started on demand, over an input of any length, in bounded memory.

The thread that asks for results reads the input, hands out the calls and alone knows how many are out. Workers take
calls from one queue and put them into another. Both queues may be used from a finalizer, so that giving up takes no
lock: a marker at the end of the first queue ends one worker after the other.
"""

import atexit
import contextlib
import math
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from queue import Empty, Queue, SimpleQueue
from typing import Any, Protocol

from fetchmill.bounded.calls import AHEAD, Call, ResultBuffer, as_raisable
from fetchmill.bounded.failures import OnError, WorkerDiedError
from fetchmill.bounded.rate_limit import RateLimiter
from fetchmill.bounded.scaling import Scaler

# A call that is done, a worker's failed start, or (`_EndError`) its failed end.
_Message = Call | BaseException

# How long a thread may take to begin after it has been started: the interpreter's lock may be busy.
START_MILLISECONDS_MAX = 1000


class Worker(Protocol):
    """What a thread of the pool works with; made and used by that thread alone, but for `give_up`."""

    def start(self) -> None:
        """Gets ready. What it raises ends everything."""

    def call(self, arguments: Any) -> Any:  # noqa: ANN401 - whatever the input gives
        """Works on one item. WorkerDiedError says that this worker is lost, anything else that the item failed."""

    def end(self) -> None:
        """Puts things away."""

    def give_up(self) -> None:
        """Ends a call that runs, if that can be done; from any thread."""


class WorkerPool:
    """Workers, each with a thread, and the calls that they are given.

    One thread at a time may use `read_at_once`, `next_call` and `finish`; any may use `give_up` and `join`.
    """

    def __init__(
        self,
        items: Iterator[Any],
        make_worker: Callable[[], Worker],
        scaler: Scaler,
        buffer: ResultBuffer,
        *,
        on_error: OnError,
        rate_limiter: RateLimiter | None,
        timeout: float | None,
    ) -> None:
        self._items: Iterator[Any] | None = items
        self._make_worker = make_worker
        self._scaler = scaler
        self._buffer = buffer
        self._returns_errors = on_error == "return"
        self._rate_limiter = rate_limiter
        self._deadline = None if timeout is None else time.monotonic() + timeout
        self._window = AHEAD * scaler.limit
        self._read = 0
        self._out = 0
        self._input_error: BaseException | None = None
        self._end_errors: list[Exception] = []
        self._work: SimpleQueue[Call | None] = SimpleQueue()
        # A SimpleQueue may wait forever when its time is over before it has begun to wait.
        self._done: SimpleQueue[_Message] | Queue[_Message] = SimpleQueue() if timeout is None else Queue()
        # Held until all is given up: it can be waited for, and released from a finalizer.
        self._running = threading.Lock()
        self._running.acquire()
        self._take_lock = threading.Lock()
        # Over the scaler's numbers, the threads and the workers.
        self._lock = threading.Lock()
        self._threads: set[threading.Thread] = set()
        self._workers: set[Worker] = set()
        # The number of a call whose error will be raised: those before it come to their ends, no later one begins.
        self._failed_at: float = math.inf
        self._is_given_up = False
        _open_pools.add(self)

    def read_at_once(self) -> None:
        """Reads as much as may be read, whether or not anything is done already."""
        while self._items is not None and self._out < self._window:
            self._read_one()

    def next_call(self) -> Call | None:
        """Waits for the next call that is done; None when there are no more.

        Raises:
            TimeoutError: The time is over.
            BaseException: A worker could not be started.
        """
        while True:
            self._read_on()
            call = self._buffer.take()
            if call is not None:
                self._out -= 1
                return call
            if not self._out:
                return None
            self._receive(self._next_done())

    def finish(self) -> None:
        """Waits for the workers' ends, once there are no more calls; raises what they and the input raised."""
        self.end_input()
        self.join()
        while not self._done.empty():
            self._receive(self._done.get())
        if self._input_error is not None:
            raise self._input_error
        if len(self._end_errors) == 1:
            raise self._end_errors[0]
        if self._end_errors:
            raise ExceptionGroup("workers could not put things away", self._end_errors)

    def end_input(self) -> None:
        """Reads no more. What has been read is worked on; then the workers end."""
        if self._items is not None:
            self._items = None
            self._work.put(None)

    def give_up(self) -> None:
        """Ends what can be ended. Calls that run in threads come to their ends, no other begins."""
        if not self._is_given_up:
            self._is_given_up = True
            self._items = None
            # Before they are told that there is no more: one that has nothing to do then ends by itself.
            for worker in tuple(self._workers):
                worker.give_up()
            self._work.put(None)
            self._running.release()

    def join(self) -> None:
        """Waits for all threads, but for the one that asks."""
        while True:
            with self._lock:
                thread = next((thread for thread in self._threads if thread is not threading.current_thread()), None)
            if thread is None:
                return
            if _has_started(thread):
                thread.join()
            with self._lock:
                self._threads.discard(thread)

    def _read_on(self) -> None:
        """Reads one item if a result waits already; otherwise until one does, or enough is read.

        An input that makes one wait holds up what is done by one item at most, and one that does not keeps all busy.
        """
        while self._items is not None and self._out < self._window:
            while not self._done.empty():
                self._receive(self._done.get())
            is_ready = self._buffer.is_ready()
            self._read_one()
            if is_ready:
                return

    def _read_one(self) -> None:
        if self._items is None:
            return
        if self._is_failing():
            self.end_input()
            return
        try:
            arguments = next(self._items)
        except StopIteration:
            self.end_input()
            return
        except Exception as error:  # noqa: BLE001 - raised behind the results of what was read before
            self._input_error = error
            self.end_input()
            return
        self._out += 1
        self._work.put(Call(self._read, arguments))
        self._read += 1
        self._scale_up()

    def _next_done(self) -> _Message:
        if self._deadline is None:
            return self._done.get()
        try:
            return self._done.get(timeout=max(0.0, self._deadline - time.monotonic()))
        except Empty:
            raise TimeoutError("not all items were done in time") from None

    def _receive(self, message: _Message) -> None:
        if isinstance(message, Call):
            self._buffer.add(message)
        elif isinstance(message, _EndError):
            self._end_errors.append(message.error)
        else:
            raise as_raisable(message)

    def _scale_up(self) -> None:
        """Starts workers if what waits is worth it."""
        with self._lock:
            number = 0
            if not (self._is_given_up or self._is_failing()):
                number = self._scaler.scale_up(self._work.qsize() - self._is_ended(), is_ended=self._is_ended())
        for _ in range(number):
            self._start_worker()

    def _is_ended(self) -> bool:
        return self._items is None

    def _is_failing(self) -> bool:
        return self._failed_at < math.inf

    def _start_worker(self) -> None:
        # A daemon, so that a pool which nobody ends does not hold up the interpreter's end: `_end_all` does that.
        thread = threading.Thread(target=self._run_worker, name="fetchmill-bounded", daemon=True)
        with self._lock:
            if len(self._threads) > AHEAD * self._scaler.limit:
                self._threads = {known for known in self._threads if known.ident is None or known.is_alive()}
            # Before it starts: an interrupt in `start` must not leave one that nobody waits for.
            self._threads.add(thread)
        try:
            thread.start()
        except RuntimeError as error:
            self._on_start_failed(thread, error)

    def _on_start_failed(self, thread: threading.Thread, error: RuntimeError) -> None:
        """The system has no more threads: those that there are do the work."""
        with self._lock:
            self._threads.discard(thread)
            self._scaler.on_start_failed()
            others = self._scaler.ready + self._scaler.starting
            self._scaler.limit = max(1, others)
        if not others:
            self._done.put(error)

    def _run_worker(self) -> None:
        """A worker's thread, from start to end."""
        began = time.monotonic()
        worker = self._make_worker()
        with self._lock:
            self._workers.add(worker)
        try:
            self._work_with(worker, began)
        finally:
            with self._lock:
                self._workers.discard(worker)
            # Others may wait for the place of one that was lost.
            self._scale_up()

    def _work_with(self, worker: Worker, began: float) -> None:
        try:
            worker.start()
        except BaseException as error:  # noqa: BLE001 - raised where the results are taken
            with self._lock:
                self._scaler.on_start_failed()
            self._done.put(error)
            return
        with self._lock:
            self._scaler.on_started(time.monotonic() - began)
        self._scale_up()
        try:
            self._take_calls(worker)
        finally:
            with self._lock:
                self._scaler.on_left()
            self._close_worker(worker)

    def _take_calls(self, worker: Worker) -> None:
        while (call := self._take()) is not None:
            began = time.monotonic()
            is_lost = False
            try:
                call.value = worker.call(call.arguments)
            except WorkerDiedError as error:
                call.error, is_lost = error, True
            except BaseException as error:  # noqa: BLE001 - raised where the results are taken
                call.error = error
            with self._lock:
                self._scaler.on_call_done(time.monotonic() - began)
            if any(not (self._returns_errors and isinstance(error, Exception)) for error in call.errors()):
                with self._lock:
                    self._failed_at = min(self._failed_at, call.number)
            self._done.put(call)
            del call
            if is_lost:
                return

    def _take(self) -> Call | None:
        """Waits for a call, and for its moment if there is a rate. None when there are no more."""
        with self._take_lock if self._rate_limiter is not None else contextlib.nullcontext():
            call = self._work.get()
            if call is None or self._is_given_up or call.number > self._failed_at:
                self._work.put(None)
                return None
            with self._lock:
                self._scaler.on_taken()
            self._scale_up()
            if self._rate_limiter is None or self._wait_for_moment(self._rate_limiter):
                return call
        with self._lock:
            self._scaler.on_returned()
        return None

    def _wait_for_moment(self, rate_limiter: RateLimiter) -> bool:
        """Whether the call may begin: not if all is given up meanwhile."""
        seconds = rate_limiter.reserve(time.monotonic())
        if seconds > 0 and self._running.acquire(timeout=min(seconds, threading.TIMEOUT_MAX)):
            self._running.release()
        return not self._is_given_up

    def _close_worker(self, worker: Worker) -> None:
        try:
            worker.end()
        except Exception as error:
            if self._is_given_up:
                # Nobody asks any more: the thread's own hook shows it.
                raise
            self._done.put(_EndError(error))


class _EndError(BaseException):
    """What a worker's end raised, among the messages of the pool."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error


def _has_started(thread: threading.Thread) -> bool:
    """Whether it runs or has run. One whose start was interrupted may do so in a moment, or never."""
    for _ in range(START_MILLISECONDS_MAX):
        if thread.ident is not None:
            return True
        time.sleep(0.001)
    return False


_open_pools: "weakref.WeakSet[WorkerPool]" = weakref.WeakSet()


def _end_all() -> None:
    """At the interpreter's end: calls that run are waited for, as Python waits for threads."""
    pools = tuple(_open_pools)
    for pool in pools:
        pool.give_up()
    for pool in pools:
        pool.join()


def end_all_first() -> None:
    """Has that done before everything else that is registered for the interpreter's end by now."""
    atexit.unregister(_end_all)
    atexit.register(_end_all)


end_all_first()
