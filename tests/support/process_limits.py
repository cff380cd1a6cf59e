"""Limits of a process that a test starts, and its peak memory."""

import resource
from collections.abc import Callable

# A small parent, because a child's peak starts at its parent's.
SPAWN = """
import os, sys
pid = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ)
_, status, usage = os.wait4(pid, 0)
print(usage.ru_maxrss)
sys.exit(os.waitstatus_to_exitcode(status))
"""


def low_descriptors(count: int) -> Callable[[], None]:
    """Limits the child's open files to `count`; neither it nor the command can raise the limit."""
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (count, count))
