"""Functions that tests pass to the engines as `fetch`, in a separate file that worker processes can import.

Those whose names end in `soon` are coroutine functions with the same behaviour.
"""

import asyncio
import os
import signal
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import aiohttp
import requests
import urllib3


class Target(Protocol):
    """The argument of a function."""

    @property
    def sequence(self) -> int: ...  # noqa: D102 - see the class
    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def url(self) -> str: ...  # noqa: D102
    @property
    def attempt(self) -> int: ...  # noqa: D102

    def headers(self) -> list[tuple[str, str]]:
        """Returns the fields of its request."""


class Reply(NamedTuple):
    """A reply, which a function may return instead of bytes."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def body_of(name: str) -> bytes:
    """Returns the expected body for a name."""
    return f"the body of {name}\n".encode()


TOLD = {"content-type": "text/x-told", "ETag": '"told"', "Last-Modified": "Fri, 13 Feb 2015 12:34:56 GMT"}


def give(target: Target) -> object:
    """Returns what the target's name says: a body or a reply; or raises, or ends the process."""
    match target.name.partition("-")[0]:
        case "reply":
            return Reply(200, TOLD, body_of(target.name))
        case "status":
            return Reply(int(target.name.partition("-")[2]), {}, b"not stored")
        case "error":
            raise LookupError(f"there is no {target.name}\nin two lines")
        case "late":
            if target.attempt < 3:
                raise ConnectionError("not yet")
        case "number":
            return 5
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
    return body_of(target.name)


def mistake(target: Target) -> bytes:
    """Uses an undefined name, and notes the call below NOTES."""
    with (Path(os.environ["NOTES"]) / "calls").open("a", encoding="utf-8") as calls:
        calls.write(f"{target.name}\n")
    return undefined_name  # type: ignore[name-defined,no-any-return] # noqa: F821


async def mistake_soon(target: Target) -> bytes:
    """Does the same."""
    return mistake(target)


def give_or_mistake(target: Target) -> bytes:
    """Has a bug that only some targets trigger, after others that are good."""
    return body_of(target.name) + (None if target.name.startswith("odd") else b"")  # type: ignore[operator]


async def give_or_mistake_soon(target: Target) -> bytes:
    """Does the same."""
    return give_or_mistake(target)


def get_with_urllib3(target: Target) -> object:
    """Returns a urllib3 reply, whose body is its `data`."""
    return urllib3.request("GET", target.url, headers=dict(target.headers()), retries=False)


async def give_soon(target: Target) -> object:
    """Does the same."""
    await asyncio.sleep(0)
    return give(target)


def tell_target(target: Target) -> bytes:
    """Returns the target's properties."""
    names = sorted(name.lower() for name, _value in target.headers())
    return f"{target.sequence} {target.name} {target.url} {target.attempt} {names}".encode()


async def tell_target_soon(target: Target) -> bytes:
    """Does the same."""
    return tell_target(target)


def give_slowly(target: Target) -> bytes:
    """Returns after up to some hundredths of a second, always the same time for a target."""
    time.sleep(_pause(target))
    return body_of(target.name)


async def give_slowly_soon(target: Target) -> bytes:
    """Does the same."""
    await asyncio.sleep(_pause(target))
    return body_of(target.name)


def _pause(target: Target) -> float:
    return (target.sequence % 7) * 0.002


# --- what a worker opens -----------------------------------------------------------------------------------------


def open_notes() -> Path:
    """Opens a file of this worker in the folder that the environment names."""
    notes = Path(os.environ["NOTES"], f"{os.getpid()}-{threading.get_native_id()}")
    _note(notes, "start")
    return notes


async def open_notes_soon() -> Path:
    """Does the same."""
    return open_notes()


def note(target: Target, notes: Path) -> bytes:
    """Writes a line for a target; the body is the name of the file."""
    time.sleep(0.002)
    _note(notes, target.name)
    return notes.name.encode()


async def note_soon(target: Target, notes: Path) -> bytes:
    """Does the same."""
    await asyncio.sleep(0.002)
    _note(notes, target.name)
    return notes.name.encode()


def close_notes(notes: Path) -> None:
    """Writes the last line of the file."""
    _note(notes, "end")


async def close_notes_soon(notes: Path) -> None:
    """Does the same."""
    close_notes(notes)


def _note(notes: Path, word: str) -> None:
    with notes.open("a") as file:
        file.write(f"{word}\n")


def open_slowly() -> None:
    """Takes time, like creating clients of some services."""
    time.sleep(0.05)


def give_with_client(target: Target, _client: None) -> bytes:
    """Takes a moment."""
    time.sleep(0.01)
    return body_of(target.name)


def refuse_to_start() -> None:
    """Fails to start."""
    raise PermissionError("no client for you")


async def refuse_to_start_soon() -> None:
    """Does the same."""
    refuse_to_start()


# --- clients that people have ------------------------------------------------------------------------------------


def get_with_requests(target: Target, session: requests.Session) -> requests.Response:
    """Returns the library's own reply."""
    return session.get(target.url, headers=dict(target.headers()), timeout=10)


def close_session(session: requests.Session) -> None:
    """Closes its connections."""
    session.close()


async def open_aiohttp() -> aiohttp.ClientSession:
    """Opens it in the loop that uses it."""
    return aiohttp.ClientSession()


async def get_with_aiohttp(target: Target, session: aiohttp.ClientSession) -> object:
    """Returns status, header fields and body."""
    async with session.get(target.url, headers=dict(target.headers())) as reply:
        return Reply(reply.status, reply.headers, await reply.read())


async def close_aiohttp(session: aiohttp.ClientSession) -> None:
    """Closes its connections."""
    await session.close()


def no_coroutine(_target: Any) -> bytes:  # noqa: ANN401 - it is never called
    """A plain function, for engines that need a coroutine function."""
    raise AssertionError("nobody calls it")


async def coroutine(_target: Any) -> bytes:  # noqa: ANN401
    """A coroutine function, for engines that need a plain one."""
    raise AssertionError("nobody calls it")
