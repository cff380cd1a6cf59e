"""Byte ranges for tests: lists of parts, and servers that know `Range`."""

import gzip
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import fetchmill
from lists import Row
from raw_server import Behaviour, Exchange, reply

Run = Callable[..., Any]

COLUMNS = ("--offset-column", "offset", "--length-column", "length")
BODY = bytes(random.Random(1).randbytes(1000))


@dataclass(frozen=True)
class Part:
    """A part of a file, and its contents."""

    file: str
    offset: int
    body: bytes

    def row(self, url: str) -> Row:
        """Returns its row in a list."""
        return {"url": f"{url}/{self.file}", "offset": str(self.offset), "length": str(len(self.body))}

    def name(self, url: str) -> str:
        """Returns its default name."""
        return f"{url}/{self.file}#bytes={self.offset}-{self.offset + len(self.body) - 1}"


def write_records(folder: Path, files: int, records: int) -> list[Part]:
    """Writes files like those of Common Crawl: consecutive records, each compressed separately."""
    parts = []
    for number in range(files):
        at, path = 0, folder / f"crawl-{number}.warc.gz"
        with path.open("wb") as file:
            for record in range(records):
                text = f"WARC/1.0\r\nWARC-Target-URI: http://a.test/{number}/{record}\r\n\r\n".encode()
                member = gzip.compress(
                    text + b"%x" % random.Random(record).getrandbits(8 * (record % 500 + 1)), mtime=0
                )
                file.write(member)
                parts.append(Part(path.name, at, member))
                at += len(member)
    random.Random(2).shuffle(parts)
    return parts


def serve_part(body: bytes) -> Behaviour:
    """Answers like a server that knows `Range`."""

    def behave(exchange: Exchange) -> bytes:
        first, last = asked(exchange)
        if first >= len(body):
            return reply(b"", f"Content-Range: bytes */{len(body)}", status="416 No")
        return part(body[first : last + 1], first, min(last, len(body) - 1), len(body))

    return behave


def asked(exchange: Exchange) -> tuple[int, int]:
    """Returns the only range of a request."""
    ranges = re.findall(rb"\r\nrange: *bytes=(\d+)-(\d+)(?=\r\n|$)", exchange.head, re.IGNORECASE)
    assert len(ranges) == 1, exchange.head
    assert b"accept-encoding: identity" in exchange.head.lower()
    return int(ranges[0][0]), int(ranges[0][1])


def part(body: bytes, first: int, last: int, total: object, *fields: str) -> bytes:
    """Returns a reply with a part."""
    return reply(body, f"Content-Range: bytes {first}-{last}/{total}", *fields, status="206 Partial Content")


def get(run: Run, listed: Path, dest: Path, *options: object, format: str = "jsonl") -> Any:  # noqa: ANN401 - as `run`
    """Runs a job of ranges."""
    return run("get", listed, dest, "--format", format, "--allow-private", *COLUMNS, *options)


def kinds(dest: Path) -> dict[str, str | None]:
    """Returns the failure kind of each target, by its path and range."""
    return {
        urlsplit(found.name)._replace(scheme="", netloc="").geturl(): found.kind for found in fetchmill.failures(dest)
    }
