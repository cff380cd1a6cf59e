"""Functions for tests of transforms: a transform process imports them from here."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from fetchmill import FetchedReply


def upper(replies: list[FetchedReply]) -> list[bytes]:
    """Bytes instead of the body."""
    return [reply.body.upper() for reply in replies]


def twice_as_a_generator(replies: list[FetchedReply]) -> Iterator[bytes]:
    """The body and once more the body."""
    for reply in replies:
        yield reply.body * 2


def number_of(reply: FetchedReply) -> int:
    """What a synthetic object is called behind its name."""
    return int(reply.name.rpartition("-")[2])


def odd_only(replies: list[FetchedReply]) -> list[bytes | None]:
    """Drops every second one."""
    return [reply.body if number_of(reply) % 2 else None for reply in replies]


_seen: set[str] = set()


def refuse_the_seventh(replies: list[FetchedReply]) -> Iterator[bytes | Exception]:
    """Gives an exception for one reply, and raises when it gets a reply again."""
    for reply in replies:
        if reply.name in _seen:
            raise RuntimeError(f"{reply.name} came twice")
        _seen.add(reply.name)
        yield ValueError("not this one") if number_of(reply) == 7 else b"1"


def facts(replies: list[FetchedReply]) -> list[bytes]:
    """What a reply tells, one line."""
    return [
        f"{reply.name} {reply.url} {reply.status} {len(reply.body)} {reply.content_type} {reply.etag} "
        f"{reply.last_modified}".encode()
        for reply in replies
    ]


def columns(replies: list[FetchedReply]) -> list[dict[str, object]]:
    """A value of each kind, and a body for some."""
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
    """How many replies came at once."""
    return [str(len(replies)).encode() for _ in replies]


def large(replies: list[FetchedReply]) -> list[bytes]:
    """Two million bytes for each, and what came in, once for each."""
    return [reply.body[:1] * 2_000_000 for reply in replies]


def small(replies: list[FetchedReply]) -> list[bytes | None]:
    """A few bytes of a body that may be large; odd ones are dropped."""
    return [None if number_of(reply) % 2 else f"{len(reply.body)}".encode() for reply in replies]


def raises_for_seven(replies: list[FetchedReply]) -> list[bytes]:
    """An error for one of them."""
    if any(number_of(reply) == 7 for reply in replies):
        raise LookupError("there is no\nseven")
    return upper(replies)


def dies_for_seven(replies: list[FetchedReply]) -> list[bytes]:
    """The end of the process for one of them, by a signal."""
    if any(number_of(reply) == 7 for reply in replies):
        os.kill(os.getpid(), signal.SIGKILL)
    return upper(replies)


def exits_for_seven(replies: list[FetchedReply]) -> list[bytes]:
    """The same without a signal, while a child of it holds all descriptors that it may."""
    if any(number_of(reply) == 7 for reply in replies):
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(5)"], close_fds=False)
        os._exit(3)
    return upper(replies)


def of_no_use(replies: list[FetchedReply]) -> list[object]:
    """What is no result, in all kinds; the rest is as it was."""
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
    """No result for the last."""
    return [reply.body for reply in replies][1:]


def not_a_list(replies: list[FetchedReply]) -> bytes:
    """One result for all: a mistake that is easily made."""
    return b"".join(reply.body for reply in replies)


def hangs(_: list[FetchedReply]) -> list[bytes]:
    """For ever, once it has told where it is."""
    Path(os.environ["TRANSFORM_TEST_PIDS"]).joinpath(str(os.getpid())).touch()
    while True:
        time.sleep(0.1)


def slow(replies: list[FetchedReply]) -> list[bytes | None]:
    """As long as a kill needs; every third is dropped."""
    folder = Path(os.environ["TRANSFORM_TEST_PIDS"])
    folder.joinpath(str(os.getpid())).touch()
    time.sleep(0.02)
    return [None if number_of(reply) % 3 == 0 else reply.body.upper() for reply in replies]


def takes_its_time(replies: list[FetchedReply]) -> list[bytes]:
    """Five milliseconds for each."""
    time.sleep(0.005 * len(replies))
    return [reply.body for reply in replies]


def prints(replies: list[FetchedReply]) -> list[bytes]:
    """What it says, to whoever listens."""
    sys.stdout.write("said by the function\n")
    sys.stdout.flush()
    return upper(replies)


async def is_a_coroutine(replies: list[FetchedReply]) -> list[bytes]:
    """No plain function."""
    return upper(replies)


class AsItIs:
    """A callable with a state."""

    def __init__(self, suffix: bytes) -> None:
        self._suffix = suffix

    def __call__(self, replies: list[FetchedReply]) -> list[bytes]:
        """The body and the state."""
        return [reply.body + self._suffix for reply in replies]
