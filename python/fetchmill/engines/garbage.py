"""Tunes Python's garbage collector for a process that only runs a job."""

import gc

# Number of new objects that triggers a collection of the youngest generation. If all of them are garbage, they use a
# few MB. Python's default of 700 is reached after one or two requests. Scanning the objects of 64 tasks that often
# would use an eighth of the CPU time.
_YOUNGEST = 20_000
_YOUNG, _OLD = 20, 50


def collect_rarely() -> None:
    """Exclude existing objects (mostly modules) from garbage collection, and collect new objects less often.

    Only the command and worker processes call this function, so it does not affect programs that use the package.
    """
    gc.freeze()
    gc.set_threshold(_YOUNGEST, _YOUNG, _OLD)
