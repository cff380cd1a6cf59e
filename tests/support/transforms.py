"""Functions for tests of transforms, which a transform process imports from here."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from fetchmill import FetchedReply


def upper(replies: list[FetchedReply]) -> list[bytes]:
    """Returns bytes instead of the body."""
    return [reply.body.upper() for reply in replies]


def twice_as_a_generator(replies: list[FetchedReply]) -> Iterator[bytes]:
    """Yields the body twice."""
    for reply in replies:
        yield reply.body * 2


def number_of(reply: FetchedReply) -> int:
    """Returns the number in the name of a synthetic object."""
    return int(reply.name.rpartition("-")[2])


def odd_only(replies: list[FetchedReply]) -> list[bytes | None]:
    """Drops every second one."""
    return [reply.body if number_of(reply) % 2 else None for reply in replies]


_seen: set[str] = set()


def refuse_the_seventh(replies: list[FetchedReply]) -> Iterator[bytes | Exception]:
    """Returns an exception for one reply, and raises when it gets a reply again."""
    for reply in replies:
        if reply.name in _seen:
            raise RuntimeError(f"{reply.name} came twice")
        _seen.add(reply.name)
        yield ValueError("not this one") if number_of(reply) == 7 else b"1"


def facts(replies: list[FetchedReply]) -> list[bytes]:
    """Returns a reply's metadata in one line."""
    return [
        f"{reply.name} {reply.url} {reply.status} {len(reply.body)} {reply.content_type} {reply.etag} "
        f"{reply.last_modified}".encode()
        for reply in replies
    ]


def columns(replies: list[FetchedReply]) -> list[dict[str, object]]:
    """Returns a value of each kind, and a body for some replies."""
    return [
        {
            "text": f"é {reply.name}",
            "size": len(reply.body),
            "share": 0.5,
            "is_odd": bool(number_of(reply) % 2),
            "nothing": None,
            **({"body": "as text"} if number_of(reply) % 2 else {}),
        }
        for reply in replies
    ]


def sizes_of_batches(replies: list[FetchedReply]) -> list[bytes]:
    """Returns the number of replies per batch."""
    return [str(len(replies)).encode() for _ in replies]


def large(replies: list[FetchedReply]) -> list[bytes]:
    """Returns two million bytes for each reply, and its body."""
    return [reply.body[:1] * 2_000_000 for reply in replies]


def small(replies: list[FetchedReply]) -> list[bytes | None]:
    """Returns a few bytes of a body that may be large; odd ones are dropped."""
    return [None if number_of(reply) % 2 else f"{len(reply.body)}".encode() for reply in replies]


def raises_for_seven(replies: list[FetchedReply]) -> list[bytes]:
    """Raises an error for one of them."""
    if any(number_of(reply) == 7 for reply in replies):
        raise LookupError("there is no\nseven")
    return upper(replies)


def dies_for_seven(replies: list[FetchedReply]) -> list[bytes]:
    """Ends the process with a signal for one of them."""
    if any(number_of(reply) == 7 for reply in replies):
        os.kill(os.getpid(), signal.SIGKILL)
    return upper(replies)


def exits_for_seven(replies: list[FetchedReply]) -> list[bytes]:
    """Ends the process without a signal, while a child holds all descriptors that it can."""
    if any(number_of(reply) == 7 for reply in replies):
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(5)"], close_fds=False)
        os._exit(3)
    return upper(replies)


def of_no_use(replies: list[FetchedReply]) -> list[object]:
    """Returns invalid results of all kinds; the others are unchanged."""
    wrong: dict[int, object] = {
        0: 17,
        1: "text",
        2: {"size": 1},
        3: {"other": 1},
        4: [b"in a list"],
        5: {"body": 5},
        6: {"size": float("nan")},
        7: {"size": ["x"]},
        8: {"size": "\ud800"},
    }
    return [wrong.get(number_of(reply), reply.body) for reply in replies]


def too_few(replies: list[FetchedReply]) -> list[bytes]:
    """Returns no result for the last one."""
    return [reply.body for reply in replies][1:]


def not_a_list(replies: list[FetchedReply]) -> bytes:
    """Returns one result for all replies, which is a common mistake."""
    return b"".join(reply.body for reply in replies)


def hangs(_: list[FetchedReply]) -> list[bytes]:
    """Reports its process and then hangs for ever."""
    Path(os.environ["TRANSFORM_TEST_PIDS"]).joinpath(str(os.getpid())).touch()
    while True:
        time.sleep(0.1)


def slow(replies: list[FetchedReply]) -> list[bytes | None]:
    """Takes as long as a kill needs; every third reply is dropped."""
    folder = Path(os.environ["TRANSFORM_TEST_PIDS"])
    folder.joinpath(str(os.getpid())).touch()
    time.sleep(0.02)
    return [None if number_of(reply) % 3 == 0 else reply.body.upper() for reply in replies]


def takes_its_time(replies: list[FetchedReply]) -> list[bytes]:
    """Takes five milliseconds for each reply."""
    time.sleep(0.005 * len(replies))
    return [reply.body for reply in replies]


def prints(replies: list[FetchedReply]) -> list[bytes]:
    """Prints to both standard streams."""
    sys.stdout.write("said by the function\n")
    sys.stdout.flush()
    return upper(replies)


async def is_a_coroutine(replies: list[FetchedReply]) -> list[bytes]:
    """A coroutine function instead of a plain one."""
    return upper(replies)


class AsItIs:
    """A callable with a state."""

    def __init__(self, suffix: bytes) -> None:
        self._suffix = suffix

    def __call__(self, replies: list[FetchedReply]) -> list[bytes]:
        """Returns the body and the state."""
        return [reply.body + self._suffix for reply in replies]
