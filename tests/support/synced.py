"""A folder that changes, and a folder that is kept like it: what both hold, and what is different."""

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

# A moment long before the tests: a listing that tells it is believed.
LONG_AGO = 1_700_000_000

# What there is when a phase has begun, below the folder of what a sync knows; of "applying" a word in pass.json.
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
    """Each file below a folder, its bytes and the second of its time; without what a sync knows."""
    found: Held = {}
    for path in folder.rglob("*"):
        relative = path.relative_to(folder).as_posix()
        if not relative.startswith(".fetchmill") and path.is_file():
            found[relative] = (path.read_bytes(), int(path.stat().st_mtime))
    return found


def bodies(folder: Path) -> dict[str, bytes]:
    """The same without times."""
    return {name: body for name, (body, _) in held(folder).items()}


class ChangingTree:
    """A folder of files that changes as real ones do.

    Args:
        folder: made, and filled.
        count: how many files it has at first.
        seed: what is chosen, and what is written.
        folder_files: how many of them a folder has.
    """

    def __init__(self, folder: Path, count: int, seed: int, folder_files: int = 20) -> None:
        self.folder = folder
        self._random = random.Random(seed)
        self._times = itertools.count(LONG_AGO, 7)
        self._numbers = itertools.count(count)
        for number in range(count):
            self.write(f"d{number // folder_files:03}/f{number:05}")

    def names(self) -> list[str]:
        """Of all its files."""
        return sorted(held(self.folder))

    def write(self, name: str, body: bytes | None = None, when: float | None = None) -> None:
        """A file with other bytes than ever, written at a time of its own long ago unless another is given."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self._random.randbytes(self._random.randrange(1, 200)) if body is None else body)
        moment = next(self._times) if when is None else when
        os.utime(path, (moment, moment))

    def change(self, name: str, *, keeps_size: bool = False, keeps_time: bool = False) -> None:
        """Other bytes in a file."""
        path = self.folder / name
        size, when = path.stat().st_size, path.stat().st_mtime
        old = path.read_bytes()
        body = bytes(byte ^ 0x55 for byte in old) if keeps_size else old + b"more"
        assert len(body) == size or not keeps_size
        self.write(name, body, when if keeps_time else None)

    def add(self) -> str:
        """A new file, in a folder that is there or in one of its own."""
        number = next(self._numbers)
        name = f"d{self._random.randrange(5):03}/new{number}" if number % 3 else f"new{number}/deep/er/file"
        self.write(name)
        return name

    def change_much(self, *, changed: int, added: int, removed: int, renamed: int) -> tuple[set[str], set[str]]:
        """Names that must be fetched, and names that are gone."""
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
        """A folder becomes a file, and a file becomes a folder; what must be fetched, and what is gone."""
        gone = {name for name in self.names() if name.startswith(f"{folder}/")} | {file}
        shutil.rmtree(self.folder / folder)
        self.write(folder)
        (self.folder / file).unlink()
        self.write(f"{file}/inside")
        return {folder, f"{file}/inside"}, gone


def until(condition: object, *, seconds: float = 60) -> Iterator[None]:
    """Lets a loop look again and again; it ends with a failure when that takes too long."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        yield
        time.sleep(0.001)
    raise AssertionError(f"{condition} did not come")


def has_begun(state: Path, phase: str) -> bool:
    """Whether a pass is at least so far, by the folder of what a sync knows."""
    if phase != "applying":
        return (state / BEGUN[phase]).exists()
    with contextlib.suppress(OSError, ValueError):
        return bool(json.loads((state / "pass.json").read_bytes())["is_applying"])
    return False


def kill_in(phase: str, process: "subprocess.Popen[str]", state: Path, delay: float) -> bool:
    """Kills a sync a moment after a phase has begun; whether it was still running."""
    for _ in until(phase):
        if process.poll() is not None or has_begun(state, phase):
            break
    time.sleep(delay)
    process.send_signal(signal.SIGKILL)
    return process.wait() == -signal.SIGKILL
