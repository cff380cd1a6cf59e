"""The public interface of `fetchmill.bounded`, and its small parts that need no clock."""

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


def test_public_names_are_exported_and_documented() -> None:
    """`__all__`, `dir()`, the module and the page agree."""
    page = PAGE.read_text()

    assert dir(bounded) == sorted(bounded.__all__)
    for name in bounded.__all__:
        assert (getattr(bounded, name).__doc__ or "").strip(), name
        assert f"`{name}" in page or f"bounded.{name}" in page, name
    with pytest.raises(AttributeError, match="no attribute 'gather'"):
        _ = bounded.gather


@pytest.mark.parametrize("name", ["each", "map"])
def test_tasks_threads_and_processes_share_signatures(name: str) -> None:
    """Chunks are the exception, because tasks do not have them."""
    signatures = [inspect.signature(getattr(module, name)) for module in (bounded, bounded.threads, bounded.processes)]
    options = [
        {key: (value.kind, value.default) for key, value in signature.parameters.items() if key != "chunksize"}
        for signature in signatures
    ]

    assert options[0] == options[1] == options[2]


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples_run(name: str) -> None:
    """The examples run unchanged."""
    failed, _ = doctest.testmod(importlib.import_module(name))

    assert failed == 0


def test_each_function_has_docstring_example() -> None:
    """This includes the class `TaskPool`, and the functions for threads and processes."""
    functions = [bounded.as_completed, bounded.TaskPool, bounded.each, bounded.map]
    functions += [getattr(module, name) for module in (bounded.threads, bounded.processes) for name in ("each", "map")]

    assert [function for function in functions if ">>> " not in (function.__doc__ or "")] == []


def test_guide_page_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each example runs separately."""
    monkeypatch.chdir(tmp_path)
    examples = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)

    assert len(examples) >= 4
    for example in examples:
        exec(compile(example, "docs/guide/bounded.md", "exec"), {"__name__": "example"})  # noqa: S102 - our own page


def test_pace_is_even_and_compensates_delays() -> None:
    """Delays are compensated up to the slack."""
    rate_limiter = RateLimiter(10)

    assert [round(rate_limiter.reserve(0.0), 3) for _ in range(3)] == [0, 0.1, 0.2]
    assert round(rate_limiter.reserve(0.31), 3) == 0
    assert round(rate_limiter.reserve(0.31), 3) == 0.09
    assert round(rate_limiter.reserve(60.0), 3) == 0
    assert round(rate_limiter.reserve(60.0), 3) == 0.08


@pytest.mark.parametrize("rate", [0, -1, float("nan"), float("inf")])
def test_rate_must_be_number_above_zero(rate: float) -> None:
    """With other values, items would never begin, or never wait."""
    with pytest.raises(ValueError, match="must be a number of items per second above 0"):
        RateLimiter(rate)


def test_worker_starts_when_more_items_wait_than_workers_idle() -> None:
    """The number of workers stays within the limit."""
    scaler = Scaler(4, is_slow=False, is_paced=False)

    assert scaler.scale_up(3, is_ended=False) == 3
    assert scaler.scale_up(3, is_ended=False) == 0
    scaler.on_started(0)
    assert scaler.scale_up(9, is_ended=False) == 1
    scaler.on_taken()
    scaler.on_call_done(0)
    scaler.on_left()
    assert scaler.scale_up(9, is_ended=False) == 1


def test_slow_worker_starts_double_with_ready_workers() -> None:
    """One worker starts first, then twice as many each time."""
    scaler = Scaler(100, is_slow=True, is_paced=False)
    begun = []

    for _ in range(6):
        begun.append(scaler.scale_up(200, is_ended=False))
        for _started in range(begun[-1]):
            scaler.on_started(0.05)
            scaler.on_taken()

    assert begun == [1, 2, 4, 8, 16, 32]


def test_slow_worker_is_not_started_too_late_to_help() -> None:
    """Once the input has ended, workers start only if enough items are left for them."""
    scaler = Scaler(100, is_slow=True, is_paced=False)
    scaler.scale_up(100, is_ended=True)
    scaler.on_started(0.05)
    scaler.on_taken()
    scaler.on_call_done(0.001)
    scaler.on_taken()

    assert scaler.scale_up(90, is_ended=True) == 0
    assert scaler.scale_up(110, is_ended=True) > 0


def test_one_idle_worker_is_enough_when_rate_is_set() -> None:
    """The number of waiting items makes no difference."""
    scaler = Scaler(100, is_slow=False, is_paced=True)

    assert scaler.scale_up(50, is_ended=False) == 1
    scaler.on_started(0)
    assert scaler.scale_up(50, is_ended=False) == 0
    scaler.on_taken()
    assert scaler.scale_up(50, is_ended=False) == 1


def test_result_buffer_returns_calls_in_requested_order() -> None:
    """The order is that of the call numbers, or that of arrival."""
    for ordered, expected in ((True, [0, 1, 2]), (False, [2, 0, 1])):
        buffer = ResultBuffer(ordered=ordered)
        for number in (2, 0, 1):
            buffer.add(Call(number, (number,)))
        assert [call.number for call in iter(buffer.take, None)] == expected


def test_long_item_is_truncated_in_messages() -> None:
    """A long item, such as a body, is truncated in messages."""
    assert format_item("short") == "'short'"
    assert len(format_item("x" * 5000)) == 203
