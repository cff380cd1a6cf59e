"""HTTP_1_1_REQUIRED: requests that a server refuses over HTTP/2 are repeated over HTTP/1.1."""

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest

import fetchmill
from certificates import Certificates
from http1_only_server import Http1OnlyServer

COUNT = 20


def by_get(urls: list[str], folder: Path, ca_file: str) -> dict[str, bytes]:
    """Uses `fetchmill.get` with a list."""
    source = folder / "urls.txt"
    source.write_text("".join(f"{url}\n" for url in urls))
    fetchmill.get(
        source, folder / "out", format="jsonl", allow_private=True, concurrency=8, ca_file=ca_file, attempts=1
    )
    return dict(fetchmill.open(folder / "out").items())


def by_check(urls: list[str], folder: Path, ca_file: str) -> dict[str, bytes]:
    """Uses `fetchmill.check`: the version of the last reply counts as the body."""
    source, results = folder / "urls.txt", folder / "results.jsonl"
    source.write_text("".join(f"{url}\n" for url in urls))
    report = fetchmill.check(source, results, allow_private=True, ca_file=ca_file, attempts=1)
    assert report.counts == {"200": COUNT}
    return {url: url.encode()[url.index("/", 8) :] for url in urls}


def by_stream(urls: list[str], _: Path, ca_file: str) -> dict[str, bytes]:
    """Uses `fetchmill.stream`."""
    return {
        reply.url: bytes(reply.body) for reply in fetchmill.stream(urls, concurrency=8, ca_file=ca_file, attempts=1)
    }


@pytest.mark.parametrize("refusal", ["stream", "connection"])
@pytest.mark.parametrize("fetch", [by_get, by_check, by_stream], ids=["get", "check", "stream"])
def test_origin_refusing_http2_is_requested_over_http1(
    fetch: Callable[..., dict[str, bytes]],
    refusal: Literal["stream", "connection"],
    certificates: Certificates,
    tmp_path: Path,
) -> None:
    """Each object is fetched once, and only requests that were already in flight used HTTP/2."""
    with Http1OnlyServer(certificates.good, refusal) as server:
        urls = [f"{server.url}/{number}" for number in range(COUNT)]
        found = fetch(urls, tmp_path, str(certificates.ca_file))
    assert found == {url: f"/{number}".encode() for number, url in enumerate(urls)}
    assert server.requests["http/1.1"] == COUNT
    assert 1 <= server.requests["h2"] <= COUNT


def test_unrepeatable_request_fails_when_http1_is_required(certificates: Certificates) -> None:
    """The server may have acted on the request. The next request uses HTTP/1.1."""
    ca_file = str(certificates.ca_file)
    with Http1OnlyServer(certificates.good, "stream") as server, fetchmill.Client(ca_file=ca_file) as client:
        posted = client.get(fetchmill.Request(f"{server.url}/a", method="POST"))
        got = client.get(fetchmill.Request(f"{server.url}/b", method="POST"))
    assert posted.error is not None
    assert (posted.error.kind, posted.error.reason) == (
        "reset",
        "the server requires HTTP/1.1 (HTTP_1_1_REQUIRED)",
    )
    assert (got.status, bytes(got.body), dict(server.requests)) == (200, b"/b", {"h2": 1, "http/1.1": 1})
