"""`--concurrency auto` finds the useful number of requests in flight, and changes nothing else.

The simulated origins next to the code measure how well it works (planner/concurrency/tests.rs).
"""

import asyncio
import json
import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import fetchmill
from engine_functions import Target
from engines import ENGINES, IN_PYTHON, WITH_COROUTINES, InFlight, engine_keywords, engine_options
from fetchmill.testing import Fault, Server, synthetic_body
from independent import find_problems, synthetic, synthetic_name
from process_limits import low_descriptors
from raw_server import Behaviour, RawServer

Run = Callable[..., Any]
Serve = Callable[..., Server]
Raw = Callable[[Mapping[str, Behaviour]], RawServer]

LOG = logging.getLogger(__name__)
AUTO = ("--concurrency", "auto")
FIRST = 32
# Requests in flight of a job or stream with several origins.
USUAL = 64
CORES = len(os.sched_getaffinity(0))
# Objects per engine if replies take 0.3 s: the search takes some seconds.
OBJECTS = {"native": 4000, "sync": 10, "threads": 1000, "processes": 150, "asyncio": 1500, "combo": 2000}
# Engines that search with more requests in one process.
TRYING = tuple(engine for engine in ENGINES if engine not in {"sync", "processes"})


def connections_for(requests: int) -> int:
    """Returns how many connections may be open: half as many are resting, and the listing has two."""
    return requests + requests // 2 + 2


def most_in_flight(events: str) -> int:
    """Returns the maximum in a job's progress, which comes once per second."""
    return max((json.loads(line).get("in_flight") or 0 for line in events.splitlines()), default=0)


@pytest.mark.one_in(3)
@pytest.mark.sampled(1)
@pytest.mark.parametrize("engine", TRYING)
def test_auto_concurrency_rises_for_slow_server(run: Run, server: Serve, dest: Path, engine: str) -> None:
    """Each reply takes 0.3 s under any load, so more requests are faster. Nothing is lost."""
    served = server(synthetic=OBJECTS[engine], delay=(0.3, 0.3))

    ended = run("get", served.url, dest, "-j", "auto", *engine_options(engine))

    assert ended.code == 0, ended.err
    LOG.info("%s: %d connections", engine, served.stats()["connections"])
    assert served.stats()["connections"] > connections_for((4 if engine == "native" else 1) * FIRST)
    assert find_problems(dest, synthetic(OBJECTS[engine])) == []


@pytest.mark.one_in(3)
@pytest.mark.skipif("processes" not in ENGINES, reason="the engine was not asked for")
def test_auto_concurrency_starts_more_processes_when_useful(run: Run, server: Serve, dest: Path) -> None:
    """Each process makes one request at a time; the job begins with one per processor."""
    served = server(synthetic=OBJECTS["processes"], delay=(0.3, 0.3))

    ended = run("get", served.url, dest, *AUTO, "--concurrency-max", CORES + 8, "--engine", "processes", "--json")

    assert ended.code == 0, ended.err
    LOG.info("%d connections, %d in flight", served.stats()["connections"], most_in_flight(ended.out))
    # Two of them are the listing's.
    assert served.stats()["connections"] > CORES + 2
    assert CORES < most_in_flight(ended.out) <= CORES + 8
    assert find_problems(dest, synthetic(OBJECTS["processes"])) == []


@pytest.mark.skipif("sync" not in ENGINES, reason="the engine was not asked for")
def test_auto_concurrency_keeps_sync_engine_at_one_request(run: Run, server: Serve, dest: Path) -> None:
    """An engine with one request at a time has no number to search for."""
    served = server(synthetic=OBJECTS["sync"])

    ended = run("get", served.url, dest, *AUTO, "--engine", "sync")

    assert ended.code == 0, ended.err
    assert find_problems(dest, synthetic(OBJECTS["sync"])) == []


@pytest.mark.parametrize("engine", [engine for engine in ("threads", "asyncio") if engine in ENGINES])
def test_auto_concurrency_rises_for_custom_fetch_function(dest: Path, engine: str) -> None:
    """The duration of a call is its latency, and only `concurrency_max` limits the number of parallel calls."""
    lock, running, most = threading.Lock(), 0, 0

    def count(more: int) -> None:
        nonlocal running, most
        with lock:
            running += more
            most = max(most, running)

    def fetch(target: Target) -> bytes:
        count(1)
        time.sleep(0.2)
        count(-1)
        return target.name.encode()

    async def fetch_soon(target: Target) -> bytes:
        count(1)
        await asyncio.sleep(0.2)
        count(-1)
        return target.name.encode()

    report = fetchmill.get(
        (f"item-{number}" for number in range(1200)),
        dest,
        **engine_keywords(engine),
        format="null",
        concurrency="auto",
        concurrency_max=100,
        fetch=fetch_soon if engine in WITH_COROUTINES else fetch,
    )

    assert report.fetched == 1200
    LOG.info("%s: %d at once", engine, most)
    assert FIRST < most <= 100


@pytest.mark.sampled(1)
@pytest.mark.parametrize("engine", [engine for engine in ("native", "threads", "combo") if engine in ENGINES])
def test_auto_concurrency_does_not_rise_when_rate_is_limited(run: Run, server: Serve, dest: Path, engine: str) -> None:
    """Requests that wait for the job's own rate are not counted."""
    served = server(synthetic=600)

    ended = run("get", served.url, dest, *AUTO, "--rate", 200, "--json", *engine_options(engine))

    assert ended.code == 0, ended.err
    assert most_in_flight(ended.out) <= FIRST


@pytest.mark.sampled(1)
@pytest.mark.parametrize("engine", TRYING)
def test_auto_concurrency_fetches_throttled_origin_completely(run: Run, server: Serve, dest: Path, engine: str) -> None:
    """The pace of a throttled origin does not count as latency, and refusals do not count as attempts."""
    served = server(synthetic=1500, faults=[Fault("status", status=503, above=500)])

    ended = run("get", served.url, dest, *AUTO, "--attempts", 1, *engine_options(engine))

    assert ended.code == 0, ended.err
    assert find_problems(dest, synthetic(1500)) == []


@pytest.mark.sampled(1)
@pytest.mark.parametrize("count", [70, 90])
def test_auto_concurrency_is_bounded_by_file_descriptors(run: Run, server: Serve, dest: Path, count: int) -> None:
    """The search stops at the number that descriptors allow, without a notice about a lowered limit."""
    served = server(synthetic=1000, delay=(0.05, 0.05))

    ended = run("get", served.url, dest, *AUTO, "--json", preexec_fn=low_descriptors(count))

    assert ended.code == 0, ended.err
    assert "lowered" not in ended.err
    assert 0 < most_in_flight(ended.out) < count // 2
    assert find_problems(dest, synthetic(1000)) == []


def test_job_resumes_with_different_concurrency(run: Run, server: Serve, dest: Path) -> None:
    """The concurrency is not part of a job's identity."""
    served = server(synthetic=300, faults=[Fault("status", status=500, rate=0.1, times=1)])
    assert run("get", served.url, dest, "-j", 4, "--attempts", 1).code == 3

    ended = run("get", served.url, dest, *AUTO, "--retry-failed")

    assert ended.code == 0, ended.err
    assert find_problems(dest, synthetic(300)) == []


@pytest.mark.sampled(1)
@pytest.mark.parametrize("engine", [engine for engine in ("native", *IN_PYTHON) if engine in ENGINES])
def test_auto_concurrency_respects_limit_per_host(
    run: Run, server: Serve, dest: Path, tmp_path: Path, engine: str
) -> None:
    """Each host gets at most four requests at a time."""
    servers = [server(synthetic=60, delay=(0.2, 0.2)) for _ in range(2)]
    urls = tmp_path / "urls.txt"
    urls.write_text("".join(f"{each.url}/get/file-{number:012}\n" for number in range(60) for each in servers))

    options = (*AUTO, "--allow-private", "--limit-per-host", 4, "--json", *engine_options(engine))
    ended = run("get", urls, dest, *options)

    assert ended.code == 0, ended.err
    assert most_in_flight(ended.out) <= 2 * 4


# --- streams -------------------------------------------------------------------------------------------------


def urls_of(server: Server, numbers: Iterable[int]) -> Iterable[str]:
    """Returns the URLs of synthetic objects."""
    return (f"{server.url}/get/{synthetic_name(number)}" for number in numbers)


def are_right(replies: Iterable[fetchmill.Reply], count: int) -> bool:
    """Checks that each of the first synthetic objects came once, with its own bytes."""
    found = {reply.index: (reply.status, bytes(reply.body)) for reply in replies}
    return found == {index: (200, synthetic_body(synthetic_name(index), 100)) for index in range(count)}


@pytest.mark.parametrize("manner", [{}, {"ordered": True}, {"certain": True}])
def test_stream_concurrency_rises_for_slow_server(server: Serve, manner: dict[str, Any]) -> None:
    """A stream raises its number like a job, and keeps all promises about its replies."""
    count = 3000
    served = server(synthetic=count, delay=(0.3, 0.3))

    with fetchmill.Client(concurrency="auto") as client:
        assert client.concurrency == FIRST
        replies = list(client.stream(urls_of(served, range(count)), **manner))
        found = client.concurrency

    assert len(replies) == count
    assert are_right(replies, count)
    if "ordered" in manner:
        assert [reply.index for reply in replies] == list(range(count))
    LOG.info("%d connections, ended at %d", served.stats()["connections"], found)
    assert found > FIRST
    assert served.stats()["connections"] > connections_for(FIRST)


def test_async_and_batched_streams_raise_concurrency(server: Serve) -> None:
    """Both kinds of streams share the fetching thread, and find the useful number."""
    served = server(synthetic=2000, delay=(0.2, 0.2))

    async def all_of(client: fetchmill.Client) -> list[fetchmill.Reply]:
        return [reply async for reply in client.astream(urls_of(served, range(1000)))]

    with fetchmill.Client(concurrency="auto") as client:
        assert are_right(asyncio.run(all_of(client)), 1000)
        assert client.concurrency > FIRST
    with fetchmill.Client(concurrency="auto") as client:
        table = pa.table(client.stream_batches(urls_of(served, range(1000))))
        assert sorted(table["index"].to_pylist()) == list(range(1000))
        assert client.concurrency > FIRST


def test_stream_concurrency_stays_within_maximum(raw: Raw) -> None:
    """A stream takes at most 256 items in addition to those in flight."""
    in_flight, count = InFlight(0.05), 800
    served = raw({f"/{number}": in_flight.answer(str(number)) for number in range(count)})
    taken: Any = iter(range(count))
    ahead = 0

    with fetchmill.Client(concurrency="auto", concurrency_max=40) as client:
        for given, reply in enumerate(client.stream(f"{served.url}/{number}" for number in taken)):
            assert bytes(reply.body) == reply.url.rpartition("/")[2].encode()
            ahead = max(ahead, count - taken.__length_hint__() - given - 1)
            assert client.concurrency <= 40

    assert FIRST < in_flight.most <= 40
    assert ahead <= 40 + 256


def test_stream_over_several_origins_uses_default_concurrency(server: Serve) -> None:
    """Each origin would need its own number. An origin that is alone again gets one."""
    one, other = (server(synthetic=400, delay=(0.05, 0.05)) for _ in range(2))
    mixed = (url for pair in zip(urls_of(one, range(400)), urls_of(other, range(400)), strict=True) for url in pair)

    with fetchmill.Client(concurrency="auto") as client:
        numbers = set()
        for given, reply in enumerate(client.stream(mixed)):
            assert reply.status == 200, reply
            if given >= 100:
                numbers.add(client.concurrency)
        assert numbers == {USUAL}
        alone = [client.concurrency for reply in client.stream(urls_of(one, range(400))) if reply.ok]
    assert len(alone) == 400
    assert FIRST in alone


def test_throttled_stream_returns_no_refused_replies(server: Serve) -> None:
    """The origin's pace limits the stream, and refused requests are repeated."""
    served = server(synthetic=1000, faults=[Fault("status", status=429, above=300)])

    with fetchmill.Client(concurrency="auto", attempts=2) as client:
        assert are_right(client.stream(urls_of(served, range(1000))), 1000)


def test_stream_concurrency_does_not_rise_for_slow_consumer(server: Serve) -> None:
    """A loop that takes 5 ms per reply needs one request in flight: the number does not grow."""
    served = server(synthetic=300)

    with fetchmill.Client(concurrency="auto") as client:
        for reply in client.stream(urls_of(served, range(300))):
            assert reply.status == 200
            time.sleep(0.005)
        assert client.concurrency == FIRST


def test_abandoned_stream_resumes_with_each_item_once(server: Serve, tmp_path: Path) -> None:
    """Items that a stream took at a higher number are kept in addition to new ones."""
    served = server(synthetic=2000, delay=(0.1, 0.1))
    options: Any = {"concurrency": "auto", "state": tmp_path / "state"}
    done = set()

    with fetchmill.stream(urls_of(served, range(2000)), **options) as replies:
        for reply in replies:
            done.add(reply.index)
            if len(done) == 1200:
                break
    left = [reply.index for reply in fetchmill.stream(urls_of(served, range(2000)), **options)]

    assert len(left) == len(set(left))
    assert done | set(left) == set(range(2000))
    # The item at which the loop was left is not finished.
    assert len(done & set(left)) <= 1
