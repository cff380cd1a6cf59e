"""Bounded concurrency in constant memory, compared with an idle interpreter.

`make bounded-million` does the same with a million awaitables.
"""

import os
import subprocess
import sys

import pytest

from conftest import SUPPORT

COUNT = int(os.environ.get("FETCHMILL_BOUNDED_COUNT", "30000"))
ADDED_MIB_MAX = 30
# Maximum growth from a tenth of the items to all of them: pages of the allocator, and nothing per item.
GROWTH_MIB_MAX = 4
IDLE = "import sys; print(next(line.split()[1] for line in open('/proc/self/status') if 'VmHWM' in line))"


def peak_mib(program: str, count: int) -> float:
    """Returns the peak memory of a program that does nothing else."""
    ended = subprocess.run(
        [sys.executable, SUPPORT / "bounded_programs.py", program, str(count), "0.01"],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return float(ended.stdout.split()[0])


def idle_mib() -> float:
    """Returns the memory of an idle interpreter."""
    return int(subprocess.run([sys.executable, "-c", IDLE], capture_output=True, check=True).stdout) / 1024


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "program", ["as_completed", "as_completed_plain", "as_completed_async_input", "task_pool", "mapped", "threads"]
)
def test_bounded_memory_is_independent_of_item_count(program: str) -> None:
    """The limit is 1000, or 10 for threads."""
    few, many = peak_mib(program, COUNT // 10), peak_mib(program, COUNT)

    assert many - idle_mib() < ADDED_MIB_MAX
    assert many - few < GROWTH_MIB_MAX
