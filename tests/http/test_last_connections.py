"""At the end of a job, connections that would rest for long are ended by one more request instead.

One object takes over a second. After that, several replies on a connection are certain only after twice that time, or
when the server has closed the connection.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import fetchmill
from raw_server import Behaviour, Exchange, RawServer, reply
from stored import read_objects

Raw = Callable[..., RawServer]

# Replies after which the origin counts as known.
OBJECTS = 100
# Longer than the longest rest, and too large to be requested again because it is slow.
SLOW_SECONDS, LARGE = 1.2, 100_000
ONE_CONNECTION: dict[str, Any] = {"format": "jsonl", "concurrency": 1, "allow_private": True}


def slow(exchange: Exchange) -> None:
    """Sends a body with a pause in it."""
    text = reply(bytes(LARGE))
    exchange.send(text[:-1], text[-1:], pause=SLOW_SECONDS)


def paths() -> list[str]:
    """Returns the paths of the fast objects; each body is its path."""
    return [f"/{number:03}" for number in range(OBJECTS)]


def fetched(server: RawServer, folder: Path) -> dict[str, bytes]:
    """Fetches the slow object, and then the fast ones."""
    urls = folder / "urls.txt"
    urls.write_text("".join(f"{server.url}{path}\n" for path in ["/slow", *paths()]))
    report = fetchmill.get(str(urls), folder / "out", **ONE_CONNECTION)
    assert (report.fetched, report.failed) == (OBJECTS + 1, 0)
    bodies = dict(read_objects(folder / "out", "jsonl"))
    return {f"/{name.rpartition('/')[2]}": body for name, body in bodies.items()}


def test_last_object_is_repeated_to_close_its_connection(raw: Raw, tmp_path: Path) -> None:
    """The job does not wait until the connection has been silent for long enough."""
    heads: list[bytes] = []

    def last(exchange: Exchange) -> bytes:
        heads.append(exchange.head)
        return reply(exchange.target.encode())

    routes: dict[str, Behaviour] = {path: reply(path.encode()) for path in paths()}
    server = raw({**routes, "/slow": slow, paths()[-1]: last})

    bodies = fetched(server, tmp_path)

    assert {path: bodies[path] for path in paths()} == {path: path.encode() for path in paths()}
    assert b"connection: close" not in heads[0].lower()
    assert b"connection: close" in heads[-1].lower()


def test_unsolicited_response_is_detected_at_job_end(raw: Raw, tmp_path: Path) -> None:
    """After such a response, each reply belongs to the previous request. The last request reveals this."""

    def too_many(exchange: Exchange) -> None:
        extra = [reply(b"of nobody")] if exchange.number == 1 else []
        exchange.send(reply(exchange.target.encode()), *extra, pause=0.02)

    routes: dict[str, Behaviour] = {path: reply(path.encode()) for path in paths()}
    server = raw({**routes, "/slow": slow, paths()[80]: too_many})

    bodies = fetched(server, tmp_path)

    assert {path: bodies[path] for path in paths()} == {path: path.encode() for path in paths()}
    assert server.count(paths()[80]) > 1
