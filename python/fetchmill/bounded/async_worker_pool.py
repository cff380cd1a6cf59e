"""A pool of tasks that are started on demand and call the function. Memory is bounded for input of any length."""

import asyncio
import contextlib
import inspect
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Coroutine, Iterable
from typing import Any

from fetchmill.bounded.calls import AHEAD, Call, ResultBuffer
from fetchmill.bounded.failures import OnError
from fetchmill.bounded.rate_limit import RateLimiter
from fetchmill.bounded.scaling import Scaler


def inputs(iterables: tuple[Iterable[Any] | AsyncIterable[Any], ...]) -> AsyncGenerator[tuple[Any, ...], None]:
    """Yield the arguments for each call. An async iterable must be the only input."""
    plain = [iterable for iterable in iterables if not isinstance(iterable, AsyncIterable)]
    if len(plain) == len(iterables):
        return _zip(zip(*plain, strict=False))
    if len(iterables) > 1:
        raise TypeError("an async iterable must be the only iterable")
    return _read(*(iterable for iterable in iterables if isinstance(iterable, AsyncIterable)))


async def _zip(items: Iterable[tuple[Any, ...]]) -> AsyncGenerator[tuple[Any, ...], None]:
    for arguments in items:
        yield arguments


async def _read(items: AsyncIterable[Any]) -> AsyncGenerator[tuple[Any, ...], None]:
    iterator = aiter(items)
    try:
        async for item in iterator:
            yield (item,)
    finally:
        if isinstance(iterator, AsyncGenerator):
            await iterator.aclose()


class AsyncWorkerPool:
    """The worker tasks, and one task that reads the input.

    The pool must not refer to the results iterator, because the running tasks would then keep the iterator alive.
    """

    def __init__(
        self,
        function: Callable[..., Awaitable[Any]],
        items: AsyncGenerator[tuple[Any, ...], None],
        on_start: Callable[[], Any] | None,
        on_done: Callable[[Any], object] | None,
        scaler: Scaler,
        buffer: ResultBuffer,
        rate_limiter: RateLimiter | None,
        on_error: OnError,
    ) -> None:
        self._function = function
        self._items = items
        self._on_start = on_start
        self._on_done = on_done
        self._scaler = scaler
        self._buffer = buffer
        self._rate_limiter = rate_limiter
        self._returns_errors = on_error == "return"
        self._window = AHEAD * scaler.limit
        self._out = 0
        self._work: asyncio.Queue[Call | None] = asyncio.Queue()
        self._take_lock = asyncio.Lock()
        self._is_ended = False
        # Whether a call's error will be raised. If so, calls in progress finish, but no new call starts.
        self._is_failing = False
        self._is_closed = False
        self._errors: list[Exception] = []
        self._tasks: set[asyncio.Task[None]] = set()
        # Tasks that are running `on_done`.
        self._leaving: set[asyncio.Task[None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiters: list[asyncio.Future[None]] = []

    def start(self) -> None:
        """Start reading the input. Only the first call has an effect."""
        if self._loop is None and not self._is_closed:
            self._loop = asyncio.get_running_loop()
            self._add_task(self._feed())

    async def next_call(self) -> Call | None:
        """Wait for the next finished call. Return None after the last call."""
        while True:
            call = self._buffer.take()
            if call is not None:
                self._out -= 1
                self._wake()
                return call
            if not self._tasks:
                return None
            await self._change()

    def finish(self) -> None:
        """Raise the errors of the input, `on_start` and `on_done` exactly once."""
        errors, self._errors = self._errors, []
        if len(errors) == 1:
            raise errors[0]
        if errors:
            raise ExceptionGroup("on_start or on_done failed in several workers", errors)

    async def aclose(self) -> None:
        """Cancel all tasks and wait for them. Pass errors raised while waiting to the loop's exception handler."""
        self.close()
        waited_for = self._tasks - {asyncio.current_task()}
        if waited_for:
            await asyncio.wait(waited_for)
        while self._buffer.take() is not None:
            pass
        for error in self._errors:
            context = {"message": "raised while results were being discarded", "exception": error}
            asyncio.get_running_loop().call_exception_handler(context)
        self._errors.clear()

    def close(self) -> None:
        """Cancel all tasks except those that run `on_done`."""
        if not self._is_closed:
            self._is_closed = True
            for task in self._tasks - self._leaving:
                task.cancel()

    def close_soon(self) -> None:
        """Call `close` in the loop's thread. Any thread that discards the results can call this."""
        if self._tasks and self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.close)

    def _add_task(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._task_done)

    def _task_done(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        self._leaving.discard(task)
        self._wake()

    async def _feed(self) -> None:
        """Read the input while the window has room. An error raised by the input is raised again after the results."""
        number = 0
        try:
            async with contextlib.aclosing(self._items) as items:
                async for arguments in items:
                    self._out += 1
                    self._work.put_nowait(Call(number, arguments))
                    number += 1
                    self._scale_up()
                    while self._out >= self._window and not self._is_failing:
                        await self._change()
                    if self._is_failing:
                        break
        except Exception as error:  # noqa: BLE001 - re-raised after the results
            self._errors.append(error)
        finally:
            self._is_ended = True
            self._work.put_nowait(None)

    def _scale_up(self) -> None:
        waiting = self._work.qsize() - self._is_ended
        number = 0 if self._is_closed or self._is_failing else self._scaler.scale_up(waiting, is_ended=self._is_ended)
        for _ in range(number):
            self._add_task(self._run_worker())

    async def _run_worker(self) -> None:
        try:
            started = () if self._on_start is None else (await _await(self._on_start()),)
        except BaseException as error:
            self._scaler.on_start_failed()
            if not isinstance(error, Exception):
                raise
            self._errors.append(error)
            self.close()
            return
        self._scaler.on_started(0)
        try:
            while (call := await self._take()) is not None:
                await self._do(call, started)
                del call
        except asyncio.CancelledError:
            if not self._is_closed:
                # The pool did not cancel this task. Raise an error, because its item would otherwise be silently lost.
                self._errors.append(RuntimeError("a worker's task was cancelled by the function that it called"))
                self.close()
            raise
        finally:
            self._scaler.on_left()
            await self._close_worker(started)

    async def _take(self) -> Call | None:
        """Wait for a call and, with a rate limit, until the call can start. Return None after the last call."""
        async with self._take_lock if self._rate_limiter is not None else contextlib.nullcontext():
            call = await self._work.get()
            if call is None or self._is_failing:
                self._work.put_nowait(None)
                return None
            self._scaler.on_taken()
            self._scale_up()
            if self._rate_limiter is not None:
                await asyncio.sleep(self._rate_limiter.reserve(asyncio.get_running_loop().time()))
            return call

    async def _do(self, call: Call, started: tuple[Any, ...]) -> None:
        try:
            call.value = await self._function(*call.arguments, *started)
        except Exception as error:  # noqa: BLE001 - re-raised where the results are taken
            call.error = error
        except asyncio.CancelledError as error:
            if _is_being_cancelled():
                raise
            # The function awaited something that was cancelled, but this task itself was not cancelled.
            call.error = error
        if call.error is not None and not self._returns_errors:
            self._is_failing = True
        self._scaler.on_call_done(0)
        self._buffer.add(call)
        # The error's traceback refers to this frame. Without `del`, the two would form a reference cycle.
        del call
        self._wake()

    async def _close_worker(self, started: tuple[Any, ...]) -> None:
        if self._on_done is None:
            return
        if (task := asyncio.current_task()) is not None:
            self._leaving.add(task)
        try:
            await _await(self._on_done(*started or (None,)))
        except Exception as error:  # noqa: BLE001 - re-raised after the results
            self._errors.append(error)

    async def _change(self) -> None:
        """Wait until a call is done or a result is taken."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        await waiter

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)


def _is_being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def _await(value: Any) -> Any:  # noqa: ANN401 - any return value
    return await value if inspect.isawaitable(value) else value
