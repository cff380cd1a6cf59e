"""A folder that changes, and a synced folder: their contents and their differences."""

import contextlib
import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

# A time long before the tests, which is trusted in a listing.
LONG_AGO = 1_700_000_000

# The marks of a phase below the sync's own folder; for "applying", a word in pass.json.
BEGUN = {
    "listing": "pass.json",
    "comparing": "listing.csv.zst",
    "requests": "pass.sqlite",
    "fetching": "fetched/.fetchmill/job.sqlite",
    "preparing": "outcomes.sqlite",
    "prepared": "copies.sqlite",
}

Held = dict[str, tuple[bytes, int]]


def held(folder: Path) -> Held:
    """Returns each file below a folder with its bytes and the second of its time, without a sync's own files."""
    found: Held = {}
    for path in folder.rglob("*"):
        relative = path.relative_to(folder).as_posix()
        if not relative.startswith(".fetchmill") and path.is_file():
            found[relative] = (path.read_bytes(), int(path.stat().st_mtime))
    return found


def bodies(folder: Path) -> dict[str, bytes]:
    """Returns the same without times."""
    return {name: body for name, (body, _) in held(folder).items()}


class ChangingTree:
    """A folder of files that changes like real ones.

    Args:
        folder: the folder, which is created and filled.
        count: initial number of files.
        seed: seed of choices and contents.
        folder_files: number of files per folder.
    """

    def __init__(self, folder: Path, count: int, seed: int, folder_files: int = 20) -> None:
        self.folder = folder
        self._random = random.Random(seed)
        self._times = itertools.count(LONG_AGO, 7)
        self._numbers = itertools.count(count)
        for number in range(count):
            self.write(f"d{number // folder_files:03}/f{number:05}")

    def names(self) -> list[str]:
        """Returns the names of all its files."""
        return sorted(held(self.folder))

    def write(self, name: str, body: bytes | None = None, when: float | None = None) -> None:
        """Writes a file with new bytes, and with its own old time unless another is given."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self._random.randbytes(self._random.randrange(1, 200)) if body is None else body)
        moment = next(self._times) if when is None else when
        os.utime(path, (moment, moment))

    def change(self, name: str, *, keeps_size: bool = False, keeps_time: bool = False) -> None:
        """Writes other bytes into a file."""
        path = self.folder / name
        size, when = path.stat().st_size, path.stat().st_mtime
        old = path.read_bytes()
        body = bytes(byte ^ 0x55 for byte in old) if keeps_size else old + b"more"
        assert len(body) == size or not keeps_size
        self.write(name, body, when if keeps_time else None)

    def add(self) -> str:
        """Adds a file, in an existing or a new folder."""
        number = next(self._numbers)
        name = f"d{self._random.randrange(5):03}/new{number}" if number % 3 else f"new{number}/deep/er/file"
        self.write(name)
        return name

    def change_much(self, *, changed: int, added: int, removed: int, renamed: int) -> tuple[set[str], set[str]]:
        """Makes many changes. Returns names that must be fetched, and removed names."""
        chosen = iter(self._random.sample(self.names(), changed + removed + renamed))
        before = set(self.names())
        fetched = set()
        for position, name in enumerate(itertools.islice(chosen, changed)):
            self.change(name, keeps_size=bool(position % 2))
            fetched.add(name)
        for name in itertools.islice(chosen, removed):
            (self.folder / name).unlink()
        for name in itertools.islice(chosen, renamed):
            (self.folder / name).rename(self.folder / f"{name}-renamed")
        for _ in range(added):
            self.add()
        fetched |= set(self.names()) - before
        return fetched, before - set(self.names())

    def swap_kinds(self, folder: str, file: str) -> tuple[set[str], set[str]]:
        """Turns a folder into a file and a file into a folder.

        Returns names that must be fetched, and removed names.
        """
        gone = {name for name in self.names() if name.startswith(f"{folder}/")} | {file}
        shutil.rmtree(self.folder / folder)
        self.write(folder)
        (self.folder / file).unlink()
        self.write(f"{file}/inside")
        return {folder, f"{file}/inside"}, gone


def until(condition: object, *, seconds: float = 60) -> Iterator[None]:
    """Lets a loop check a condition repeatedly; fails if this takes too long."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        yield
        time.sleep(0.001)
    raise AssertionError(f"{condition} did not come")


def has_begun(state: Path, phase: str) -> bool:
    """Returns whether a pass has reached a phase, according to the sync's own folder."""
    if phase != "applying":
        return (state / BEGUN[phase]).exists()
    with contextlib.suppress(OSError, ValueError):
        return bool(json.loads((state / "pass.json").read_bytes())["is_applying"])
    return False


def kill_in(phase: str, process: "subprocess.Popen[str]", state: Path, delay: float) -> bool:
    """Kills a sync a moment after a phase has begun. Returns whether it was still running."""
    for _ in until(phase):
        if process.poll() is not None or has_begun(state, phase):
            break
    time.sleep(delay)
    process.send_signal(signal.SIGKILL)
    return process.wait() == -signal.SIGKILL
