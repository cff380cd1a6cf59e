"""An origin that refuses what is above its rate: SlowDown is congestion, not failure."""

import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engines import engine_options
from fetchmill.testing import Fault, Server

# Objects a second that the server gives, by engine: a tenth or less of what it could fetch.
RATES = {"native": 1000, "threads": 200, "processes": 100}
SETTLED_AFTER = 3.0  # seconds
MEASURED_FOR = 3.0
LOG = logging.getLogger(__name__)


def replies(server: Server) -> tuple[float, int, int]:
    """When, how many requests for objects there were, and how many of them were refused."""
    stats = server.stats()
    return time.monotonic(), stats["get"], stats["faults"].get("status", 0)


@pytest.mark.sampled(3)
@pytest.mark.timing
@pytest.mark.parametrize("engine", RATES)
@pytest.mark.parametrize("status", [503, 429])
def test_goodput_is_near_the_rate_and_little_is_refused(
    server: Callable[..., Server], start: Callable[..., Any], tmp_path: Path, engine: str, status: int
) -> None:
    """Half of the rate and at most a tenth refused, in one of the first seconds: four windows of three."""
    rate = RATES[engine]
    served = server(synthetic=100_000, faults=[Fault("status", status=status, above=rate)])
    limit = ("--concurrency", "4" if engine == "processes" else "32")
    command = start("get", served.url, tmp_path / "out", "--format", "null", *limit, *engine_options(engine))
    while replies(served)[2] == 0:
        assert command.poll() is None, command.communicate()
        time.sleep(0.01)

    time.sleep(SETTLED_AFTER)
    # A first pace that was measured while the machine was busy takes some seconds more to grow.
    for _ in range(4):
        before = replies(served)
        time.sleep(MEASURED_FOR)
        after = replies(served)
        seconds, asked, refused = (then - now for now, then in zip(before, after, strict=True))
        goodput = (asked - refused) / seconds
        figures = f"{engine}, {status}: {goodput:.0f} of {rate} a second, {refused} of {asked} refused"
        LOG.info(figures)
        if goodput >= 0.5 * rate and refused <= 0.1 * asked:
            return
    pytest.fail(figures)


def test_a_job_that_was_throttled_ends_soon_and_complete(
    server: Callable[..., Server], run: Callable[..., Any], tmp_path: Path
) -> None:
    """Refusals use up no attempts, and the last refused targets do not make the job wait."""
    served = server(synthetic=2000, faults=[Fault("status", status=503, above=1000)])

    began = time.monotonic()
    ended = run("get", served.url, tmp_path / "out", "--format", "null", "--attempts", "1", "--concurrency", "64")
    seconds = time.monotonic() - began

    refused = served.stats()["faults"]["status"]
    LOG.info("%.1f s for 2,000 objects at 1,000 a second, %d refused", seconds, refused)
    assert ended.code == 0, ended.err
    assert served.stats()["get"] == 2000 + refused
    assert refused > 0
    assert seconds < 20


@pytest.mark.sampled(1)
@pytest.mark.timing
@pytest.mark.parametrize("seconds", [1, 30])
def test_an_origin_that_asks_for_patience_is_used_as_much(
    server: Callable[..., Server], start: Callable[..., Any], tmp_path: Path, seconds: int
) -> None:
    """`Retry-After` is for the target that was refused. In one of three windows, from the tenth second on."""
    rate = 200
    served = server(synthetic=100_000, faults=[Fault("status", status=429, above=rate, retry_after=seconds)])
    command = start("get", served.url, tmp_path / "out", "--format", "null")
    while replies(served)[2] == 0:
        assert command.poll() is None, command.communicate()
        time.sleep(0.01)

    time.sleep(10)
    for _ in range(3):
        before = replies(served)
        time.sleep(5)
        after = replies(served)
        elapsed, asked, refused = (then - now for now, then in zip(before, after, strict=True))
        goodput = (asked - refused) / elapsed
        figures = f"Retry-After {seconds}: {goodput:.0f} of {rate} a second, {refused} of {asked} refused"
        LOG.info(figures)
        if goodput >= 0.9 * rate and refused <= 0.05 * asked:
            return
    pytest.fail(figures)


@pytest.mark.timing
def test_a_job_that_is_resumed_begins_with_the_pace_that_was_found(
    server: Callable[..., Server], start: Callable[..., Any], tmp_path: Path
) -> None:
    """Killed and resumed, it is refused no more than it was at the end."""
    served = server(synthetic=100_000, faults=[Fault("status", status=429, above=300, retry_after=(1, 1))])
    arguments = ("get", served.url, tmp_path / "out", "--format", "null")
    command = start(*arguments)
    time.sleep(6)
    command.kill()
    command.communicate()

    before = replies(served)
    command = start(*arguments)
    while replies(served)[1] == before[1]:
        assert command.poll() is None, command.communicate()
        time.sleep(0.01)
    time.sleep(2)
    asked, refused = (then - now for now, then in zip(before[1:], replies(served)[1:], strict=True))

    LOG.info("%d of %d refused in the first two seconds", refused, asked)
    assert asked > 200
    # A first pace that must be found costs hundreds.
    assert refused <= 0.1 * asked
