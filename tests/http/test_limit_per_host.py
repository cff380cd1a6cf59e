"""`--limit-per-host` for a list that leads to only one host, without another limit."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from conftest import Ended
from observed_host import Observed, serving_hosts

Run = Callable[..., Ended]


@pytest.fixture
def host() -> Iterator[Observed]:
    """Serves one host."""
    with serving_hosts(["127.0.0.1"]) as hosts:
        yield hosts[0]


@pytest.mark.parametrize("options", [(), ("-j", "8"), ("--engine", "asyncio"), ("--engine", "threads")], ids=" ".join)
@pytest.mark.parametrize("limit", [1, 3])
def test_limit_per_host_is_reached_by_only_host(
    limit: int, options: tuple[str, ...], host: Observed, run: Run, tmp_path: Path
) -> None:
    """The number of requests in flight reaches the limit and never exceeds it, whatever the other options are."""
    (tmp_path / "urls.txt").write_text("".join(f"{host.url}/{number}\n" for number in range(60)))

    ended = run("get", "urls.txt", "out", "--allow-private", "--limit-per-host", str(limit), *options)

    assert (ended.code, host.most_in_flight) == (0, limit), ended.err
