"""A pool of threads that are started on demand and call the function. Memory is bounded for input of any length.

The thread that requests results also reads the input, hands out calls, and counts outstanding calls. Workers take calls
from one queue and put finished calls into another. Both queues are safe to use in a finalizer, so the pool can be
abandoned without a lock: a marker at the end of the first queue ends one worker after another.
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

# A finished call, an error raised while a worker was starting, or (as `_EndError`) an error raised while it was ending.
_Message = Call | BaseException

# Time limit for starting a thread, which may have to wait for the GIL.
START_MILLISECONDS_MAX = 1000


class Worker(Protocol):
    """Makes the calls in one of the pool's threads. Other threads call only `give_up`."""

    def start(self) -> None:
        """Prepare for calls. An error ends the whole pool."""

    def call(self, arguments: Any) -> Any:  # noqa: ANN401 - any item
        """Process one item. WorkerDiedError means that the worker is lost; any other error affects only the item."""

    def end(self) -> None:
        """Run `on_done` and release resources."""

    def give_up(self) -> None:
        """Stop a running call if possible. Any thread can call this."""


class WorkerPool:
    """A pool of workers with one thread each.

    Only one thread at a time can use `read_at_once`, `next_call` and `finish`. Any thread can use `give_up` and `join`.
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
        # SimpleQueue.get may wait forever if its timeout expires before it starts waiting.
        self._done: SimpleQueue[_Message] | Queue[_Message] = SimpleQueue() if timeout is None else Queue()
        # Lock that is held until the pool is abandoned. Threads can wait for it, and a finalizer can release it.
        self._running = threading.Lock()
        self._running.acquire()
        self._take_lock = threading.Lock()
        # Protects the scaler, `_threads`, `_workers` and `_failed_at`.
        self._lock = threading.Lock()
        self._threads: set[threading.Thread] = set()
        self._workers: set[Worker] = set()
        # Number of the call whose error is passed on. Earlier calls finish; later calls do not start.
        self._failed_at: float = math.inf
        self._is_given_up = False
        _open_pools.add(self)

    def read_at_once(self) -> None:
        """Read as much as the window allows, without waiting for results."""
        while self._items is not None and self._out < self._window:
            self._read_one()

    def next_call(self) -> Call | None:
        """Wait for the next finished call. Return None after the last call.

        Raises:
            TimeoutError: The pool's timeout has expired.
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
        """Wait for the workers to end after the last call, and raise any errors of the workers or the input."""
        self.end_input()
        self.join()
        while not self._done.empty():
            self._receive(self._done.get())
        if self._input_error is not None:
            raise self._input_error
        if len(self._end_errors) == 1:
            raise self._end_errors[0]
        if self._end_errors:
            raise ExceptionGroup("on_done failed in several workers", self._end_errors)

    def end_input(self) -> None:
        """Stop reading. The workers finish the items that were already read, then end."""
        if self._items is not None:
            self._items = None
            self._work.put(None)

    def give_up(self) -> None:
        """Abandon the pool, so that no further calls start.

        Calls in processes are killed; calls in threads finish.
        """
        if not self._is_given_up:
            self._is_given_up = True
            self._items = None
            # Kill busy workers before sending the end marker. Idle workers are not killed; the marker ends them.
            for worker in tuple(self._workers):
                worker.give_up()
            self._work.put(None)
            self._running.release()

    def join(self) -> None:
        """Wait for all threads of the pool except the calling thread."""
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
        """Read one item if a result is already waiting; otherwise read until a result waits or the window is full.

        A slow input therefore delays a finished result by at most one item, and a fast input keeps all workers busy.
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
        except Exception as error:  # noqa: BLE001 - re-raised after the results of earlier items
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
            raise TimeoutError("not all items finished in time") from None

    def _receive(self, message: _Message) -> None:
        if isinstance(message, Call):
            self._buffer.add(message)
        elif isinstance(message, _EndError):
            self._end_errors.append(message.error)
        else:
            raise as_raisable(message)

    def _scale_up(self) -> None:
        """Start as many additional workers as the scaler requests for the waiting calls."""
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
        # If nothing ends the pool, daemon threads do not block the interpreter's exit. `_end_all` waits for them.
        thread = threading.Thread(target=self._run_worker, name="fetchmill-bounded", daemon=True)
        with self._lock:
            if len(self._threads) > AHEAD * self._scaler.limit:
                self._threads = {known for known in self._threads if known.ident is None or known.is_alive()}
            # Add the thread before starting it, so that `join` waits for it even if `start` is interrupted.
            self._threads.add(thread)
        try:
            thread.start()
        except RuntimeError as error:
            self._on_start_failed(thread, error)

    def _on_start_failed(self, thread: threading.Thread, error: RuntimeError) -> None:
        """Handle a thread that the system refused to start. The existing workers take over its work."""
        with self._lock:
            self._threads.discard(thread)
            self._scaler.on_start_failed()
            others = self._scaler.ready + self._scaler.starting
            self._scaler.limit = max(1, others)
        if not others:
            self._done.put(error)

    def _run_worker(self) -> None:
        """Run one worker's thread."""
        began = time.monotonic()
        worker = self._make_worker()
        with self._lock:
            self._workers.add(worker)
        try:
            self._work_with(worker, began)
        finally:
            with self._lock:
                self._workers.discard(worker)
            # Calls may be waiting for a worker to replace a lost one.
            self._scale_up()

    def _work_with(self, worker: Worker, began: float) -> None:
        try:
            worker.start()
        except BaseException as error:  # noqa: BLE001 - re-raised where the results are taken
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
            except BaseException as error:  # noqa: BLE001 - re-raised where the results are taken
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
        """Wait for a call and, with a rate limit, until the call can start. Return None after the last call."""
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
        """Wait until the call can start. Return False if the pool is abandoned in the meantime."""
        seconds = rate_limiter.reserve(time.monotonic())
        if seconds > 0 and self._running.acquire(timeout=min(seconds, threading.TIMEOUT_MAX)):
            self._running.release()
        return not self._is_given_up

    def _close_worker(self, worker: Worker) -> None:
        try:
            worker.end()
        except Exception as error:
            if self._is_given_up:
                # Nobody requests results any more, so `threading.excepthook` shows the error.
                raise
            self._done.put(_EndError(error))


class _EndError(BaseException):
    """A message to the pool: an error raised when a worker ended."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error


def _has_started(thread: threading.Thread) -> bool:
    """Return whether a thread is running or has run. If its start was interrupted, it may start later or never."""
    for _ in range(START_MILLISECONDS_MAX):
        if thread.ident is not None:
            return True
        time.sleep(0.001)
    return False


_open_pools: "weakref.WeakSet[WorkerPool]" = weakref.WeakSet()


def _end_all() -> None:
    """End all pools when the interpreter exits, and wait for running calls as Python waits for threads."""
    pools = tuple(_open_pools)
    for pool in pools:
        pool.give_up()
    for pool in pools:
        pool.join()


def end_all_first() -> None:
    """Make `_end_all` run before all exit handlers registered so far."""
    atexit.unregister(_end_all)
    atexit.register(_end_all)


end_all_first()
