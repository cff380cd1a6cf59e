"""An origin that refuses requests above its rate: SlowDown is congestion, not failure."""

import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engines import engine_options
from fetchmill.testing import Fault, Server

# The server's objects per second, by engine: at most a tenth of what the engine could fetch.
RATES = {"native": 1000, "threads": 200, "processes": 100}
SETTLED_AFTER = 3.0  # seconds
MEASURED_FOR = 3.0
LOG = logging.getLogger(__name__)


def replies(server: Server) -> tuple[float, int, int]:
    """Returns the time, the number of requests for objects, and how many were refused."""
    stats = server.stats()
    return time.monotonic(), stats["get"], stats["faults"].get("status", 0)


@pytest.mark.sampled(3)
@pytest.mark.timing
@pytest.mark.parametrize("engine", RATES)
@pytest.mark.parametrize("status", [503, 429])
def test_throttled_origin_is_used_near_its_rate(
    server: Callable[..., Server], start: Callable[..., Any], tmp_path: Path, engine: str, status: int
) -> None:
    """In one of four windows after a few seconds, the rate is at least half, and at most a tenth is refused."""
    rate = RATES[engine]
    served = server(synthetic=100_000, faults=[Fault("status", status=status, above=rate)])
    limit = ("--concurrency", "4" if engine == "processes" else "32")
    command = start("get", served.url, tmp_path / "out", "--format", "null", *limit, *engine_options(engine))
    while replies(served)[2] == 0:
        assert command.poll() is None, command.communicate()
        time.sleep(0.01)

    time.sleep(SETTLED_AFTER)
    # A first pace that was measured while the machine was busy takes some more seconds to grow.
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


def test_throttled_job_ends_promptly_and_complete(
    server: Callable[..., Server], run: Callable[..., Any], tmp_path: Path
) -> None:
    """Refusals do not count as attempts, and the last refused targets do not delay the job."""
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
def test_origin_sending_retry_after_is_used_near_its_rate(
    server: Callable[..., Server], start: Callable[..., Any], tmp_path: Path, seconds: int
) -> None:
    """`Retry-After` applies to the refused target only. One of three windows after the tenth second is enough."""
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
def test_resumed_job_starts_at_known_pace(
    server: Callable[..., Server], start: Callable[..., Any], tmp_path: Path
) -> None:
    """After a kill, at most a tenth of the requests is refused."""
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
    # Finding a first pace costs hundreds of refusals.
    assert refused <= 0.1 * asked
