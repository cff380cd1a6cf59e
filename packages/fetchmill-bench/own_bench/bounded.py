"""`make bounded`: compares the CPU time and memory of bounded concurrency with those of a polling loop.

Usage: python -m own_bench.bounded [--count N] [--seconds S] [--rounds R]

Items sleep for up to S seconds, a thousand at a time, so the measured cost is that of finding out which items are done.
The programs in tests/support/bounded_programs.py take turns, and the bench prints medians.
"""

import argparse
import os
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PROGRAMS = ("polling", "as_completed", "as_completed_plain", "task_pool", "mapped")
RATIO_MIN = 5


def measure(program: str, count: int, seconds: float) -> tuple[float, float]:
    """Returns the memory in MiB and the CPU time in seconds."""
    program_file = str(ROOT / "tests" / "support" / "bounded_programs.py")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, program_file, program, str(count), str(seconds)]
    ended = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    mib, processor = ended.stdout.split()
    return float(mib), float(processor)


def main() -> int:
    """Runs the programs. Returns a nonzero exit code if a program uses over a fifth of the loop's CPU time."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=4000, help="number of items")
    parser.add_argument("--seconds", type=float, default=3.0, help="longest sleep in seconds")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    found: dict[str, list[tuple[float, float]]] = {program: [] for program in PROGRAMS}
    for _round in range(arguments.rounds):
        for program in PROGRAMS:
            found[program].append(measure(program, arguments.count, arguments.seconds))
    processor = {program: statistics.median(cpu for _mib, cpu in values) for program, values in found.items()}
    for program, values in found.items():
        mib = statistics.median(mib for mib, _cpu in values)
        ratio = processor["polling"] / processor[program]
        print(f"{program:20} {processor[program]:7.2f} s of CPU time  {mib:6.1f} MiB  polling / this: {ratio:5.1f}")
    good = all(processor["polling"] >= RATIO_MIN * processor[program] for program in PROGRAMS[1:])
    print(f"bounded: {'passed' if good else 'FAILED'}: required: at most 1/{RATIO_MIN} of the CPU time of polling")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
