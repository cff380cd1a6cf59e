"""A request that is far slower than others is repeated on a fresh connection, and its bytes are right."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fetchmill
from fetchmill.testing import Fault, Server
from independent import synthetic
from raw_server import Behaviour, Exchange, RawServer, reply, then_stall
from stored import find_wrong

Serve = Callable[..., Server]
# The options wait longer than any test: without the rule, no job here would end in time.
PATIENT: dict[str, Any] = {"head_timeout": 600, "idle_timeout": 600, "total_timeout": 600}
OBJECTS = 3000
# Bytes before the reply stalls: none, a part of the head, or all but the last byte. The body has 100 bytes.
STALLS = {"no-reply": 0, "half-a-head": 20, "last-byte": -1}
# If a request asks the server to end its connection, a short reply is truncated instead of hung, which costs an
# attempt.
ATTEMPTS = {"no-reply": 1, "half-a-head": 1, "last-byte": 2}


def stalling(server: Serve, after: int) -> Server:
    """About 15 of 3,000 objects stall on their first request."""
    if after < 0:
        # One byte less than announced is sent: the server waits for another request.
        return server(synthetic=OBJECTS, faults=[Fault("wrong-length", rate=0.005, times=1, delta=1)])
    return server(synthetic=OBJECTS, faults=[Fault("stall", rate=0.005, times=1, after_bytes=after, seconds=600)])


@pytest.mark.parametrize("stall", STALLS)
def test_job_does_not_wait_for_hung_requests(server: Serve, dest: Path, stall: str) -> None:
    """Each object is stored once, and hung requests do not count as attempts."""
    served = stalling(server, STALLS[stall])

    report = fetchmill.get(served.url, dest, format="parquet", concurrency=16, attempts=ATTEMPTS[stall], **PATIENT)

    assert (report.fetched, report.failed) == (OBJECTS, 0)
    assert sum(served.stats()["faults"].values()) > 0
    assert not fetchmill.verify(dest).findings
    assert not find_wrong(dest, "parquet", dict(synthetic(OBJECTS).bodies))


@pytest.mark.parametrize("stall", STALLS)
def test_stream_does_not_wait_for_hung_requests(server: Serve, stall: str) -> None:
    """The stream stays fast although some of its requests hang."""
    served = stalling(server, STALLS[stall])
    bodies = {f"{served.url}/get/{name}": body for name, body in synthetic(OBJECTS).bodies.items()}

    replies = list(fetchmill.stream(bodies, concurrency=16, attempts=ATTEMPTS[stall], **PATIENT))

    assert sum(served.stats()["faults"].values()) > 0
    assert {reply.url: bytes(reply.body) for reply in replies} == bodies


def hangs_on_new_connections(exchange: Exchange) -> bytes | None:
    """Does not answer the first request, nor the first request of any connection."""
    if exchange.number == 1 or exchange.turn == 1:
        exchange.stall()
        return None
    return reply(b"late")


@pytest.mark.parametrize("position", [300, 600])
def test_second_repeat_of_hung_request_uses_proven_connection(dest: Path, position: int) -> None:
    """No new connection is answered, in the middle or at the end of a job. The object still arrives."""
    plain = [f"/{number}" for number in range(600)]
    routes: dict[str, Behaviour] = {**dict.fromkeys(plain, reply(b"ok")), "/hangs": hangs_on_new_connections}
    with RawServer(routes) as server:
        urls = [f"{server.url}{path}" for path in [*plain[:position], "/hangs", *plain[position:]]]
        report = fetchmill.get(urls, dest, format="parquet", concurrency=8, attempts=1)
        asked = server.count("/hangs")

    assert (report.fetched, report.failed, asked) == (601, 0, 3)


def test_hung_post_is_not_repeated() -> None:
    """A request that writes has the full time of the options."""
    plain = {f"/{number}": reply(b"ok") for number in range(300)}
    with RawServer({**plain, "/hangs": then_stall(b"")}) as server:
        urls = [f"{server.url}{path}" for path in [*plain, "/hangs"]]
        requests = (fetchmill.Request(url, "POST") for url in urls)
        replies = list(fetchmill.stream(requests, concurrency=8, attempts=1, head_timeout=3))
        asked = server.count("/hangs")

    assert [reply.error.kind for reply in replies if reply.error] == ["head-timeout"]
    assert asked == 1
