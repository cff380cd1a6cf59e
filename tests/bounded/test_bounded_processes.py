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
def test_every_item_has_its_result(chunksize: int, ordered: bool) -> None:
    """Results are in the order of the input if requested, and no process is left at the end."""
    found = list(processes.map(abs, iter(range(40)), limit=2, ordered=ordered, chunksize=chunksize))

    assert not multiprocessing.active_children()
    assert (found if ordered else sorted(found)) == list(range(40))


def test_it_is_another_process_that_works() -> None:
    """The process was started by spawn and has imported only what it needs."""
    assert os.getpid() not in set(processes.map(functions.own_pid, range(4), limit=2))
    assert list(processes.map(functions.is_loaded, ["fetchmill._native", "asyncio", "pytest"], limit=1)) == [False] * 3


def test_a_lambda_and_a_function_in_a_function_are_taken_along() -> None:
    """Lambdas and nested functions are sent by value, with their dependencies."""
    factor = 3

    def times(number: int) -> int:
        return number * factor

    assert sorted(processes.map(times, range(4), limit=2)) == [0, 3, 6, 9]
    assert list(processes.map(lambda number: -number, [1], limit=1)) == [-1]


def test_an_input_without_end_is_read_within_the_window() -> None:
    """An endless input is read up to twice the limit, in chunks."""
    read = itertools.count()

    with processes.map(abs, read, limit=2, chunksize=3) as results:
        for _ in range(30):
            next(results)

    assert next(read) <= 30 + 2 * 2 * 3 + 3


def test_workers_start_on_demand() -> None:
    """Two items do not start a hundred workers."""
    assert len(set(processes.map(functions.own_pid, range(2), limit=100))) <= 2


def test_what_a_worker_opens_goes_to_its_items_and_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker's resource is passed to its items and its end; `on_start` runs once per process."""
    monkeypatch.setenv("NOTES", str(tmp_path))

    tally = processes.each(
        functions.note_item, range(20), limit=2, on_start=functions.note_start, on_done=functions.note_end
    )

    notes = [path.read_text().split() for path in tmp_path.iterdir()]
    assert tally == bounded.Tally(done=20, failed=0, failures=())
    assert all((lines[0], lines[-1]) == ("start", "end") for lines in notes)
    assert sorted(int(line) for lines in notes for line in lines[1:-1]) == list(range(20))


def test_an_error_has_the_trace_of_its_process_as_cause() -> None:
    """An error keeps its class, and has the trace of its process as cause."""
    found, error = taken(processes.map(functions.fail_at_two, range(9), limit=1))

    assert found == [0, 1]
    assert isinstance(error, ValueError)
    assert 'raise ValueError("it is two")' in str(error.__cause__)


@pytest.mark.parametrize("chunksize", [1, 3])
def test_errors_can_be_returned(chunksize: int) -> None:
    """Each item has a separate error, also inside a chunk."""
    options = {"limit": 2, "ordered": True, "chunksize": chunksize}
    found = list(processes.map(functions.fail_at_two, range(5), on_error="return", **options))  # type: ignore[call-overload]

    assert isinstance(found[2], bounded.Failed)
    assert (found[2].item, str(found[2].error)) == (2, "it is two")
    assert found[:2] + found[3:] == [0, 1, 3, 4]


def test_what_cannot_be_pickled_fails_alone() -> None:
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


def test_items_of_a_chunk_are_separate() -> None:
    """A call cannot change the argument or the value of another one, and values of all types arrive in order."""
    box = [0]
    mixed = [1, (2, "x"), [3], None, b"4", (5, [6]), 7.5, True]
    options = {"limit": 1, "ordered": True, "chunksize": 8}

    grown = list(processes.map(lambda given: given.append(1) or given, [box, box, box], **options))  # type: ignore[call-overload]

    assert grown == [[0, 1], [0, 1], [0, 1]]
    assert list(processes.map(lambda item: item, mixed, **options)) == mixed  # type: ignore[call-overload]
    assert list(processes.map(lambda item: [item], mixed, **options)) == [[item] for item in mixed]  # type: ignore[call-overload]


def test_a_function_that_cannot_be_pickled_ends_everything() -> None:
    """A function that cannot be pickled ends the call, whatever `on_error` is."""
    lock = threading.Lock()

    _, error = taken(processes.map(lambda _: lock.locked(), [1], limit=1, on_error="return"))

    assert "cloudpickle failed (TypeError: cannot pickle" in str(error)


def test_a_worker_that_dies_is_an_error_that_names_the_item() -> None:
    """A worker's death is an error that names the item, and no other item begins."""
    found, error = taken(processes.map(functions.die_at_three, range(9), limit=1, ordered=True))

    assert found == [0, 1, 2]
    assert isinstance(error, bounded.WorkerDiedError)
    assert re.fullmatch(r"worker process \d+ was ended by SIGKILL while processing item 3", str(error))


def test_another_takes_the_place_of_one_that_died() -> None:
    """Another worker takes over with `on_error="return"`; all items of a chunk fail together."""
    found = list(processes.map(functions.die_at_three, range(6), limit=1, ordered=True, on_error="return"))
    assert isinstance(found[3], bounded.Failed)
    assert found[3].item == 3
    assert found[:3] + found[4:] == [0, 1, 2, 4, 5]

    chunked = processes.map(functions.die_at_three, range(6), limit=2, ordered=True, on_error="return", chunksize=2)
    failed = [result for result in chunked if isinstance(result, bounded.Failed)]
    assert [one.item for one in failed] == [2, 3]
    assert all("while processing 2 items, starting with 2" in str(one.error) for one in failed)


def test_a_death_is_seen_although_a_child_holds_the_pipe(tmp_path: Path) -> None:
    """The pipe has no end of file until the child dies, too."""
    noted = tmp_path / "child"

    _, error = taken(processes.map(functions.die_before_child, [str(noted)], limit=1, timeout=30))

    os.kill(int(noted.read_text()), signal.SIGKILL)
    assert "ended with exit code 7 while processing item" in str(error)


def test_a_worker_that_dies_before_it_is_ready_ends_everything() -> None:
    """A worker that dies before it is ready ends the call; its successors would die as well."""
    _, error = taken(processes.map(abs, range(5), limit=2, on_start=functions.leave, on_error="return"))

    assert isinstance(error, bounded.WorkerDiedError)
    assert (
        "ended with exit code 4 before it was ready; check that the main "
        "module starts the pool below `if __name__" in str(error)
    )


def test_a_start_that_fails_ends_everything() -> None:
    """An error in `on_start` ends the call and is raised."""
    _, error = taken(processes.map(abs, range(5), limit=2, on_start=functions.refuse, on_error="return"))

    assert isinstance(error, ConnectionError)
    assert "in refuse" in str(error.__cause__)


def test_an_end_that_fails_is_heard_behind_the_results() -> None:
    """An error in `on_done` is raised after the results."""
    found, error = taken(processes.map(abs, [1], limit=1, on_done=functions.fail_fussily))

    assert found == [1]
    assert str(error) == "process_functions.Fussy: 1"


def test_break_ends_calls_that_run() -> None:
    """`break` kills the processes of running calls; an idle process runs `on_done`."""
    for number in processes.map(functions.sleep_long, itertools.count(), limit=2):
        assert number == 0
        break

    assert wait_for(lambda: not multiprocessing.active_children())


def test_leaving_the_block_waits_for_the_end() -> None:
    """Leaving the block returns as soon as the workers have ended, which is immediate here."""
    with processes.map(functions.sleep_long, itertools.count(), limit=2) as results:
        assert next(results) == 0

    assert not multiprocessing.active_children()


def test_one_that_does_nothing_puts_things_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An idle process is told to end, not killed, even if the results are abandoned."""
    monkeypatch.setenv("NOTES", str(tmp_path))

    def numbers() -> Iterator[int]:
        yield 0
        # Wait until the worker has done that and is idle.
        assert wait_for(lambda: "0" in "".join(path.read_text() for path in tmp_path.iterdir()))
        time.sleep(0.2)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        processes.each(
            functions.note_item, numbers(), limit=2, on_start=functions.note_start, on_done=functions.note_end
        )

    assert [path.read_text().split() for path in tmp_path.iterdir()] == [["start", "0", "end"]]


def test_the_timeout_ends_calls_that_run() -> None:
    """The timeout kills running calls; earlier results are returned."""
    found, error = taken(processes.map(functions.sleep_long, itertools.count(), limit=2, timeout=3))

    assert isinstance(error, TimeoutError)
    assert found == [0]
