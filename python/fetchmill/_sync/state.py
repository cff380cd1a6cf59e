"""Where a sync keeps what it knows, and whether a folder is kept by one; needs nothing else of the package."""

import os

# Below the destination.
STATE = ".fetchmill/sync"


def is_synced(dest: str) -> bool:
    """Whether a sync keeps this folder; False if it may not be looked at, which is said by what opens it next."""
    return any(os.access(f"{dest or '.'}/{STATE}/{name}", os.F_OK) for name in ("base.sqlite", "pass.json"))
