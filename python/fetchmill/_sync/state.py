"""Where a sync keeps what it knows, and whether a folder is kept by one; needs nothing else of the package."""

from pathlib import Path

# Below the destination.
STATE = Path(".fetchmill", "sync")


def is_synced(dest: str) -> bool:
    """Whether a sync keeps this folder."""
    try:
        return any((Path(dest) / STATE / name).exists() for name in ("base.sqlite", "pass.json"))
    except PermissionError:
        # Whoever opens it next says that it is another user's.
        return False
