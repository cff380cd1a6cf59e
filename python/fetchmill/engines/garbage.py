"""Python's garbage collector in a process that does nothing but a job."""

import gc

# Objects that are made and not freed before the youngest are looked at: some MB when all of them are garbage. Python's
# own 700 are a request or two, and looking at what 64 tasks hold again and again takes an eighth of the processor time.
_YOUNGEST = 20_000
_YOUNG, _OLD = 20, 50


def collect_rarely() -> None:
    """Leaves out what is there already, which is modules, and looks at the rest less often.

    For the command and for workers' processes; a program that uses the package keeps its collector as it is.
    """
    gc.freeze()
    gc.set_threshold(_YOUNGEST, _YOUNG, _OLD)
