"""`bounded.processes`: plain functions in processes that start on demand; a dead process is an error, never a hang."""

import itertools
import multiprocessing
import os
import re
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import process_functions as functions
from concurrency import taken, wait_for, workers
from fetchmill import bounded
from fetchmill.bounded import processes


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    """Checks after every test that no process, thread or descriptor is left."""
    # The resource tracker of multiprocessing starts with the first process, and stays.
    list(processes.map(abs, [1], limit=1))
    descriptors = len(os.listdir("/proc/self/fd"))
    yield
    assert wait_for(lambda: workers() == 0 and not multiprocessing.active_children())
    assert len(os.listdir("/proc/self/fd")) == descriptors


@pytest.mark.parametrize("chunksize", [1, 7, 100])
@pytest.mark.parametrize("ordered", [False, True])
def test_processes_return_result_of_each_item(chunksize: int, ordered: bool) -> None:
    """Results are in input order if requested, and no process is left at the end."""
    found = list(processes.map(abs, iter(range(40)), limit=2, ordered=ordered, chunksize=chunksize))

    assert not multiprocessing.active_children()
    assert (found if ordered else sorted(found)) == list(range(40))


def test_function_runs_in_spawned_process() -> None:
    """The process was started by spawn and has imported only what it needs."""
    assert os.getpid() not in set(processes.map(functions.own_pid, range(4), limit=2))
    assert list(processes.map(functions.is_loaded, ["fetchmill._native", "asyncio", "pytest"], limit=1)) == [False] * 3


def test_lambdas_and_nested_functions_are_sent_by_value() -> None:
    """The functions and values that they use are sent with them."""
    factor = 3

    def times(number: int) -> int:
        return number * factor

    assert sorted(processes.map(times, range(4), limit=2)) == [0, 3, 6, 9]
    assert list(processes.map(lambda number: -number, [1], limit=1)) == [-1]


def test_processes_read_endless_input_within_window() -> None:
    """An endless input is read up to twice the limit, in chunks."""
    read = itertools.count()

    with processes.map(abs, read, limit=2, chunksize=3) as results:
        for _ in range(30):
            next(results)

    assert next(read) <= 30 + 2 * 2 * 3 + 3


def test_processes_start_on_demand() -> None:
    """Two items do not start a hundred workers."""
    assert len(set(processes.map(functions.own_pid, range(2), limit=100))) <= 2


def test_process_resource_is_passed_to_items_and_on_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker's resource is passed to its items and to `on_done`; `on_start` runs once per process."""
    monkeypatch.setenv("NOTES", str(tmp_path))

    tally = processes.each(
        functions.note_item, range(20), limit=2, on_start=functions.note_start, on_done=functions.note_end
    )

    notes = [path.read_text().split() for path in tmp_path.iterdir()]
    assert tally == bounded.Tally(done=20, failed=0, failures=())
    assert all((lines[0], lines[-1]) == ("start", "end") for lines in notes)
    assert sorted(int(line) for lines in notes for line in lines[1:-1]) == list(range(20))


def test_process_error_has_worker_traceback_as_cause() -> None:
    """An error keeps its class, and its cause has the traceback of the process."""
    found, error = taken(processes.map(functions.fail_at_two, range(9), limit=1))

    assert found == [0, 1]
    assert isinstance(error, ValueError)
    assert 'raise ValueError("it is two")' in str(error.__cause__)


@pytest.mark.parametrize("chunksize", [1, 3])
def test_processes_return_errors_on_request(chunksize: int) -> None:
    """Each item has a separate error, also inside a chunk."""
    options = {"limit": 2, "ordered": True, "chunksize": chunksize}
    found = list(processes.map(functions.fail_at_two, range(5), on_error="return", **options))  # type: ignore[call-overload]

    assert isinstance(found[2], bounded.Failed)
    assert (found[2].item, str(found[2].error)) == (2, "it is two")
    assert found[:2] + found[3:] == [0, 1, 3, 4]


def test_unpicklable_value_fails_only_its_item() -> None:
    """An item, a result or an error that cannot be pickled fails alone."""
    items = [1, lambda: None, 3]
    found = list(processes.map(repr, items, limit=1, ordered=True, chunksize=3, on_error="return"))
    assert isinstance(found[1], bounded.Failed)
    assert (found[0], found[1].item, found[2]) == ("1", items[1], "3")

    given = list(processes.map(functions.give_lambda, [1, 2, 3], limit=1, chunksize=3, on_error="return"))
    assert [type(result) for result in given] == [int, bounded.Failed, int]

    _, error = taken(processes.map(functions.fail_fussily, [1], limit=1))
    assert isinstance(error, RuntimeError)
    assert str(error) == "process_functions.Fussy: 1"


def test_items_of_chunk_are_isolated() -> None:
    """A call cannot change the argument or the value of another one, and values of all types arrive in order."""
    box = [0]
    mixed = [1, (2, "x"), [3], None, b"4", (5, [6]), 7.5, True]
    options = {"limit": 1, "ordered": True, "chunksize": 8}

    grown = list(processes.map(lambda given: given.append(1) or given, [box, box, box], **options))  # type: ignore[call-overload]

    assert grown == [[0, 1], [0, 1], [0, 1]]
    assert list(processes.map(lambda item: item, mixed, **options)) == mixed  # type: ignore[call-overload]
    assert list(processes.map(lambda item: [item], mixed, **options)) == [[item] for item in mixed]  # type: ignore[call-overload]


def test_unpicklable_function_ends_call() -> None:
    """The value of `on_error` makes no difference."""
    lock = threading.Lock()

    _, error = taken(processes.map(lambda _: lock.locked(), [1], limit=1, on_error="return"))

    assert "cloudpickle failed (TypeError: cannot pickle" in str(error)


def test_worker_death_raises_error_naming_item() -> None:
    """After the death of a worker, no other item begins."""
    found, error = taken(processes.map(functions.die_at_three, range(9), limit=1, ordered=True))

    assert found == [0, 1, 2]
    assert isinstance(error, bounded.WorkerDiedError)
    assert re.fullmatch(r"worker process \d+ was ended by SIGKILL while processing item 3", str(error))


def test_dead_worker_is_replaced_when_errors_are_returned() -> None:
    """Another worker takes over with `on_error="return"`; all items of a chunk fail together."""
    found = list(processes.map(functions.die_at_three, range(6), limit=1, ordered=True, on_error="return"))
    assert isinstance(found[3], bounded.Failed)
    assert found[3].item == 3
    assert found[:3] + found[4:] == [0, 1, 2, 4, 5]

    chunked = processes.map(functions.die_at_three, range(6), limit=2, ordered=True, on_error="return", chunksize=2)
    failed = [result for result in chunked if isinstance(result, bounded.Failed)]
    assert [one.item for one in failed] == [2, 3]
    assert all("while processing 2 items, starting with 2" in str(one.error) for one in failed)


def test_worker_death_is_detected_when_child_holds_pipe(tmp_path: Path) -> None:
    """The pipe does not report an end of file until the child dies, too."""
    noted = tmp_path / "child"

    _, error = taken(processes.map(functions.die_before_child, [str(noted)], limit=1, timeout=30))

    os.kill(int(noted.read_text()), signal.SIGKILL)
    assert "ended with exit code 7 while processing item" in str(error)


def test_worker_death_during_startup_ends_call() -> None:
    """A worker is not replaced if it dies before it is ready, because its successors would die as well."""
    _, error = taken(processes.map(abs, range(5), limit=2, on_start=functions.leave, on_error="return"))

    assert isinstance(error, bounded.WorkerDiedError)
    assert (
        "ended with exit code 4 before it was ready; check that the main "
        "module starts the pool below `if __name__" in str(error)
    )


def test_process_on_start_error_ends_call() -> None:
    """An error in `on_start` ends the call and is raised."""
    _, error = taken(processes.map(abs, range(5), limit=2, on_start=functions.refuse, on_error="return"))

    assert isinstance(error, ConnectionError)
    assert "in refuse" in str(error.__cause__)


def test_process_on_done_error_is_raised_after_results() -> None:
    """An error in `on_done` is raised after the results."""
    found, error = taken(processes.map(abs, [1], limit=1, on_done=functions.fail_fussily))

    assert found == [1]
    assert str(error) == "process_functions.Fussy: 1"


def test_break_kills_busy_processes() -> None:
    """`break` kills the processes of running calls; an idle process runs `on_done`."""
    for number in processes.map(functions.sleep_long, itertools.count(), limit=2):
        assert number == 0
        break

    assert wait_for(lambda: not multiprocessing.active_children())


def test_process_block_exit_waits_for_workers() -> None:
    """Leaving the block kills running calls, and returns as soon as the workers have ended."""
    with processes.map(functions.sleep_long, itertools.count(), limit=2) as results:
        assert next(results) == 0

    assert not multiprocessing.active_children()


def test_idle_process_runs_on_done_after_interrupt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An idle process is told to end, not killed, even if the results are abandoned."""
    monkeypatch.setenv("NOTES", str(tmp_path))

    def numbers() -> Iterator[int]:
        yield 0
        # Wait until the worker has processed the item and is idle.
        assert wait_for(lambda: "0" in "".join(path.read_text() for path in tmp_path.iterdir()))
        time.sleep(0.2)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        processes.each(
            functions.note_item, numbers(), limit=2, on_start=functions.note_start, on_done=functions.note_end
        )

    assert [path.read_text().split() for path in tmp_path.iterdir()] == [["start", "0", "end"]]


def test_timeout_kills_busy_processes() -> None:
    """The timeout kills running calls; earlier results are returned."""
    found, error = taken(processes.map(functions.sleep_long, itertools.count(), limit=2, timeout=3))

    assert isinstance(error, TimeoutError)
    assert found == [0]
