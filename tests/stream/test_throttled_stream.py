"""Streams from an origin that refuses requests above its rate: they find the rate, as a job does."""

import itertools
import logging
import time
from collections.abc import Callable, Iterable

import pytest

import fetchmill
from fetchmill.testing import Fault, Server

Serve = Callable[..., Server]

RATE = 200  # objects per second
LOG = logging.getLogger(__name__)


def urls(server: Server, numbers: Iterable[int]) -> Iterable[str]:
    """Returns the URLs of a synthetic server's objects."""
    return (f"{server.url}/get/file-{number:012d}" for number in numbers)


def refusals(server: Server) -> int:
    """Returns the number of requests refused so far."""
    return int(server.stats()["faults"].get("status", 0))


def is_near_the_rate(before: tuple[float, int, int], after: tuple[float, int, int]) -> bool:
    """Returns whether nine tenths of the rate were reached and at most one in twenty requests was refused."""
    seconds, given, refused = (then - now for now, then in zip(before, after, strict=True))
    LOG.info("%.0f of %d a second, %d refused", given / seconds, RATE, refused)
    return given >= 0.9 * RATE * seconds and refused <= 0.05 * (given + refused)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("retry_after", [None, 1])
@pytest.mark.parametrize("status", [503, 429])
def test_throttling_replies_are_hidden_from_program(server: Serve, status: int, retry_after: int | None) -> None:
    """Refused requests are repeated in their turn."""
    served = server(synthetic=1000, faults=[Fault("status", status=status, above=RATE, retry_after=retry_after)])

    replies = list(fetchmill.stream(urls(served, range(1000)), attempts=2))

    assert {reply.status for reply in replies} == {200}
    assert sorted(reply.index for reply in replies) == list(range(1000))
    assert refusals(served) > 0


def test_endless_refusals_are_returned(server: Serve) -> None:
    """If the origin refuses everything, the program gets the refusal and does not wait."""
    served = server(synthetic=10, faults=[Fault("status", status=429)])

    replies = list(fetchmill.stream(urls(served, range(10)), attempts=2))

    assert {reply.status for reply in replies} == {429}
    assert served.stats()["get"] == 20


@pytest.mark.timing
@pytest.mark.parametrize("retry_after", [None, 1, 30])
def test_stream_goodput_is_near_rate_with_few_refusals(server: Serve, retry_after: int | None) -> None:
    """A single window of three is enough, because a busy machine may send fewer requests. They begin after 10 s."""
    served = server(synthetic=100_000, faults=[Fault("status", status=429, above=RATE, retry_after=retry_after)])
    began = time.monotonic()
    seen: list[tuple[float, int, int]] = []

    with fetchmill.stream(urls(served, itertools.count())) as replies:
        for given, reply in enumerate(replies):
            assert reply.status == 200, reply
            if time.monotonic() < began + 10 + 5 * len(seen):
                continue
            seen.append((time.monotonic(), given, refusals(served)))
            if len(seen) > 1 and is_near_the_rate(*seen[-2:]):
                return
            if len(seen) > 3:
                break
    pytest.fail(f"Retry-After {retry_after}, seconds, replies and refusals: {seen}")
