"""Requests for listing pages count towards `--rate` and `--rate-per-host`."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from raw_server import Behaviour, Exchange, RawServer, reply

Run = Callable[..., Any]
Raw = Callable[[dict[str, Behaviour]], RawServer]

PAGES = 15
# Requests per second. A burst of a tenth of a second is allowed.
RATE = 10.0
PAGED = ("--listing", "json", "--items-field", "data", "--next-page", "url", "--next-field", "next")
LEAST_SECONDS = (PAGES - 1) / RATE - 0.1


def paged_items(times: list[float]) -> dict[str, Behaviour]:
    """An API with `PAGES` pages of two items, which records the times of requests."""

    def answer(exchange: Exchange) -> bytes:
        times.append(time.monotonic())
        page = int(exchange.target.rpartition("=")[2])
        items = [{"id": number, "url": f"http://127.0.0.1:9/{number}"} for number in (2 * page, 2 * page + 1)]
        following = f"/items?page={page + 1}" if page + 1 < PAGES else None
        return reply(json.dumps({"data": items, "next": following}).encode())

    return {"/items": answer}


@pytest.mark.timing
@pytest.mark.parametrize("option", ["--rate", "--rate-per-host"])
def test_items_of_api_respect_rate(run: Run, raw: Raw, dest: Path, option: str) -> None:
    """Pages of an API come at the rate of `--rate` or `--rate-per-host`."""
    times: list[float] = []
    source = f"{raw(paged_items(times)).url}/items?page=0"
    how = (
        "--listing",
        "json",
        "--items-field",
        "data",
        "--next-page",
        "url",
        "--next-field",
        "next",
        "--store",
        "items",
    )

    ended = run("get", source, dest, *how, "--format", "jsonl", option, f"{RATE:g}")

    assert ended.code == 0, ended.err
    assert len(times) == PAGES
    assert times[-1] - times[0] >= LEAST_SECONDS


@pytest.mark.timing
def test_list_command_respects_rate(run: Run, raw: Raw) -> None:
    """`fetchmill list` respects the rate, too."""
    times: list[float] = []
    source = f"{raw(paged_items(times)).url}/items?page=0"

    ended = run("list", source, *PAGED, "--url-field", "url", "--rate", f"{RATE:g}")

    assert (ended.code, len(ended.out.splitlines())) == (0, 2 * PAGES), ended.err
    assert len(times) == PAGES
    assert times[-1] - times[0] >= LEAST_SECONDS


@pytest.mark.timing
def test_pages_of_bucket_respect_rate(run: Run, raw: Raw) -> None:
    """Pages of a bucket respect the rate, for any number of ranges listed in parallel."""
    times: list[float] = []
    keys = [f"key-{number:02}" for number in range(PAGES)]

    def page(exchange: Exchange) -> bytes:
        times.append(time.monotonic())
        after = parse_qs(urlsplit(exchange.target).query).get("start-after", [""])[0]
        left = [key for key in keys if key > after]
        entries = "".join(f"<Contents><Key>{key}</Key><Size>1</Size></Contents>" for key in left[:1])
        more = str(len(left) > 1).lower()
        return reply(f"<ListBucketResult><IsTruncated>{more}</IsTruncated>{entries}</ListBucketResult>".encode())

    endpoint = raw({"/bucket": page, "/bucket/": page}).url

    ended = run("list", "s3://bucket", "--endpoint-url", endpoint, "--no-sign-request", "--rate", f"{RATE:g}")

    assert (ended.code, ended.out.splitlines()) == (0, keys), ended.err
    # The first request finds the region of the bucket.
    assert times[-1] - times[1] >= (len(times) - 2) / RATE - 0.2
