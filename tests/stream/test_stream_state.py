"""Streams that save their position: after a kill, after the loop is left, and with a different input."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

import fetchmill
from fetchmill.testing import Server
from raw_server import Behaviour, RawServer, reply

Serve = Callable[..., Server]
Raw = Callable[[Mapping[str, Behaviour]], RawServer]
WINDOW = 256

# Writes the number of each finished reply. O_APPEND makes sure that a kill loses none.
PROGRAM = """
import os, sys, time, fetchmill
url, state, log, count, pause = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), float(sys.argv[5])
out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
for reply in fetchmill.stream((f"{url}/get/file-{n:012d}" for n in range(count)), state=state, limit=8):
    assert reply.ok
    os.write(out, b"%d\\n" % reply.index)
    time.sleep(pause)
"""


def urls(server: Server, count: int) -> list[str]:
    """Returns the URLs of the first synthetic objects."""
    return [f"{server.url}/get/file-{number:012d}" for number in range(count)]


def numbers(log: Path) -> list[int]:
    """Returns the numbers that a program has printed."""
    return [int(line) for line in log.read_text().splitlines()] if log.exists() else []


@pytest.mark.thorough
def test_kill_repeats_at_most_one_commit_window(server: Serve, tmp_path: Path) -> None:
    """Every item is processed. Only items of the last second and unfinished items are repeated."""
    count = 30_000
    running = server(synthetic=count)
    log, state = tmp_path / "log", tmp_path / "run"
    arguments = [sys.executable, "-c", PROGRAM, running.url, str(state), str(log), str(count)]

    for _ in range(3):
        process = subprocess.Popen([*arguments, "0.0005"])
        time.sleep(2.5)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    subprocess.run([*arguments, "0"], check=True, timeout=120)

    found = numbers(log)
    assert set(found) == set(range(count))
    # The program runs for 2.5 s and saves at least once, so most items are not repeated. It handles fewer than 2,000
    # items per second, and a window lasts slightly more than a second.
    assert len(found) - count <= 3 * (8 + WINDOW + 2000 * 1.2)


def test_reply_counts_as_done_when_next_is_requested(server: Serve, tmp_path: Path) -> None:
    """Only the reply at which the loop was left is repeated."""
    wanted = urls(server(synthetic=500), 500)
    seen = []

    for found in fetchmill.stream(wanted, state=tmp_path / "run"):
        seen.append(found.index)
        if len(seen) == 100:
            break
    rest = [found.index for found in fetchmill.stream(wanted, state=tmp_path / "run")]

    assert sorted(seen[:-1] + rest) == list(range(500))
    assert seen[-1] in rest
    assert list(fetchmill.stream(wanted, state=tmp_path / "run")) == []


def test_repeated_items_keep_their_order(raw: Raw, tmp_path: Path) -> None:
    """Items between the repeated ones may have been finished before."""
    is_cancelled = threading.Event()

    def late(_exchange: object) -> bytes:
        is_cancelled.wait(20)
        return reply(b"x")

    server = raw({f"/{number}": late if number in {3, 7} else reply(b"x") for number in range(300)})
    wanted = [f"{server.url}/{number}" for number in range(300)]
    with fetchmill.stream(wanted, state=tmp_path) as replies:
        first = [next(replies).index for _ in range(200)]
    is_cancelled.set()

    second = [found.index for found in fetchmill.stream(wanted, state=tmp_path, ordered=True)]

    assert {3, 7} & set(first) == set()
    assert second == sorted({*range(300)} - set(first[:-1]))


def test_growing_input_continues_after_its_former_end(server: Serve, tmp_path: Path) -> None:
    """Finished items are not repeated."""
    wanted = urls(server(synthetic=300), 300)

    first = [found.index for found in fetchmill.stream(wanted[:200], state=tmp_path)]
    second = [found.index for found in fetchmill.stream(wanted, state=tmp_path)]

    assert (sorted(first), sorted(second)) == (list(range(200)), list(range(200, 300)))


@pytest.mark.parametrize("change", ["order", "fewer", "method"])
def test_changed_input_is_refused(raw: Raw, tmp_path: Path, change: str) -> None:
    """The error comes before any request is sent, and with every attempt."""
    server = raw({f"/{number}": reply(b"x") for number in range(400)})
    wanted: list[str | fetchmill.Request] = [f"{server.url}/{number}" for number in range(400)]
    assert len(list(fetchmill.stream(wanted, state=tmp_path))) == 400
    others = {
        "order": [wanted[1], wanted[0], *wanted[2:]],
        "fewer": wanted[:-1],
        "method": [*wanted[:-1], fetchmill.Request(str(wanted[-1]), "HEAD")],
    }
    asked = len(server.requests)

    for _ in range(2):
        with pytest.raises(fetchmill.UsageError, match="differs from that of the earlier run, at or before item 400"):
            list(fetchmill.stream(others[change], state=tmp_path))

    assert len(server.requests) == asked
    assert list(fetchmill.stream(wanted, state=tmp_path)) == []


def test_returned_failure_counts_as_done(tmp_path: Path) -> None:
    """The failure counts once the loop asks for the next reply."""
    items = ["http://127.0.0.1:1/"] * 3

    assert len(list(fetchmill.stream(items, state=tmp_path, attempts=1))) == 3
    assert list(fetchmill.stream(items, state=tmp_path, attempts=1)) == []


def test_state_folder_allows_one_stream_at_a_time(server: Serve, tmp_path: Path) -> None:
    """The second stream is refused until the first one has ended."""
    wanted = urls(server(synthetic=10), 10)

    with fetchmill.stream(wanted, state=tmp_path) as replies:
        next(replies)
        with pytest.raises(fetchmill.BusyError):
            fetchmill.stream(wanted, state=tmp_path)

    assert len(list(fetchmill.stream(wanted, state=tmp_path))) == 10


def test_foreign_folder_is_refused_as_stream_state(server: Serve, tmp_path: Path) -> None:
    """Examples are a job's destination and a folder with other files."""
    running = server(synthetic=10)
    fetchmill.get(running.url, tmp_path / "job")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_text("x")

    for folder in ("job", "mine"):
        with pytest.raises(fetchmill.UsageError):
            fetchmill.stream(urls(running, 10), state=tmp_path / folder)


def test_async_stream_resumes_from_its_state(server: Serve, tmp_path: Path) -> None:
    """The input may be an iterable or an async iterable."""
    wanted = urls(server(synthetic=1000), 1000)

    async def take(count: int) -> list[int]:
        found = []
        async with fetchmill.astream(wanted, state=tmp_path, limit=4) as replies:
            async for one in replies:
                found.append(one.index)
                if len(found) == count:
                    break
        return found

    first = asyncio.run(take(300))
    second = asyncio.run(take(1000))

    assert sorted(first[:-1] + second) == list(range(1000))


@pytest.mark.timing
def test_million_finished_items_are_skipped_quickly(tmp_path: Path) -> None:
    """A million items may take 1.2 s here. The goal is 0.6 s, which means a minute for a hundred million."""
    count = 1_000_000
    # Invalid URLs cause no requests.
    assert sum(1 for _ in fetchmill.stream(map(str, range(count)), state=tmp_path, attempts=1)) == count
    started = time.process_time()

    assert list(fetchmill.stream(map(str, range(count)), state=tmp_path)) == []

    assert time.process_time() - started < 1.2
