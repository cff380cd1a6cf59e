"""Connections with held replies end or continue: replies are stored or requested again, and never mixed up.

The server knows the requests of a connection by their order: at limit 1, they come one after the other.
"""

import asyncio
import re
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import uvloop

import fetchmill
from engines import engine_keywords
from fetchmill.engines.answers import ReplyAnswer
from fetchmill.engines.http import held_answers
from fetchmill.engines.http.aiohttp_internals import HoldingConnection
from fetchmill.engines.http.held_answers import HeldAnswers, OriginReplies
from fetchmill.engines.http.held_connections import HeldConnections
from fetchmill.testing import Server
from raw_server import Behaviour, Exchange, RawServer, get_target, mirror, page, reply
from stored import read_objects

Raw = Callable[..., RawServer]
Run = Callable[..., Any]
Serve = Callable[..., Server]
Ending = Callable[[Exchange, bytes], None]

NAMES = [f"name-{number}" for number in range(12)]
# The reply to a connection's third request ends it.
LAST_TURN = 3
STRAY = reply(b"stray")
# Larger than a library's read, so that its last bytes come separately.
LARGE = 100_000
REST_SECONDS = 0.05

engines = pytest.mark.parametrize("engine", ["native", "threads", "asyncio"])


def fetched(server: RawServer, dest: Path, engine: str) -> dict[str, bytes]:
    """Fetches with one connection at a time."""
    report = fetchmill.get(server.url, dest, format="jsonl", limit=1, **engine_keywords(engine))
    assert (report.listed, report.fetched, report.doubtful) == (len(NAMES), len(NAMES), ())
    return dict(read_objects(dest, "jsonl"))


def ending_with(end: Ending, size: int = 0) -> dict[str, Behaviour]:
    """Returns routes of objects whose bodies are their names, padded to a size.

    The third reply of each connection is sent by `end`.
    """

    def behaviour(name: str) -> Behaviour:
        body = name.encode().ljust(size, b".")

        def behave(exchange: Exchange) -> None:
            if exchange.turn == LAST_TURN:
                end(exchange, body)
            else:
                exchange.send(reply(body))

        return behave

    return mirror(NAMES, {name: behaviour(name) for name in NAMES})


def close(exchange: Exchange, body: bytes) -> None:
    """Announces the end, like servers that end a connection after a number of requests."""
    exchange.send(reply(body, "Connection: close"))
    exchange.close()


def close_unsaid(exchange: Exchange, body: bytes) -> None:
    """Closes without notice, when the next request may already be on its way."""
    exchange.send(reply(body))
    exchange.close()


def close_late(exchange: Exchange, body: bytes) -> None:
    """Announces the end, and closes some time after the reply."""
    exchange.send(reply(body, "Connection: close"), b"", pause=0.03)
    exchange.close()


@engines
@pytest.mark.parametrize("end", [close, close_late])
def test_held_replies_are_certain_when_server_ends_connection(
    raw: Raw, tmp_path: Path, engine: str, end: Ending
) -> None:
    """There are as many replies as requests, and nothing is requested twice."""
    server = raw(ending_with(end))

    assert fetched(server, tmp_path / "out", engine) == {name: name.encode() for name in NAMES}
    assert sorted(server.asked()) == sorted(get_target(name) for name in NAMES)


@engines
def test_unannounced_connection_end_loses_no_replies(raw: Raw, tmp_path: Path, engine: str) -> None:
    """The connection may end before or after the next request is sent."""
    server = raw(ending_with(close_unsaid))

    assert fetched(server, tmp_path / "out", engine) == {name: name.encode() for name in NAMES}


@engines
def test_held_replies_are_refetched_when_connection_breaks(raw: Raw, tmp_path: Path, engine: str) -> None:
    """If the third reply never comes, the second one cannot be matched to its own request."""
    broken: list[int] = []

    def reset(exchange: Exchange, body: bytes) -> None:
        if len(broken) < 2:
            broken.append(exchange.turn)
            exchange.reset()
        else:
            exchange.send(reply(body))

    server = raw(ending_with(reset))

    assert fetched(server, tmp_path / "out", engine) == {name: name.encode() for name in NAMES}
    # The reset request and the one before it are sent twice.
    assert len(server.asked()) >= len(NAMES) + 2


@engines
@pytest.mark.parametrize("size", [0, LARGE])
@pytest.mark.parametrize("pieces", ["whole", "in halves", "before the end"])
def test_unsolicited_response_drops_held_replies(raw: Raw, tmp_path: Path, engine: str, size: int, pieces: str) -> None:
    """The response comes in one piece with the last reply, in two parts, or just before the connection ends."""
    strays: list[int] = []

    def end(exchange: Exchange, body: bytes) -> None:
        if strays:
            exchange.send(reply(body))
            return
        strays.append(exchange.turn)
        if pieces == "before the end":
            exchange.send(reply(body, "Connection: close") + STRAY)
            exchange.close()
        elif pieces == "whole":
            exchange.send(reply(body) + STRAY)
        else:
            exchange.send(reply(body) + STRAY[:20], STRAY[20:], pause=0.02)

    server = raw(ending_with(end, size))

    assert fetched(server, tmp_path / "out", engine) == {name: name.encode().ljust(size, b".") for name in NAMES}
    assert len(server.asked()) > len(NAMES)


@engines
def test_bytes_after_last_reply_make_held_replies_doubtful(raw: Raw, tmp_path: Path, engine: str) -> None:
    """Even bytes that are not a reply make the held replies doubtful."""
    sent: list[int] = []

    def last(exchange: Exchange) -> None:
        if sent:
            exchange.send(reply(NAMES[-1].encode()))
        else:
            sent.append(exchange.turn)
            exchange.send(reply(NAMES[-1].encode()), b"\0\0\0\0", pause=0.005)

    server = raw(mirror(NAMES, {name: reply(name.encode()) for name in NAMES[:-1]} | {NAMES[-1]: last}))

    assert fetched(server, tmp_path / "out", engine) == {name: name.encode() for name in NAMES}
    assert server.asked().count(get_target(NAMES[-1])) == 2


@pytest.mark.timing
def test_rested_connections_are_reused(run: Run, server: Serve, dest: Path) -> None:
    """Up to 1,000 requests are in flight. Half as many connections rest meanwhile, and are used next."""
    limit = 1000
    source = server(synthetic=10_000, delay=(0.2, 0.2))
    open_at_once: list[int] = []
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(0.02):
            stats = source.stats()
            open_at_once.append(stats["connections"] - stats["connections_closed"])

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        job = run("get", source.url, dest, "--format", "null", "--concurrency", limit, "--threads", 1)
    finally:
        ended.set()
        watcher.join()

    assert job.code == 0, job.err
    # Pages have their own connections, up to 17.
    assert limit < max(open_at_once) <= limit + limit // 2 + 17
    # A thread that waits for a processor closes some that rest for more than a second, and opens others later.
    assert source.stats()["connections"] <= 2 * limit


@pytest.mark.timing
@engines
def test_late_reply_after_announced_close_is_detected(raw: Raw, tmp_path: Path, engine: str) -> None:
    """The third reply announces the end but belongs to the second request. The right one comes later than usual."""
    own: list[bytes] = []
    strays: list[int] = []

    def behaviour(name: str) -> Behaviour:
        def behave(exchange: Exchange) -> None:
            if exchange.turn == LAST_TURN - 1 and not own:
                own.append(reply(name.encode(), "Connection: close"))
                exchange.send(STRAY)
            elif exchange.turn == LAST_TURN and not strays:
                strays.append(exchange.turn)
                exchange.send(own[0], reply(name.encode()), pause=0.15)
                exchange.close()
            else:
                exchange.send(reply(name.encode()))

        return behave

    server = raw(mirror(NAMES, {name: behaviour(name) for name in NAMES}))

    assert fetched(server, tmp_path / "out", engine) == {name: name.encode() for name in NAMES}
    assert strays


@pytest.mark.parametrize("engine", ["asyncio", "combo"])
def test_server_ignoring_connection_close_gets_few_repeats(raw: Raw, tmp_path: Path, engine: str) -> None:
    """After an unsolicited response, replies become certain when their connection stays silent."""
    names = [f"o{number:05}" for number in range(400)]
    strays: list[str] = []

    def behaviour(name: str) -> Behaviour:
        def behave(exchange: Exchange) -> None:
            time.sleep(0.003)
            exchange.send(reply(name.encode()))
            if name == names[5] and not strays:
                strays.append(name)
                time.sleep(0.001)
                exchange.send(STRAY)

        return behave

    server = raw(mirror(names, {name: behaviour(name) for name in names}))
    report = fetchmill.get(server.url, tmp_path / "out", format="jsonl", limit=8, **engine_keywords(engine))
    assert report.fetched == len(names)
    assert dict(read_objects(tmp_path / "out", "jsonl")) == {name: name.encode() for name in names}
    asked = server.asked()
    assert strays
    assert len(asked) <= 2 * len(names)
    assert max(asked.count(f"/get/{name}") for name in names) <= 4


def test_resting_connections_are_bounded_when_listing_is_slow(raw: Raw, tmp_path: Path) -> None:
    """One slow reply makes each rest long, and a task that waits for the listing releases its connection."""
    limit, pages, at_first = 2, 50, 100
    names = [["slow", *(f"first-{number}" for number in range(at_first))]]
    names += [[f"name-{number}-{part}" for part in range(4)] for number in range(1, pages)]

    def list_page(exchange: Exchange) -> bytes:
        marker = re.search(r"marker=(\d+)", exchange.target)
        number = int(marker[1]) if marker else 0
        time.sleep(0.04)
        return page(names[number], str(number + 1) if number + 1 < pages else None)

    def slow(_exchange: Exchange) -> bytes:
        time.sleep(0.8)
        return reply(b"slow")

    every = [name for one in names for name in one]
    server = raw(mirror(every, {"slow": slow}) | {"/list": list_page})

    report = fetchmill.get(server.url, tmp_path / "out", format="jsonl", limit=limit, threads=1)

    assert (report.listed, report.fetched, report.doubtful) == (len(every), len(every), ())
    assert dict(read_objects(tmp_path / "out", "jsonl")) == {name: name.encode() for name in every}
    # The tasks' connections, half as many resting ones, and those of the listing, whose pages also use rested ones.
    assert server.most_open <= limit + limit // 2 + 6


def test_rest_detects_unsolicited_response_during_thread_stall(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine, a thread may pause for a second between two lines, and the response may arrive meanwhile."""
    ours, theirs = socket.socketpair()
    now = [0.0]

    def look_and_sleep(connection: socket.socket) -> held_answers.Unused:
        found = look(connection)
        if now[0] == 0.0:
            now[0] = 1.0
            theirs.sendall(STRAY)
        return found

    look = held_answers.look
    monkeypatch.setattr(held_answers, "look", look_and_sleep)
    monkeypatch.setattr("fetchmill.engines.http.held_answers.time.monotonic", lambda: now[0])
    with ours, theirs:
        assert held_answers.rest(ours, 0.05) is held_answers.Unused.SURPLUS


def test_event_loop_rest_does_not_end_early() -> None:
    """A uvloop timer fires up to a millisecond early, and an unsolicited response in that time would be missed."""

    async def rests() -> list[float]:
        connections = HeldConnections(1, OriginReplies(), Mock(spec=["limit"], limit=1))
        took = []
        for number in range(20):
            connection = HoldingConnection(asyncio.get_running_loop(), connections)
            # This is between two whole milliseconds.
            time.sleep(number * 0.0002)  # noqa: ASYNC251 - the loop sleeps to whole ones
            began = time.monotonic()
            await connections.rest(connection, REST_SECONDS)
            took.append(time.monotonic() - began)
        await connections.close()
        return took

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert min(runner.run(rests())) >= REST_SECONDS


def test_rest_is_not_extended_beyond_maximum() -> None:
    """Replies that wait for memory are slow.

    If held replies rested for twice that time, memory would never be freed.
    """
    held = HeldAnswers(OriginReplies())
    for _ in range(2):
        held.add(Mock(), ReplyAnswer(0, 200, b"", is_verified=True), time.monotonic() - 30)

    assert held.silence(0) >= 60
    assert held.longer_rest(REST_SECONDS, 30) == 1
    assert held.longer_rest(2, 0) == 2


def test_idle_connection_rests_while_other_requests_are_slow(raw: Raw, tmp_path: Path) -> None:
    """The first replies of an origin were fast: only requests in flight show that the missing reply may be slow."""
    fast, *slow, shifted = NAMES[:5]
    strays: list[int] = []

    def stray_then_own(exchange: Exchange) -> None:
        pieces = [reply(shifted.encode())]
        # On a busy machine, the first reply may have been slow, so that its connection rests.
        if exchange.turn > 1:
            strays.append(exchange.turn)
            pieces.insert(0, STRAY)
        exchange.send(*pieces, pause=0.2)

    def behind_it(name: str) -> Behaviour:
        return lambda exchange: exchange.send(b"", reply(name.encode()), pause=0.4)

    scripted: dict[str, Behaviour] = {name: behind_it(name) for name in slow}
    server = raw(mirror(NAMES[:5], scripted | {shifted: stray_then_own}))

    report = fetchmill.get(server.url, tmp_path / "out", format="jsonl", limit=4, engine="asyncio")

    assert (report.listed, report.fetched) == (5, 5)
    assert server.asked().count(get_target(shifted)) > len(strays)
    assert dict(read_objects(tmp_path / "out", "jsonl")) == {name: name.encode() for name in (fast, *slow, shifted)}
