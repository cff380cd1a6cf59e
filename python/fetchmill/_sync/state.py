"""Checks whether a folder is synced, by looking for its state folder. Imports no other module from the package."""

import os

# Path of the state folder, relative to the destination.
STATE = ".fetchmill/sync"


def is_synced(dest: str) -> bool:
    """Return whether this folder is synced. Return False if access is denied; a later open then reports the error."""
    return any(os.access(f"{dest or '.'}/{STATE}/{name}", os.F_OK) for name in ("base.sqlite", "pass.json"))
