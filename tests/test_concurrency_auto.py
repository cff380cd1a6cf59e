"""`--concurrency auto`: the number of requests in flight follows what proves useful, and all else stays as it is.

How well it does is the business of the simulated origins beside the code (planner/concurrency/tests.rs).
"""

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fetchmill
from engines import IN_PYTHON
from fetchmill.testing import Fault, Server
from independent import find_problems, synthetic
from test_space import low_descriptors

Run = Callable[..., Any]
Serve = Callable[..., Server]

LOG = logging.getLogger(__name__)
AUTO = ("--concurrency", "auto")
FIRST = 32


def connections_for(requests: int) -> int:
    """As many may be open: half as many rest, and the listing has two."""
    return requests + requests // 2 + 2


def most_in_flight(events: str) -> int:
    """As the progress of a job tells, which comes once a second."""
    return max((json.loads(line).get("in_flight") or 0 for line in events.splitlines()), default=0)


def test_a_slow_server_gets_more_at_once_than_it_began_with(run: Run, server: Serve, dest: Path) -> None:
    """Each reply takes 0.3 s whatever there is beside it: more at once is faster, and nothing gets lost."""
    served = server(synthetic=4000, delay=(0.3, 0.3))

    ended = run("get", served.url, dest, "-j", "auto")

    assert ended.code == 0, ended.err
    LOG.info("%d connections", served.stats()["connections"])
    assert served.stats()["connections"] > connections_for(4 * FIRST)
    assert find_problems(dest, synthetic(4000)) == []


def test_a_rate_is_not_taken_for_a_server_that_could_give_more(run: Run, server: Serve, dest: Path) -> None:
    """What waits for the job's own rate says nothing."""
    served = server(synthetic=600)

    ended = run("get", served.url, dest, *AUTO, "--rate", 200, "--json")

    assert ended.code == 0, ended.err
    assert most_in_flight(ended.out) <= FIRST


def test_a_throttled_origin_is_fetched_completely(run: Run, server: Serve, dest: Path) -> None:
    """Its pace is not read as latency, and refusals use up no attempts."""
    served = server(synthetic=1500, faults=[Fault("status", status=503, above=500)])

    ended = run("get", served.url, dest, *AUTO, "--attempts", 1)

    assert ended.code == 0, ended.err
    assert find_problems(dest, synthetic(1500)) == []


@pytest.mark.parametrize("count", [70, 90])
def test_few_descriptors_bound_it(run: Run, server: Serve, dest: Path, count: int) -> None:
    """It finds as many as they allow and runs into no other bound; nothing is lowered that was asked for."""
    served = server(synthetic=1000, delay=(0.05, 0.05))

    ended = run("get", served.url, dest, *AUTO, "--json", preexec_fn=low_descriptors(count))

    assert ended.code == 0, ended.err
    assert "lowered" not in ended.err
    assert 0 < most_in_flight(ended.out) < count // 2
    assert find_problems(dest, synthetic(1000)) == []


def test_a_job_goes_on_with_another_number(run: Run, server: Serve, dest: Path) -> None:
    """It identifies no job."""
    served = server(synthetic=300, faults=[Fault("status", status=500, rate=0.1, times=1)])
    assert run("get", served.url, dest, "-j", 4, "--attempts", 1).code == 3

    ended = run("get", served.url, dest, *AUTO, "--retry-failed")

    assert ended.code == 0, ended.err
    assert find_problems(dest, synthetic(300)) == []


def test_hosts_of_a_list_keep_their_bounds(run: Run, server: Serve, dest: Path, tmp_path: Path) -> None:
    """Each gets at most four requests at a time."""
    servers = [server(synthetic=60, delay=(0.2, 0.2)) for _ in range(2)]
    urls = tmp_path / "urls.txt"
    urls.write_text("".join(f"{each.url}/get/file-{number:012}\n" for number in range(60) for each in servers))

    ended = run("get", urls, dest, *AUTO, "--allow-private", "--limit-per-host", 4, "--json")

    assert ended.code == 0, ended.err
    assert most_in_flight(ended.out) <= 2 * 4


@pytest.mark.parametrize("engine", IN_PYTHON)
def test_engines_in_python_refuse_it(run: Run, dest: Path, engine: str) -> None:
    """In one line, before anything is made."""
    ended = run("get", "http://127.0.0.1:1", dest, *AUTO, "--engine", engine)

    assert ended.code == 2
    assert f"--concurrency auto needs --engine native: engine {engine} cannot do it" in ended.err
    assert not dest.exists()


def test_streams_refuse_it() -> None:
    """They have no planner yet."""
    with pytest.raises(fetchmill.UsageError, match="concurrency must be a number for streams, not auto"):
        next(iter(fetchmill.stream(["http://127.0.0.1:1/"], concurrency="auto")))
