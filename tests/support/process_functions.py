"""Functions that worker processes of tests call, in a separate file that these can import."""

import os
import signal
import sys
import time
from pathlib import Path


class Fussy(Exception):  # noqa: N818 - a name for a test
    """Cannot be created again from its arguments, and so cannot be unpickled."""

    def __init__(self, one: int, _other: int) -> None:
        super().__init__(one)


def own_pid(_number: int) -> int:
    """Returns the worker's process id."""
    return os.getpid()


def die_at_three(number: int) -> int:
    """Kills the process at three, as when memory runs out."""
    if number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def die_before_child(noted: str) -> None:
    """Dies with a child that keeps the worker's descriptors open; its process id is noted."""
    child = os.fork()
    if child == 0:
        time.sleep(60)
        os._exit(0)
    Path(noted).write_text(str(child))
    os._exit(7)


def fail_at_two(number: int) -> int:
    """Raises an ordinary error at two."""
    if number == 2:
        raise ValueError("it is two")
    return number


def fail_so_often(item: tuple[str, int]) -> int:
    """Returns the number of the attempt, after the given number of failures, which a file counts."""
    path, fails = Path(item[0]), item[1]
    attempt = 1 + (len(path.read_text()) if path.exists() else 0)
    path.write_text("." * attempt)
    if attempt <= fails:
        raise ValueError(f"attempt {attempt}")
    return attempt


def fail_fussily(_number: int) -> None:
    """Raises an error that cannot be unpickled."""
    raise Fussy(1, 2)


def give_lambda(number: int) -> object:
    """Returns a value that cannot be pickled, at two."""
    return (lambda: number) if number == 2 else number


def sleep_long(number: int) -> int:
    """Sleeps, except at zero."""
    time.sleep(60 if number else 0)
    return number


def leave() -> None:
    """Ends the process instead of starting."""
    os._exit(4)


def refuse() -> None:
    """Fails to start."""
    raise ConnectionError("no more")


def note(folder: str, word: str) -> None:
    """Writes a line into the worker's own file."""
    with Path(folder, str(os.getpid())).open("a") as file:
        file.write(f"{word}\n")


def note_item(number: int, folder: str) -> int:
    """Does the same for an item."""
    note(folder, str(number))
    return number


def note_start() -> str:
    """Returns the folder that the environment names."""
    folder = os.environ["NOTES"]
    note(folder, "start")
    return folder


def note_end(folder: str) -> None:
    """Receives the result of `note_start`."""
    note(folder, "end")


def is_loaded(module: str) -> bool:
    """Returns whether the worker has imported a module."""
    return module in sys.modules
