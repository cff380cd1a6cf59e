"""Names the supported platforms if fetchmill's native module cannot be loaded."""

import platform
import sys

_NATIVE = "fetchmill._native"


def explain(error: ImportError) -> ImportError:
    """If the platform made an import fail, return an error that says what to do. Otherwise, return `error`."""
    if error.name != _NATIVE:
        return error
    if sys.platform != "linux":
        system = platform.system() or sys.platform
        return ImportError(
            f"fetchmill runs on Linux only, not on {system}; use a container, or WSL on Windows", name=_NATIVE
        )
    return ImportError(
        f"cannot load fetchmill's native module on this machine ({platform.machine()}, Python "
        f"{platform.python_version()}): {error}. Install the wheel for this platform, "
        "or build fetchmill here (fetchmill help platforms)",
        name=_NATIVE,
    )
