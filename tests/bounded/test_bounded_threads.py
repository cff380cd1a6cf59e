"""`bounded.threads`: plain functions in threads that start on demand, for endless input."""

import contextlib
import gc
import itertools
import threading
import time
import weakref
from collections.abc import Callable, Iterator

import pytest

from concurrency import PATIENCE, Gauge, taken, wait_for, workers
from fetchmill import bounded
from fetchmill.bounded import threads


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    """Checks after every test that no thread is left."""
    yield
    assert wait_for(lambda: workers() == 0)


@pytest.mark.parametrize("limit", [1, 3, 100])
@pytest.mark.parametrize("ordered", [False, True])
def test_threads_return_result_of_each_item(limit: int, ordered: bool) -> None:
    """Results are in input order if requested, and no thread is left at the end."""
    gauge = Gauge()

    found = list(threads.map(gauge.call, iter(range(40)), limit=limit, ordered=ordered))

    assert workers() == 0
    assert (found if ordered else sorted(found)) == list(range(40))
    assert gauge.most <= limit


def test_threads_yield_results_in_completion_order() -> None:
    """Results come in order only if requested."""
    turns = [threading.Event(), threading.Event()]

    def work(number: int) -> int:
        if number == 0:
            assert turns[0].wait(PATIENCE)
        return number

    results = threads.map(work, [0, 1], limit=2)
    assert next(results) == 1
    turns[0].set()
    assert list(results) == [0]


@pytest.mark.parametrize("ordered", [False, True])
def test_threads_read_endless_input_within_window(ordered: bool) -> None:
    """The window is twice the limit, in addition to the results that were taken.

    The thread that takes the results also reads the input.
    """
    gauge = Gauge()
    readers = set()
    read = 0

    def numbers() -> Iterator[int]:
        nonlocal read
        for read in itertools.count():
            readers.add(threading.current_thread())
            yield read

    with threads.map(gauge.call, numbers(), limit=3, ordered=ordered) as results:
        for taken in range(1, 30):
            next(results)
            assert read + 1 - taken <= 2 * 3

    assert gauge.most <= 3
    assert readers == {threading.main_thread()}


def test_slow_input_delays_results_by_one_item_at_most() -> None:
    """Finished results do not wait until the window is full."""
    read = 0

    def numbers() -> Iterator[int]:
        nonlocal read
        for read in range(1, 100):
            time.sleep(0.02)
            yield read

    with threads.map(abs, numbers(), limit=20) as results:
        next(results)
        assert read <= 5


def test_threads_start_on_demand() -> None:
    """Two items do not start a hundred threads, and neither do consecutive items."""
    started = itertools.count()

    def numbers() -> Iterator[int]:
        for number in range(20):
            time.sleep(0.005)
            yield number

    threads.each(lambda _number, _own: time.sleep(0.05), range(2), limit=100, on_start=lambda: next(started))
    assert next(started) <= 2
    threads.each(lambda _number, _own: None, numbers(), limit=100, on_start=lambda: next(started))
    assert next(started) <= 10


def spin(seconds: float) -> None:
    """Uses the interpreter for the given time, as creating a client does."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


@pytest.mark.alone
@pytest.mark.parametrize("start", [time.sleep, spin], ids=["waiting", "working"])
def test_high_limit_adds_no_time_when_starts_are_slow(start: Callable[[float], None]) -> None:
    """With a hundred items and 50 ms per start, limit 100 takes at most twice as long as limit 10."""
    seconds: dict[int, float] = {}

    for _round in range(3):
        for limit in (10, 100):
            began = time.monotonic()
            threads.each(lambda _number, _own: time.sleep(0.01), range(100), limit=limit, on_start=lambda: start(0.05))
            seconds[limit] = min(seconds.get(limit, 1e9), time.monotonic() - began)
        if seconds[100] <= 2 * seconds[10]:
            break

    assert seconds[100] <= 2 * seconds[10], seconds


def test_thread_resource_is_passed_to_items_and_on_done() -> None:
    """`on_start` runs once per thread, in that thread."""
    opened: list[tuple[threading.Thread, list[int]]] = []
    closed: list[tuple[threading.Thread, list[int]]] = []

    def open_one() -> list[int]:
        own: list[int] = []
        opened.append((threading.current_thread(), own))
        return own

    def work(number: int, own: list[int]) -> None:
        time.sleep(0.001)
        own.append(number)

    def close_one(own: list[int]) -> None:
        closed.append((threading.current_thread(), own))

    tally = threads.each(work, range(50), limit=3, on_start=open_one, on_done=close_one)

    assert tally == bounded.Tally(done=50, failed=0, failures=())
    assert 1 <= len(opened) <= 3
    assert sorted(itertools.chain(*(own for _thread, own in opened))) == list(range(50))
    assert sorted(closed, key=str) == sorted(opened, key=str)


def test_thread_error_is_raised_after_earlier_results() -> None:
    """No other item begins after the error."""
    gauge = Gauge()

    def work(number: int) -> int:
        if number == 5:
            raise ValueError(number)
        return gauge.call(number)

    found, error = taken(threads.map(work, itertools.count(), limit=2, ordered=True))

    assert isinstance(error, ValueError)
    assert found == [0, 1, 2, 3, 4]
    assert gauge.begun <= 5 + 2


def test_no_item_begins_after_thread_error() -> None:
    """This holds even if many items were read and a thread is free."""
    begun = []
    is_read = threading.Event()

    def work(number: int) -> None:
        begun.append(number)
        assert is_read.wait(PATIENCE)
        raise ValueError(number)

    results = threads.map(work, range(2), limit=1)
    is_read.set()
    _, error = taken(results)

    assert isinstance(error, ValueError)
    assert begun == [0]


def test_thread_error_forms_no_reference_cycle() -> None:
    """An error is not part of a reference cycle."""

    class OwnError(Exception):
        pass

    def work(_number: int) -> None:
        raise OwnError

    gc.disable()
    try:
        _, error = taken(threads.map(work, [1], limit=1))
        assert error
        known = weakref.ref(error)
        del error
        assert wait_for(lambda: known() is None)
    finally:
        gc.enable()


@pytest.mark.parametrize("ordered", [False, True])
def test_high_thread_rate_does_not_hang(ordered: bool) -> None:
    """At this rate, each moment has passed before a thread begins to wait for it."""
    for _ in range(30):
        assert len(list(threads.map(abs, range(100), limit=5, rate=100_000, ordered=ordered, timeout=60))) == 100


def test_ordered_thread_error_follows_slower_items() -> None:
    """With ordered results, items that began before the failed one come first."""
    failed = threading.Event()

    def work(number: int) -> int:
        if number == 3:
            failed.set()
            raise ValueError(number)
        assert failed.wait(PATIENCE)
        return number

    found, error = taken(threads.map(work, itertools.count(), limit=4, ordered=True))

    assert isinstance(error, ValueError)
    assert found == [0, 1, 2]


def test_threads_return_errors_on_request() -> None:
    """Each error comes with its item, which is a tuple if there are several iterables."""
    found = list(threads.map(divmod, [4, 4], [2, 0], limit=2, ordered=True, on_error="return"))
    tally = threads.each(lambda number: 1 // (number % 2), range(1000), limit=9, on_error="return")

    assert found[0] == (2, 0)
    assert isinstance(found[1], bounded.Failed)
    assert (found[1].item, type(found[1].error)) == ((4, 0), ZeroDivisionError)
    assert (tally.done, tally.failed, len(tally.failures)) == (500, 500, 100)


def test_system_exit_is_raised_when_errors_are_returned() -> None:
    """SystemExit is not a subclass of Exception: the function wants to end the program."""

    def leave(_number: int) -> None:
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        threads.each(leave, range(5), limit=2, on_error="return")


def test_stop_iteration_in_thread_becomes_runtime_error() -> None:
    """StopIteration and the like do not silently end the loop."""
    with pytest.raises(RuntimeError, match="the function raised StopIteration"):
        list(threads.map(next, [iter(())], limit=1))


@pytest.mark.parametrize("read_before", [0, 1, 7])
def test_threads_raise_input_error_after_earlier_results(read_before: int) -> None:
    """Results before the error are not lost."""

    def numbers() -> Iterator[int]:
        yield from range(read_before)
        raise LookupError("no more")

    found, error = taken(threads.map(abs, numbers(), limit=2))

    assert isinstance(error, LookupError)
    assert sorted(found) == list(range(read_before))


def test_thread_on_start_error_ends_call() -> None:
    """`on_error` makes no difference; workers that had started close their resources."""
    starts = itertools.count()
    closed: list[int] = []

    def start() -> int:
        if (number := next(starts)) == 2:
            raise ConnectionError("no more")
        return number

    with pytest.raises(ConnectionError, match="no more"):
        threads.each(
            lambda _number, _own: time.sleep(0.005),
            itertools.count(),
            limit=5,
            on_start=start,
            on_done=closed.append,
            on_error="return",
        )

    assert set(closed) >= {0, 1}
    assert next(starts) == len(closed) + 1


def test_thread_on_done_errors_are_raised_after_results() -> None:
    """Errors of several `on_done` calls are all raised after the results."""
    both = threading.Barrier(2)

    def put_away(_own: None) -> None:
        raise OSError("not put away")

    def work(number: int) -> int:
        both.wait(PATIENCE)
        return number

    found, error = taken(threads.map(work, [0, 1], limit=2, on_done=put_away))

    assert sorted(found) == [0, 1]
    assert isinstance(error, ExceptionGroup)
    assert [type(one) for one in error.exceptions] == [OSError, OSError]


def test_break_starts_no_item_and_leaves_no_thread() -> None:
    """`break` lets running calls finish, closes their resources, and starts no other item."""
    gauge = Gauge()
    closed: list[None] = []

    for number in threads.map(gauge.call, itertools.count(), limit=4, on_done=closed.append):
        if number >= 10:
            break

    assert wait_for(lambda: workers() == 0)
    begun = gauge.begun
    time.sleep(0.01)
    assert gauge.begun == begun
    assert 1 <= len(closed) <= 4


def test_thread_block_exit_waits_for_running_calls() -> None:
    """Leaving the block waits for running calls, and leaves no thread."""
    gauge = Gauge()

    with threads.map(gauge.call, itertools.count(), limit=4) as results:
        next(results)

    assert gauge.now == 0
    assert workers() == 0
    with pytest.raises(StopIteration):
        next(results)


def test_collection_is_processed_when_no_result_is_taken() -> None:
    """Items of a collection are processed even if no result is taken, as with Executor.map; an iterator is not read."""
    done: list[int] = []
    threads.map(done.append, [1, 2, 3], limit=2)
    assert wait_for(lambda: sorted(done) == [1, 2, 3])

    numbers = iter([1])
    threads.map(done.append, numbers, limit=2)
    assert next(numbers) == 1


def test_thread_timeout_is_raised_while_calls_run() -> None:
    """Running calls finish, and earlier results are returned."""
    release = threading.Event()

    def work(number: int) -> int:
        if number:
            assert release.wait(PATIENCE)
        return number

    found, error = taken(threads.map(work, itertools.count(), limit=2, timeout=0.1))
    release.set()

    assert isinstance(error, TimeoutError)
    assert found == [0]


def test_map_holds_no_reference_to_returned_result() -> None:
    """The caller has the only reference to a result."""

    class Result:
        pass

    for result in threads.map(lambda _number: Result(), range(10), limit=2):
        known = weakref.ref(result)
        del result
        assert wait_for(lambda known=known: known() is None)  # type: ignore[misc] # it is bound immediately


def test_map_uses_fewer_threads_when_system_refuses_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """The call fails only if no thread can be started."""
    start = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if workers() >= allowed:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)

    allowed = 2
    assert sorted(threads.map(abs, iter(range(100)), limit=10)) == list(range(100))
    allowed = 0
    with pytest.raises(RuntimeError, match="can't start new thread"):
        list(threads.map(abs, iter(range(100)), limit=10))


def test_thread_rate_spaces_items_and_break_ends_wait() -> None:
    """One or two threads are enough for items that take no time."""
    began: list[float] = []
    started = itertools.count()

    def work(_number: int, _own: int) -> None:
        began.append(time.monotonic())

    threads.each(work, range(11), limit=50, rate=100, on_start=lambda: next(started))

    assert all(moment - began[0] >= 0.01 * number - 0.025 for number, moment in enumerate(began))
    assert next(started) <= 3

    with contextlib.closing(threads.map(abs, itertools.count(), limit=3, rate=0.001)) as results:
        next(results)


def test_nested_maps_have_separate_threads() -> None:
    """Nested maps have separate threads."""

    def work(number: int) -> int:
        return sum(threads.map(abs, range(number), limit=2))

    assert list(threads.map(work, range(8), limit=3, ordered=True)) == [sum(range(number)) for number in range(8)]
