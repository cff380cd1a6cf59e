"""The state of a sync's current pass, and its files.

All files are in DEST/.fetchmill/sync. A pass has begun if `pass.json` exists. The other files show its progress.
"""

import contextlib
import json
import os
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fetchmill._shared.folder_store import sync_folder
from fetchmill.errors import JournalError, StorageError

# Version of `pass.json`. It changes whenever a release changes the format.
_VERSION = 1
# Files that are kept after a pass has ended.
_KEPT = ("lock", "base.sqlite")


@dataclass(frozen=True)
class BegunPass:
    """The values that are fixed when a pass begins, or when its plan is made.

    Args:
        number: number of the pass, from 1.
        source: the source of the targets.
        filters: the options that determine which of the source's objects are synced.
        started_at: start time in seconds since 1970 UTC.
        delete: whether objects that are no longer listed are removed.
        refetch: whether all objects are fetched.
        overwrite_local: whether locally changed files are replaced.
        check_local: whether all files are checked.
        is_applying: whether the pass may have changed files in the destination.
    """

    number: int
    source: str
    filters: str
    started_at: int
    delete: bool = False
    refetch: bool = False
    overwrite_local: bool = False
    check_local: bool = False
    is_applying: bool = False

    def plan_options(self, protected: list[str]) -> str:
        """Return the plan's options, for the native module.

        Args:
            protected: prefixes (`name_text`) of the names of objects that must not be removed.
        """
        values = {name: value for name, value in asdict(self).items() if name != "is_applying"}
        return json.dumps(values | {"protected": protected})


class PassFolder:
    """The files of a pass.

    Args:
        folder: DEST/.fetchmill/sync, or a temporary folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.listing = folder / "listing.csv.zst"
        self.requests = folder / "requests.csv"
        self.fetched = folder / "fetched"
        self.outcomes = folder / "outcomes.sqlite"
        self._begun = folder / "pass.json"

    def begun(self) -> BegunPass | None:
        """Return the pass that has begun; None if there is no such pass.

        Raises:
            JournalError: the file of the pass is invalid.
            StorageError: the file of the pass cannot be read.
        """
        try:
            text = self._begun.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StorageError(f"cannot read {self._begun}: {error.strerror or error}") from None
        return _understood(self._begun, text)

    def write(self, begun: BegunPass) -> None:
        """Write the pass durably.

        Raises:
            StorageError: the file cannot be written.
        """
        part = self._begun.with_name("pass.json.part")
        try:
            with part.open("w", encoding="utf-8") as file:
                json.dump({"version": _VERSION, **asdict(begun)}, file)
                file.flush()
                os.fsync(file.fileno())
            part.replace(self._begun)
            sync_folder(self.folder)
        except OSError as error:
            raise StorageError(f"cannot write {self._begun}: {error.strerror or error}") from None

    def forget_fetched(self) -> None:
        """Remove objects fetched for an earlier plan."""
        self._remove(self.requests)
        self._remove(self.fetched)

    def forget_listing(self) -> None:
        """Remove a complete or incomplete listing."""
        self._remove(self.listing)
        self._remove(self.listing.with_name("listing.csv.zst.fetchmill"))

    def forget(self) -> None:
        """Remove all files of a pass, `pass.json` first. If this is interrupted, the remaining files are removed later.

        Raises:
            StorageError: a file cannot be removed.
        """
        self._remove(self._begun)
        try:
            # Otherwise a power cut could restore `pass.json` without the other files.
            sync_folder(self.folder)
            paths = list(self.folder.iterdir())
        except OSError as error:
            raise StorageError(f"cannot read {self.folder}: {error.strerror or error}") from None
        for path in paths:
            # SQLite's auxiliary files for `base.sqlite` also stay.
            if not path.name.startswith(_KEPT):
                self._remove(path)

    def _remove(self, path: Path) -> None:
        try:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        except OSError as error:
            raise StorageError(f"cannot remove {path}: {error.strerror or error}") from None


def _understood(path: Path, text: bytes) -> BegunPass:
    wrong = f"{path}: not a valid pass file"
    try:
        values: dict[str, Any] = json.loads(text)
        version = values.pop("version")
    except (ValueError, AttributeError, KeyError, TypeError):
        raise JournalError(f"{wrong}; remove this file to start the pass again") from None
    if version != _VERSION:
        raise JournalError(f"{path}: written by another release of fetchmill; use that release, or remove this file")
    with contextlib.suppress(TypeError):
        begun = BegunPass(**values)
        if all(isinstance(getattr(begun, name), type_) for name, type_ in BegunPass.__annotations__.items()):
            return begun
    raise JournalError(f"{wrong}; remove this file to start the pass again")
