"""The surface of `fetchmill.bounded`: names, docs and consistent signatures; and its small parts that need no clock."""

import doctest
import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import pytest

from fetchmill import bounded
from fetchmill.bounded.calls import Call, ResultBuffer
from fetchmill.bounded.failures import format_item
from fetchmill.bounded.rate_limit import RateLimiter
from fetchmill.bounded.scaling import Scaler

MODULES = [f"fetchmill.bounded.{module.name}" for module in pkgutil.iter_modules(bounded.__path__)]
PAGE = Path(__file__).resolve().parents[2] / "docs" / "guide" / "bounded.md"


def test_every_public_name_is_there_and_documented() -> None:
    """`__all__`, `dir()`, the module and the page agree."""
    page = PAGE.read_text()

    assert dir(bounded) == sorted(bounded.__all__)
    for name in bounded.__all__:
        assert (getattr(bounded, name).__doc__ or "").strip(), name
        assert f"`{name}" in page or f"bounded.{name}" in page, name
    with pytest.raises(AttributeError, match="no attribute 'gather'"):
        _ = bounded.gather


@pytest.mark.parametrize("name", ["each", "map"])
def test_coroutines_threads_and_processes_have_the_same_signatures(name: str) -> None:
    """Chunks are the exception, because tasks do not have them."""
    signatures = [inspect.signature(getattr(module, name)) for module in (bounded, bounded.threads, bounded.processes)]
    options = [
        {key: (value.kind, value.default) for key, value in signature.parameters.items() if key != "chunksize"}
        for signature in signatures
    ]

    assert options[0] == options[1] == options[2]


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_run(name: str) -> None:
    """Examples in docstrings run unchanged."""
    failed, _ = doctest.testmod(importlib.import_module(name))

    assert failed == 0


def test_there_is_an_example_of_every_function() -> None:
    """Every function has an example in its docstring."""
    functions = [bounded.as_completed, bounded.TaskPool, bounded.each, bounded.map]
    functions += [getattr(module, name) for module in (bounded.threads, bounded.processes) for name in ("each", "map")]

    assert [function for function in functions if ">>> " not in (function.__doc__ or "")] == []


def test_examples_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each example runs separately."""
    monkeypatch.chdir(tmp_path)
    examples = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)

    assert len(examples) >= 4
    for example in examples:
        exec(compile(example, "docs/guide/bounded.md", "exec"), {"__name__": "example"})  # noqa: S102 - our own page


def test_a_pace_is_even_and_makes_up_for_late_moments() -> None:
    """Delays are made up for, up to the slack."""
    rate_limiter = RateLimiter(10)

    assert [round(rate_limiter.reserve(0.0), 3) for _ in range(3)] == [0, 0.1, 0.2]
    assert round(rate_limiter.reserve(0.31), 3) == 0
    assert round(rate_limiter.reserve(0.31), 3) == 0.09
    assert round(rate_limiter.reserve(60.0), 3) == 0
    assert round(rate_limiter.reserve(60.0), 3) == 0.08


@pytest.mark.parametrize("rate", [0, -1, float("nan"), float("inf")])
def test_a_rate_is_a_number_above_zero(rate: float) -> None:
    """With any other value, items would never begin, or never wait."""
    with pytest.raises(ValueError, match="must be a number of items per second above 0"):
        RateLimiter(rate)


def test_workers_are_hired_when_more_waits_than_are_idle() -> None:
    """Workers start when more items wait than workers are idle, up to the limit."""
    scaler = Scaler(4, is_slow=False, is_paced=False)

    assert scaler.scale_up(3, is_ended=False) == 3
    assert scaler.scale_up(3, is_ended=False) == 0
    scaler.on_started(0)
    assert scaler.scale_up(9, is_ended=False) == 1
    scaler.on_taken()
    scaler.on_call_done(0)
    scaler.on_left()
    assert scaler.scale_up(9, is_ended=False) == 1


def test_slow_starts_grow_with_those_that_are_ready() -> None:
    """One worker starts first, then twice as many each time."""
    scaler = Scaler(100, is_slow=True, is_paced=False)
    begun = []

    for _ in range(6):
        begun.append(scaler.scale_up(200, is_ended=False))
        for _started in range(begun[-1]):
            scaler.on_started(0.05)
            scaler.on_taken()

    assert begun == [1, 2, 4, 8, 16, 32]


def test_no_slow_start_is_made_that_comes_too_late() -> None:
    """No slow worker is started too late to help, once the input has ended."""
    scaler = Scaler(100, is_slow=True, is_paced=False)
    scaler.scale_up(100, is_ended=True)
    scaler.on_started(0.05)
    scaler.on_taken()
    scaler.on_call_done(0.001)
    scaler.on_taken()

    assert scaler.scale_up(90, is_ended=True) == 0
    assert scaler.scale_up(110, is_ended=True) > 0


def test_with_a_rate_one_idle_worker_is_enough() -> None:
    """With a rate, one idle worker is enough for any number of waiting items."""
    scaler = Scaler(100, is_slow=False, is_paced=True)

    assert scaler.scale_up(50, is_ended=False) == 1
    scaler.on_started(0)
    assert scaler.scale_up(50, is_ended=False) == 0
    scaler.on_taken()
    assert scaler.scale_up(50, is_ended=False) == 1


def test_calls_are_handed_over_by_their_numbers_if_that_is_asked_for() -> None:
    """Calls are handed over in the order of their numbers if requested, and otherwise as they arrive."""
    for ordered, expected in ((True, [0, 1, 2]), (False, [2, 0, 1])):
        buffer = ResultBuffer(ordered=ordered)
        for number in (2, 0, 1):
            buffer.add(Call(number, (number,)))
        assert [call.number for call in iter(buffer.take, None)] == expected


def test_a_long_item_is_cut_in_messages() -> None:
    """A long item, such as a body, is truncated in messages."""
    assert format_item("short") == "'short'"
    assert len(format_item("x" * 5000)) == 203
