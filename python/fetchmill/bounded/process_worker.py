"""A pool worker that makes its calls in a spawned process over a pipe, and notices if the process dies."""

import contextlib
import math
import multiprocessing
import os
import pickle
import select
import signal
import threading
from multiprocessing.reduction import ForkingPickler
from typing import TYPE_CHECKING, Any

from fetchmill.bounded.calls import Chunk, Outcome, Values, item_of
from fetchmill.bounded.failures import ItemTimeoutError, RemoteTraceback, WorkerDiedError, format_item
from fetchmill.bounded.interrupts import start_without_interrupts
from fetchmill.bounded.portable import portable
from fetchmill.bounded.worker_entry import END, SEPARATE, TOGETHER, WorkerFunctions, are_plain, serve

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.context import SpawnProcess

NOT_READY = "before it was ready; check that the main module starts the pool below `if __name__ == '__main__':`"


class ProcessWorker:
    """The parent's side of a worker process. An item is a chunk: a list of tuples of arguments."""

    def __init__(self, functions: WorkerFunctions, call_timeout: float | None = None) -> None:
        self._functions = functions
        self._call_timeout = call_timeout
        self._process: SpawnProcess | None = None
        self._connection: Connection | None = None
        # The pidfd shows that the process has died, even if a grandchild keeps the pipe open. Unlike a pid, it is never
        # reused.
        self._pidfd = -1
        self._events = select.poll()
        # Protects `_pidfd`. The lock is reentrant, because a finalizer may call `give_up` at any point.
        self._lock = threading.RLock()
        self._is_busy = False
        self._is_given_up = False

    def start(self) -> None:
        """Start the process and wait until it is ready."""
        try:
            self._is_busy = True
            self._spawn()
            if self._is_given_up:
                self._kill()
            _result(self._receive(NOT_READY))
            self._is_busy = False
        except BaseException:
            self._release()
            raise

    def call(self, chunk: list[tuple[Any, ...]]) -> Chunk | Values:
        """Make the process call the function for each item in the chunk."""
        unsent: dict[int, Exception] = {}
        if are_plain(chunk):
            sent = TOGETHER + pickle.dumps(chunk)
        else:
            pickled = [_pickle(arguments) for arguments in chunk]
            unsent = {index: item for index, item in enumerate(pickled) if isinstance(item, Exception)}
            sent = SEPARATE + pickle.dumps([item for item in pickled if isinstance(item, bytes)])
        # Set the flag first: either this code sees `_is_given_up`, or `give_up` sees a busy process and kills it.
        self._is_busy = True
        if self._is_given_up:
            raise WorkerDiedError("the pool was abandoned")
        seconds = None if self._call_timeout is None else self._call_timeout * len(chunk)
        values, separate = pickle.loads(self._ask(sent, _describe_chunk(chunk), seconds))  # noqa: S301 - our own process
        self._is_busy = False
        if not separate and not unsent:
            return Values(values)
        answers = (separate.get(index, Outcome((), value, None)) for index, value in enumerate(values))
        return Chunk(
            Outcome(arguments, None, unsent[index]) if index in unsent else _outcome(arguments, next(answers))
            for index, arguments in enumerate(chunk)
        )

    def end(self) -> None:
        """Make the process run `on_done`, and wait for the process to end."""
        try:
            if self._pidfd >= 0 and self._process is not None and not self._is_busy:
                self._is_busy = True
                _result(self._ask(END, "during on_done"))
        except WorkerDiedError:
            if not self._is_given_up:
                raise
        finally:
            self._release()

    def give_up(self) -> None:
        """Kill the process if it is busy. An idle process ends when the pool calls `end`."""
        self._is_given_up = True
        if self._is_busy:
            self._kill()

    def _spawn(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, child_end = context.Pipe()
        try:
            process = context.Process(
                target=serve, args=(child_end, portable(self._functions)), name="fetchmill-bounded"
            )
            start_without_interrupts(process)
            self._process = process
            with self._lock:
                self._pidfd = os.pidfd_open(process.pid or -1)
        finally:
            # Close the child's end in the parent, because the pipe would otherwise stay open after the process dies.
            child_end.close()
        self._events.register(self._connection, select.POLLIN)
        self._events.register(self._pidfd, select.POLLIN)

    def _ask(self, request: bytes, when: str, seconds: float | None = None) -> bytes:
        """Send a request and wait up to `seconds` for the answer. If the process dies, the error includes `when`."""
        try:
            if self._connection is not None:
                self._connection.send_bytes(request)
        except OSError:
            raise WorkerDiedError(self._describe_end(when)) from None
        return self._receive(when, seconds)

    def _receive(self, when: str, seconds: float | None = None) -> bytes:
        if not self._events.poll(None if seconds is None else math.ceil(seconds * 1000)):
            self._kill()
            raise ItemTimeoutError(f"a worker process was killed {when}, because it took longer than {seconds:g} s")
        try:
            # An answer that the process sent before it died is still valid.
            if self._connection is not None and self._connection.poll():
                return self._connection.recv_bytes()
        except (EOFError, OSError):
            pass
        raise WorkerDiedError(self._describe_end(when))

    def _describe_end(self, when: str) -> str:
        self._kill()
        process = self._process
        if process is None:
            return f"a worker process ended {when}"
        process.join()
        code = process.exitcode
        how = "ended" if code is None else f"ended with exit code {code}"
        if code is not None and code < 0:
            how = f"was ended by {_signal_name(-code)}"
        return f"worker process {process.pid} {how} {when}"

    def _kill(self) -> None:
        with self._lock, contextlib.suppress(ProcessLookupError):
            if self._pidfd >= 0:
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    def _release(self) -> None:
        """Wait for the process to end. Kill it if it is busy; an idle process ends by itself."""
        if self._is_busy:
            self._kill()
        process, self._process = self._process, None
        if self._connection is not None:
            self._connection.close()
        if process is not None:
            process.join()
            # Other code may have closed the process already.
            with contextlib.suppress(ValueError):
                process.close()
        with self._lock:
            pidfd, self._pidfd = self._pidfd, -1
        if pidfd >= 0:
            os.close(pidfd)


def _pickle(arguments: tuple[Any, ...]) -> bytes | Exception:
    """Pickle an item. If pickling fails, return the error so that only this item fails."""
    try:
        return bytes(ForkingPickler.dumps(arguments))
    except Exception as error:  # noqa: BLE001 - re-raised where the results are taken
        return error


def _describe_chunk(chunk: list[tuple[Any, ...]]) -> str:
    first = format_item(item_of(chunk[0]))
    what = f"item {first}" if len(chunk) == 1 else f"{len(chunk)} items, starting with {first}"
    return f"while processing {what}"


def _result(pickled: bytes) -> Any:  # noqa: ANN401 - any return value
    """Return the value that the process sent, or raise its error with the process's traceback as the cause."""
    value, error, text = pickle.loads(pickled)  # noqa: S301 - our own process
    if isinstance(error, BaseException):
        error.__cause__ = RemoteTraceback(f"\n{text}")
        try:
            raise error
        finally:
            # The error's traceback refers to this frame. Without `del`, the two would form a reference cycle.
            del error
    return value


def _outcome(arguments: tuple[Any, ...], answer: bytes | Outcome) -> Outcome:
    """Return an item's outcome from `answer`: the pickled value or error, or an outcome without its arguments."""
    if isinstance(answer, Outcome):
        return answer._replace(arguments=arguments)
    try:
        return Outcome(arguments, _result(answer), None)
    except BaseException as error:  # noqa: BLE001 - re-raised where the results are taken
        return Outcome(arguments, None, error)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
