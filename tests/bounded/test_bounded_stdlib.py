"""The standard library's own tests of `asyncio.as_completed` and `Executor.map`, run against `bounded`."""

import asyncio
import importlib
import sys
import threading
import unittest
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from concurrency import wait_for, workers
from fetchmill import bounded

pytestmark = pytest.mark.of_files("python/fetchmill/bounded")

# `scripts/install-stdlib-tests` puts the tests here if the interpreter has none.
UNPACKED = Path(__file__).resolve().parents[2] / "build" / "stdlib-tests" / "test"


def stdlib_tests(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Returns a module of the package `test`.

    A missing module is a failure, because the tests would otherwise prove nothing.
    """
    try:
        return importlib.import_module(f"test.{name}")
    except ModuleNotFoundError:
        if UNPACKED.is_dir():
            # Spawned processes also find it in this way.
            monkeypatch.setattr(sys, "path", [*sys.path, str(UNPACKED)])
            return importlib.import_module(name)
    pytest.fail(
        f"test.{name} is not installed with {sys.executable}: run scripts/install-stdlib-tests, "
        f"or unpack Lib/test of CPython's source to {UNPACKED}",
        pytrace=False,
    )


def run(cases: Iterable[unittest.TestCase]) -> int:
    """Runs the tests. Returns their number."""
    suite = unittest.TestSuite(cases)
    result = unittest.TestResult()
    suite.run(result)
    problems = [text for _case, text in (*result.errors, *result.failures)]
    assert not problems, "\n".join(problems)
    assert not result.skipped, result.skipped
    return result.testsRun


def test_as_completed_passes_asyncio_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """All test classes of the standard library pass, with all kinds of tasks and loops."""
    module = stdlib_tests("test_asyncio.test_tasks", monkeypatch)
    calls = []

    def counted(*arguments: Any, **options: Any) -> Any:  # noqa: ANN401 - as they come
        calls.append(arguments)
        return bounded.as_completed(*arguments, **options)

    monkeypatch.setattr(asyncio, "as_completed", counted)
    classes = {value for value in vars(module).values() if isinstance(value, type)}
    cases = [
        case(name)
        for case in classes
        if issubclass(case, unittest.TestCase)
        for name in dir(case)
        if name.startswith("test") and "as_completed" in name
    ]

    assert run(cases) >= 60
    assert len(calls) >= len(cases)


class MapOnly:
    """The part of an executor that its tests of `map` use."""

    map_: Callable[..., Iterable[Any]]

    def __init__(self, max_workers: int) -> None:
        self._limit = max_workers

    def map(self, function: Callable[..., Any], *iterables: Iterable[Any], **options: Any) -> Iterable[Any]:  # noqa: ANN401
        """Works like Executor.map."""
        return type(self).map_(function, *iterables, limit=self._limit, ordered=True, **options)

    def shutdown(self, *, wait: bool = True) -> None:
        """Waits until everything that was read is done."""
        assert not wait or wait_for(lambda: workers() == 0)


class ThreadMap(MapOnly):
    """Uses threads."""

    map_ = staticmethod(bounded.threads.map)


class ProcessMap(MapOnly):
    """Uses processes."""

    map_ = staticmethod(bounded.processes.map)


@pytest.mark.parametrize("executor", [ThreadMap, ProcessMap])
def test_map_passes_executor_tests(executor: type[MapOnly], monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests for any executor and for this kind pass."""
    module = stdlib_tests("test_concurrent_futures", monkeypatch)
    shared, own = classes_of(module, executor)

    class Case(own, shared, unittest.TestCase):  # type: ignore[misc, valid-type] # they are found at run time
        worker_count = 5

        def setUp(self) -> None:
            self.executor = executor(max_workers=self.worker_count)

        def tearDown(self) -> None:
            self.executor.shutdown(wait=True)

    # `test_free_reference` also tests map.
    before = threading.active_count()
    names = [name for name in dir(Case) if "test_map" in name or name == "test_free_reference"]

    assert len(names) >= 5
    assert run(Case(name) for name in names) == len(names)
    # Threads of earlier tests may still be ending.
    assert wait_for(lambda: threading.active_count() <= before)


def classes_of(module: ModuleType, executor: type[MapOnly]) -> tuple[type, type]:
    """Returns the tests for any executor and for one kind, without those that create the library's own executors."""
    name = "ThreadPoolExecutorTest" if executor is ThreadMap else "ProcessPoolExecutorTest"
    if hasattr(module, "ExecutorTest"):
        shared, own = module.ExecutorTest, getattr(module, name)
    else:
        part = "test_thread_pool" if executor is ThreadMap else "test_process_pool"
        shared = importlib.import_module(f"{module.__name__}.executor").ExecutorTest
        own = getattr(importlib.import_module(f"{module.__name__}.{part}"), name)
    tests = {key: value for key, value in vars(own).items() if key.startswith("test_map")}
    return shared, type(name, (), tests)
