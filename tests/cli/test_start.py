"""The imports of a command before it works: they determine the time of a short command."""

import dataclasses
import inspect
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fetchmill
from fetchmill.testing import Server

Run = Callable[..., Any]
Serve = Callable[..., Server]
LATENCY = {"p50": 0.1, "p90": 0.2, "p99": 0.3, "max": 0.4}
# Each of them takes 5 to 25 ms of CPU time.
HEAVY = {"aiohttp", "asyncio", "concurrent.futures", "http.server", "multiprocessing", "rich", "ssl", "urllib.request"}
REPORT_MODULES = """
import atexit, sys
atexit.register(lambda: print(*sorted(sys.modules), file=sys.stderr))
from fetchmill.__main__ import main
main()
"""


@pytest.mark.parametrize("words", [("--version",), ("get", "{url}", "out", "--quiet"), ("status", "out")])
def test_short_command_imports_no_heavy_modules(
    run: Run, server: Serve, environment: dict[str, str], tmp_path: Path, words: tuple[str, ...]
) -> None:
    """`--version`, a finished `get` and `status` load no event loop, TLS, HTTP or display code of Python."""
    source = server(synthetic=3)
    assert run("get", source.url, "out").code == 0
    command = [sys.executable, "-c", REPORT_MODULES, *(word.format(url=source.url) for word in words)]

    ended = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)

    assert HEAVY & set(ended.stderr.split()) == set()


def test_quick_dataclass_behaves_like_standard_dataclass() -> None:
    """Equality, hash, representation, pickles, `fields`, `asdict`, `replace` and the signature are the same."""
    value = fetchmill.Latency(**LATENCY)

    assert value == fetchmill.Latency(**LATENCY) != dataclasses.replace(value, max=9.0)
    assert hash(value) == hash(fetchmill.Latency(**LATENCY))
    assert repr(value) == "Latency(p50=0.1, p90=0.2, p99=0.3, max=0.4)"
    assert pickle.loads(pickle.dumps(value)) == value  # noqa: S301 - made here
    assert dataclasses.asdict(value) == LATENCY
    assert [field.name for field in dataclasses.fields(value)] == list(LATENCY)
    assert str(inspect.signature(fetchmill.Latency)) == "(*, p50: float, p90: float, p99: float, max: float)"
    assert inspect.signature(fetchmill.LimitedBy).parameters["share"].default is None


def test_quick_dataclass_refuses_wrong_keywords_and_changes() -> None:
    """The errors are those of a frozen dataclass."""
    value = fetchmill.Latency(**LATENCY)

    with pytest.raises(TypeError, match=r"Latency.__init__\(\) got an unexpected keyword argument 'p1'"):
        fetchmill.Latency(**LATENCY, p1=0.0)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"missing a required keyword-only argument: 'p90'"):
        fetchmill.Latency(p50=0.1)  # type: ignore[call-arg]
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'max'"):
        value.max = 1.0  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'max'"):
        del value.max
