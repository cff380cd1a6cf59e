"""Functions that worker processes of tests call: in a file of their own, so that these can import them."""

import os
import signal
import sys
import time
from pathlib import Path


class Fussy(Exception):  # noqa: N818 - a name for a test
    """Cannot be made again from its arguments, and so not be unpickled."""

    def __init__(self, one: int, _other: int) -> None:
        super().__init__(one)


def own_pid(_number: int) -> int:
    """The worker's."""
    return os.getpid()


def die_at_three(number: int) -> int:
    """As for want of memory."""
    if number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def die_before_child(noted: str) -> None:
    """With a child that keeps the worker's descriptors open; its number is noted."""
    child = os.fork()
    if child == 0:
        time.sleep(60)
        os._exit(0)
    Path(noted).write_text(str(child))
    os._exit(7)


def fail_at_two(number: int) -> int:
    """An error as any."""
    if number == 2:
        raise ValueError("it is two")
    return number


def fail_so_often(item: tuple[str, int]) -> int:
    """The number of the attempt, after so many that failed; they are counted in a file."""
    path, fails = Path(item[0]), item[1]
    attempt = 1 + (len(path.read_text()) if path.exists() else 0)
    path.write_text("." * attempt)
    if attempt <= fails:
        raise ValueError(f"attempt {attempt}")
    return attempt


def fail_fussily(_number: int) -> None:
    """With an error that cannot be unpickled."""
    raise Fussy(1, 2)


def give_lambda(number: int) -> object:
    """What cannot be pickled, at two."""
    return (lambda: number) if number == 2 else number


def sleep_long(number: int) -> int:
    """Unless it is zero."""
    time.sleep(60 if number else 0)
    return number


def leave() -> None:
    """A start that is none."""
    os._exit(4)


def refuse() -> None:
    """A start that fails."""
    raise ConnectionError("no more")


def note(folder: str, word: str) -> None:
    """A line in the worker's own file."""
    with Path(folder, str(os.getpid())).open("a") as file:
        file.write(f"{word}\n")


def note_item(number: int, folder: str) -> int:
    """The same for an item."""
    note(folder, str(number))
    return number


def note_start() -> str:
    """The folder that is named by the environment."""
    folder = os.environ["NOTES"]
    note(folder, "start")
    return folder


def note_end(folder: str) -> None:
    """With what `note_start` gave."""
    note(folder, "end")


def is_loaded(module: str) -> bool:
    """Whether the worker has imported something."""
    return module in sys.modules
