"""What a sync knows of the pass that it is in, and the files of that pass.

All of it is in DEST/.fetchmill/sync. A pass is begun when `pass.json` is there, and the other files tell how far it is.
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

# Of `pass.json`; another number is that of a later release.
_VERSION = 1
# What stays when a pass has ended.
_KEPT = ("lock", "base.sqlite")


@dataclass(frozen=True)
class BegunPass:
    """What is fixed when a pass begins, or when its plan is made.

    Args:
        number: of the pass, from 1.
        source: where the targets come from.
        filters: what decides which objects the source has.
        started_at: seconds since 1970 UTC.
        delete: whether objects that are not listed are removed.
        refetch: whether all objects are fetched.
        overwrite_local: whether files that were changed are replaced.
        check_local: whether all files are looked at.
        is_applying: whether files of the destination may have been changed by it.
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
        """For the native module: how the plan is made.

        Args:
            protected: texts (`name_text`) that the names of objects which are not removed begin with.
        """
        values = {name: value for name, value in asdict(self).items() if name != "is_applying"}
        return json.dumps(values | {"protected": protected})


class PassFolder:
    """The files of a pass.

    Args:
        folder: DEST/.fetchmill/sync, or a temporary one.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.listing = folder / "listing.csv.zst"
        self.requests = folder / "requests.csv"
        self.fetched = folder / "fetched"
        self.outcomes = folder / "outcomes.sqlite"
        self._begun = folder / "pass.json"

    def begun(self) -> BegunPass | None:
        """The pass that was begun; None without one.

        Raises:
            JournalError: its file cannot be understood.
            StorageError: its file cannot be read.
        """
        try:
            text = self._begun.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StorageError(f"cannot read {self._begun}: {error.strerror or error}") from None
        return _understood(self._begun, text)

    def write(self, begun: BegunPass) -> None:
        """Makes it durable.

        Raises:
            StorageError: it cannot be written.
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
        """Removes what was fetched for a plan that is not there any more."""
        self._remove(self.requests)
        self._remove(self.fetched)

    def forget_listing(self) -> None:
        """Removes a listing, whole or not."""
        self._remove(self.listing)
        self._remove(self.listing.with_name("listing.csv.zst.fetchmill"))

    def forget(self) -> None:
        """Removes all that belongs to a pass. Cut short, the pass is over all the same: what is left is removed later.

        Raises:
            StorageError: something cannot be removed.
        """
        self._remove(self._begun)
        try:
            # Otherwise a power cut could bring it back without the rest.
            sync_folder(self.folder)
            paths = list(self.folder.iterdir())
        except OSError as error:
            raise StorageError(f"cannot read {self.folder}: {error.strerror or error}") from None
        for path in paths:
            # SQLite's own files of the base belong to it.
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
    wrong = f"{path} cannot be understood"
    try:
        values: dict[str, Any] = json.loads(text)
        version = values.pop("version")
    except (ValueError, AttributeError, KeyError, TypeError):
        raise JournalError(f"{wrong}; remove it to begin the pass anew") from None
    if version != _VERSION:
        raise JournalError(f"{path} was written by another release of fetchmill; use that, or remove it")
    with contextlib.suppress(TypeError):
        begun = BegunPass(**values)
        if all(isinstance(getattr(begun, name), type_) for name, type_ in BegunPass.__annotations__.items()):
            return begun
    raise JournalError(f"{wrong}; remove it to begin the pass anew")
