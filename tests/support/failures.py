"""Records each failed test with the fault that it saw, for `scripts/judge-tests`.

`--failures FILE` names the file; each failure is a line of JSON.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any

import pytest

from faults import begin, fault_of, note

# Field of a failed report, also between the processes of pytest-xdist.
_ATTRIBUTE = "fetchmill_fault"
_failures: Path | None = None
# Number of entries in two mappings above which only the first differences are shown.
LARGE = 200
SHOWN = 5


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the option for the file of failures."""
    parser.addoption("--failures", type=Path, default=None, help="append each failure to this file, a line of JSON")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Forgets earlier observations."""
    begin()


def pytest_assertrepr_compare(op: str, left: object, right: object) -> list[str] | None:
    """Checks a failed comparison, and summarizes large mappings: pytest would need minutes for all differences."""
    if _has_bytes(left) or _has_bytes(right):
        note("wrong bytes")
    elif (_is_tally(left) or _is_tally(right)) and op in {"==", "in", "<=", ">="}:
        note("lost or doubled object")
    if op == "==" and isinstance(left, Mapping) and isinstance(right, Mapping) and len(left) + len(right) > LARGE:
        return _differences(left, right)
    return None


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(call: pytest.CallInfo[None]) -> Iterator[None]:
    """Adds the observation to a failed report."""
    outcome: Any = yield
    report = outcome.get_result()
    if report.failed and call.excinfo is not None:
        setattr(report, _ATTRIBUTE, fault_of(call.excinfo.value))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Writes the failure, in the process that controls the others."""
    if not report.failed or _failures is None:
        return
    # A report that does not come from a test is for a worker process that ended.
    fault = getattr(report, _ATTRIBUTE, "crash")
    row = {"test": report.nodeid, "fault": fault, "log": report.longreprtext}
    with _failures.open("a") as file:
        file.write(json.dumps(row) + "\n")


def pytest_configure(config: pytest.Config) -> None:
    """Makes sure that only one process writes failures."""
    global _failures  # noqa: PLW0603 - hooks have no place of their own
    is_worker = hasattr(config, "workerinput")
    _failures = None if is_worker else config.getoption("--failures")


def _differences(left: Mapping[Any, object], right: Mapping[Any, object]) -> list[str]:
    """Returns the first entries that differ."""
    absent = "<absent>"
    keys = [key for key in {**left, **right} if left.get(key, absent) != right.get(key, absent)]
    shown = [f"{key!r}: {left.get(key, absent)!r:.200} != {right.get(key, absent)!r:.200}" for key in keys[:SHOWN]]
    return [f"mappings of {len(left)} and {len(right)} entries differ in {len(keys)}", *shown]


def _has_bytes(value: object) -> bool:
    """Returns whether a value has bytes of objects, alone or in a collection."""
    if isinstance(value, bytes):
        return True
    if isinstance(value, Mapping):
        return any(_has_bytes(each) for each in value.values())
    return isinstance(value, (list, tuple, set, frozenset)) and any(_has_bytes(each) for each in value)


def _is_tally(value: object) -> bool:
    """Returns whether a value has names, counts of names, or a line of a ledger."""
    if isinstance(value, str):
        return " listed = " in value
    return isinstance(value, (Counter, AbstractSet)) and _are_texts(value)


def _are_texts(values: Iterable[object]) -> bool:
    return all(isinstance(value, str) for value in values)
