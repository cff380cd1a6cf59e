"""The tests that `make test` runs, and those that `make test-all` adds (docs/internals/testing.md).

`--suite fast` leaves out tests marked `thorough`, and all but some cases of those marked `sampled`. It also leaves out
tests marked `one_in(N)`, except in one of N runs, and tests marked `of_files` if the change touches none of these
files. `--suite rest` has the tests that `fast` leaves out, in an order that the seed determines, and starts no test
after `--seconds`. Without `--suite`, all given tests run.
"""

import os
import random
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import combinations

import pytest

from changes import rewrites, touches

_SEED = "FETCHMILL_SEED"
# Fixtures, and values of parameters.
_STORE = {"versitygw", "gateway"}
_STARTED_AT = time.monotonic()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the option for the suite."""
    group = parser.getgroup("selection")
    group.addoption(
        "--suite", choices=("all", "fast", "rest"), default="all", help="which tests (tests/support/selection.py)"
    )
    group.addoption("--seconds", type=float, default=None, help="begin no test after this many seconds")


def pytest_configure() -> None:
    """Sets one seed for all tests of a run, including those of pytest-xdist's workers."""
    os.environ.setdefault(_SEED, str(random.randrange(1_000_000)))


def pytest_report_header() -> str:
    """Says how to repeat the run."""
    return f"seed: {_SEED}={os.environ[_SEED]}"


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keeps the tests of the suite."""
    suite = config.getoption("--suite")
    if suite == "all":
        return
    seed = os.environ[_SEED]
    fast = _fast(items, seed)
    is_slice = config.getoption("--seconds") is not None
    kept = [item for item in items if (item.nodeid in fast) == (suite == "fast")]
    if is_slice:
        # The order is different each time, and tests whose programs `make test` does not install are left out.
        kept = [item for item in kept if not _needs_versitygw(item)]
        random.Random(seed).shuffle(kept)
    chosen = set(kept)
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = kept


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> bool | None:
    """Starts no test after the time limit."""
    seconds = item.config.getoption("--seconds")
    return True if seconds is not None and time.monotonic() - _STARTED_AT > seconds else None


def _fast(items: Iterable[pytest.Item], seed: str) -> set[str]:
    """Returns the node ids of the tests that `make test` runs."""
    fast: set[str] = set()
    cases: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        of_files = item.get_closest_marker("of_files")
        if _needs_versitygw(item):
            continue
        own = item.nodeid.partition("::")[0]
        if item.get_closest_marker("thorough") or (of_files and not touches(*of_files.args) and not rewrites(own)):
            continue
        if not _has_its_turn(item, seed) and not rewrites(own):
            continue
        if item.get_closest_marker("sampled"):
            cases[item.nodeid.partition("[")[0]].append(item)
        else:
            fast.add(item.nodeid)
    for function, of_function in cases.items():
        marker = of_function[0].get_closest_marker("sampled")
        assert marker is not None
        rng = random.Random(f"{seed} {function}")
        fast |= {
            of_function[index].nodeid for index in sample([_values(item) for item in of_function], marker.args[0], rng)
        }
    return fast


def _has_its_turn(item: pytest.Item, seed: str) -> bool:
    """Returns whether a test runs with this seed, with all its cases or none."""
    one_in = item.get_closest_marker("one_in")
    function = item.nodeid.partition("[")[0]
    return one_in is None or random.Random(f"{seed} {function}").randrange(one_in.args[0]) == 0


def _needs_versitygw(item: pytest.Item) -> bool:
    """Returns whether a test needs the store that `make test-all` builds, as a fixture or as a parameter."""
    fixtures = getattr(item, "fixturenames", ())
    is_marked = item.get_closest_marker("needs_versitygw") is not None
    return is_marked or not _STORE.isdisjoint(fixtures) or not _STORE.isdisjoint(_values(item))


def sample(cases: Sequence[Sequence[str]], count: int, rng: random.Random) -> list[int]:
    """Returns indexes of some cases that together cover as many values and pairs of values as possible.

    The algorithm is greedy: the next case adds the most new values, then the most new pairs. Every value of a parameter
    is covered if `count` is at least the number of values of each parameter.

    Args:
        cases: the values of the parameters of each.
        count: how many to choose.
        rng: breaks ties.
    """
    left = list(range(len(cases)))
    rng.shuffle(left)
    chosen: list[int] = []
    seen: set[object] = set()
    while left and len(chosen) < count:
        best = max(left, key=lambda index: _added(cases[index], seen))
        left.remove(best)
        chosen.append(best)
        seen.update(_parts(cases[best]))
    return chosen


def _added(case: Sequence[str], seen: set[object]) -> tuple[int, int]:
    new = [part for part in _parts(case) if part not in seen]
    return sum(len(part) == 1 for part in new), len(new)


def _parts(case: Sequence[str]) -> list[tuple[tuple[int, str], ...]]:
    values = list(enumerate(case))
    return [*((value,) for value in values), *combinations(values, 2)]


def _values(item: pytest.Item) -> list[str]:
    """Returns the parameter values of a test, by their names in its id."""
    callspec = getattr(item, "callspec", None)
    return callspec.id.split("-") if callspec is not None else []
