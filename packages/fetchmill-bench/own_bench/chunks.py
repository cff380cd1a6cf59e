"""`make bounded`: compares `bounded.processes.map` with chunks to `ProcessPoolExecutor.map`.

Usage: python -m own_bench.chunks [--count N] [--chunksize N] [--workers N] [--rounds R]

The function takes no time, so the measured cost is that of handing over items and results. Both programs spawn their
processes, and the programs take turns. The bench prints medians, which include the start of the processes.
"""

import argparse
import multiprocessing
import operator
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor

from fetchmill import bounded

RATIO_MIN = 0.8


def with_executor(count: int, chunksize: int, workers: int) -> Iterator[int]:
    """Yields the results of the standard library's executor."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context) as executor:
        yield from executor.map(operator.neg, range(count), chunksize=chunksize)


def with_bounded(count: int, chunksize: int, workers: int) -> Iterable[int]:
    """Returns the results of `bounded`."""
    return bounded.processes.map(operator.neg, range(count), limit=workers, ordered=True, chunksize=chunksize)


def measure(program: Callable[[int, int, int], Iterable[int]], count: int, chunksize: int, workers: int) -> float:
    """Returns the time in seconds that a program needs to produce all results."""
    began = time.monotonic()
    total = sum(program(count, chunksize, workers))
    seconds = time.monotonic() - began
    if total != -count * (count - 1) // 2:
        raise RuntimeError(f"{program.__name__}: a result is missing or wrong")
    return seconds


def main() -> int:
    """Runs both programs in turn. Returns a nonzero exit code if `bounded` is below 0.8 of the executor's rate."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=200_000, help="number of calls")
    parser.add_argument("--chunksize", type=int, default=1000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    programs = (with_executor, with_bounded)
    found: dict[str, list[float]] = {program.__name__: [] for program in programs}
    for _round in range(arguments.rounds):
        for program in programs:
            seconds = measure(program, arguments.count, arguments.chunksize, arguments.workers)
            found[program.__name__].append(seconds)
    medians = {name: statistics.median(seconds) for name, seconds in found.items()}
    for name, seconds in medians.items():
        print(f"{name:14} {seconds:6.3f} s  {arguments.count / seconds:12,.0f} calls/s")
    ratio = medians["with_executor"] / medians["with_bounded"]
    print(f"chunks: {'passed' if ratio >= RATIO_MIN else 'FAILED'}: bounded has {ratio:.2f} of the executor's rate")
    return 0 if ratio >= RATIO_MIN else 1


if __name__ == "__main__":
    raise SystemExit(main())
