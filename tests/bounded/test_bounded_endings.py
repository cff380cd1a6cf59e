"""Ctrl-C, the normal end of a program, and its death: what happens to tasks, threads and processes."""

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from concurrency import wait_for
from conftest import SUPPORT

Start = Callable[..., subprocess.Popen[str]]

HEAD = """
import asyncio, itertools, os, sys, threading, time
import process_functions as functions
from fetchmill import bounded
"""


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Start]:
    """Starts a program in its own process group, as a terminal does; none of its processes outlives the test."""
    started: list[subprocess.Popen[str]] = []

    def start(body: str, *, head: str = HEAD) -> subprocess.Popen[str]:
        path = tmp_path / "program.py"
        path.write_text(head + textwrap.dedent(body))
        folders = os.pathsep.join([str(SUPPORT), *sys.path])
        running = subprocess.Popen(
            [sys.executable, str(path)],
            env=os.environ | {"PYTHONPATH": folders},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        started.append(running)
        return running

    yield start
    for running in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)
        running.communicate()


def interrupted(running: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Sends Ctrl-C once the program is ready. Returns its exit code and its later output."""
    assert running.stdout
    assert running.stdout.readline() == "ready\n"
    os.killpg(running.pid, signal.SIGINT)
    out, err = running.communicate(timeout=120)
    return running.returncode, out, err


def group_is_gone(group: int) -> bool:
    """Returns whether no process of the group is left."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


def test_interrupt_cancels_tasks_and_closes_resources(program: Start) -> None:
    """The exception is raised where the program's main function runs."""
    running = program(
        """
        async def work(number, own):
            if number == 3:
                print("ready", flush=True)
            await asyncio.sleep(60)

        async def put_away(own):
            await asyncio.sleep(0.01)
            print("put away", flush=True)

        try:
            asyncio.run(bounded.each(work, itertools.count(), limit=4, on_start=lambda: None, on_done=put_away))
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        """
    )

    assert interrupted(running) == (0, "put away\n" * 4 + "interrupted\n", "")


@pytest.mark.parametrize("how", ["for", "async for", "held", "pool"])
def test_interrupt_cancels_loops_and_task_pools(program: Start, how: str) -> None:
    """An interrupt cancels every task that a loop or a pool has started."""
    loop = "await task" if how == "for" else "pass"
    body = f"{how} task in bounded.as_completed(sleepers, 3):\n        {loop}"
    if how == "held":
        # An error references its frames, and the frames reference the iterator.
        body = "loop = bounded.as_completed(sleepers, 3)\n    async for task in loop:\n        pass"
    if how == "pool":
        body = (
            "async with bounded.TaskPool(3) as pool:\n        while True:\n            await pool.put(next(sleepers))"
        )
    running = program(
        f"""
async def sleep(number):
    try:
        print("ready" if number == 2 else "", end="\\n" if number == 2 else "", flush=True)
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        print("cancelled", flush=True)
        raise

sleepers = (sleep(number) for number in itertools.count())

async def main():
    {body}

try:
    asyncio.run(main())
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
    )

    assert interrupted(running) == (0, "cancelled\n" * 3 + "interrupted\n", "")


def test_interrupt_waits_for_running_threads(program: Start) -> None:
    """No other item begins, and `each` waits for the running ones."""
    running = program(
        """
        import signal

        begun = itertools.count()
        release = threading.Event()

        def interrupt(number, frame):
            threading.Timer(0.3, release.set).start()
            raise KeyboardInterrupt

        def work(number, own):
            next(begun)
            if number == 1:
                sys.stdout.write("ready\\n")
                sys.stdout.flush()
            release.wait()

        def put_away(own):
            sys.stdout.write("put away\\n")

        signal.signal(signal.SIGINT, interrupt)
        try:
            bounded.threads.each(work, itertools.count(), limit=2, on_start=lambda: None, on_done=put_away)
        except KeyboardInterrupt:
            left = [thread for thread in threading.enumerate() if "bounded" in thread.name]
            print("interrupted", next(begun), left)
        """
    )

    assert interrupted(running) == (0, "put away\n" * 2 + "interrupted 2 []\n", "")


def test_idle_processes_ignore_interrupt(program: Start) -> None:
    """Waiting processes ignore the signal and end when they are told to."""
    running = program(
        """
        if __name__ == "__main__":
            try:
                with bounded.processes.map(abs, itertools.count(), limit=1) as results:
                    next(results), next(results)
                    time.sleep(0.2)
                    print("ready", flush=True)
                    time.sleep(60)
            except KeyboardInterrupt:
                print("interrupted", flush=True)
        """
    )

    assert interrupted(running) == (0, "interrupted\n", "")


def test_interrupt_ends_busy_processes_silently(program: Start) -> None:
    """Processes that are working end, and print nothing."""
    running = program(
        """
        if __name__ == "__main__":
            try:
                for number in bounded.processes.map(functions.sleep_long, [0, 1, 1, 1], limit=2):
                    print("ready", flush=True)
            except KeyboardInterrupt:
                print("interrupted", flush=True)
        """
    )

    assert interrupted(running) == (0, "interrupted\n", "")
    assert wait_for(lambda: group_is_gone(running.pid))


@pytest.mark.parametrize("kind", ["threads", "processes"])
def test_program_exit_ends_unclosed_workers(program: Start, kind: str) -> None:
    """The program has not closed the results, and still holds a reference to them."""
    running = program(
        f"""
        if __name__ == "__main__":
            results = bounded.{kind}.map(abs, itertools.count(), limit=3)
            print(next(results))
        """
    )

    assert running.communicate(timeout=120) == ("0\n", "")
    assert running.returncode == 0
    assert wait_for(lambda: group_is_gone(running.pid))


def test_worker_processes_end_when_program_is_killed(program: Start) -> None:
    """Workers notice that their program is gone."""
    running = program(
        """
        if __name__ == "__main__":
            # A single worker, so that no other one is being started.
            results = bounded.processes.map(abs, itertools.count(), limit=1)
            next(results), next(results)
            print("ready", flush=True)
            time.sleep(60)
        """
    )
    assert running.stdout
    assert running.stdout.readline() == "ready\n"

    running.kill()
    _, err = running.communicate(timeout=120)

    assert wait_for(lambda: group_is_gone(running.pid))
    assert err == ""


def test_main_module_without_guard_is_reported(program: Start) -> None:
    """Spawn imports the main module in every worker, so the error asks for the guard."""
    running = program("print(list(bounded.processes.map(abs, [1, 2], limit=2)))")

    _, err = running.communicate(timeout=120)

    assert running.returncode == 1
    assert "before it was ready; check that the main module starts the pool below `if __name__ == '__main__':`" in err
    assert wait_for(lambda: group_is_gone(running.pid))


def test_break_in_ending_task_leaves_no_tasks(program: Start) -> None:
    """`break` leaves nothing, even if the event loop is closed immediately afterwards."""
    running = program(
        """
        async def work(number):
            await asyncio.sleep(0 if number == 0 else 60)

        async def main():
            # While other tests run, a step may take long, and debug mode would report it.
            asyncio.get_running_loop().slow_callback_duration = 60
            async for _ in bounded.map(work, itertools.count(), limit=3, on_done=lambda own: print("put away")):
                break

        asyncio.run(main(), debug=True)
        """
    )

    assert running.communicate(timeout=120) == ("put away\n" * 3, "")
    assert running.returncode == 0


def test_bounded_import_loads_no_other_module(program: Start) -> None:
    """Importing the module loads no HTTP code, and does not slow down the import of the package."""
    running = program(
        """
        import fetchmill
        print(*(name for name in sys.modules if name.startswith(("fetchmill", "asyncio", "multiprocessing"))))
        fetchmill.bounded
        print(*(name for name in sys.modules if name.startswith(("fetchmill", "asyncio", "multiprocessing"))))
        for name in dir(fetchmill.bounded):
            getattr(fetchmill.bounded, name)
        print(all(name.startswith("fetchmill.bounded") for name in sys.modules if name.startswith("fetchmill.")))
        """,
        head="import sys\n",
    )

    out, err = running.communicate(timeout=120)

    assert out.splitlines() == ["fetchmill", "fetchmill fetchmill.bounded", "True"], err
