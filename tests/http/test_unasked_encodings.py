"""Unrequested `Content-Encoding`: objects are stored as received, with its name, and listings are decoded."""

import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import brotli
import pyarrow.parquet
import pytest

import fetchmill
from raw_server import Behaviour, RawServer, mirror, page, reply
from stored import FORMATS

Run = Callable[..., Any]

PACKED = gzip.compress(b"packed", mtime=0)
LARGE = gzip.compress(b"large", mtime=0) + bytes(2 << 20)
# The sent body, and the stored encoding.
REPLIES: dict[str, tuple[bytes, list[str], str | None]] = {
    "gzip": (PACKED, ["Content-Encoding: gzip", 'ETag: "e"'], "gzip"),
    "several": (PACKED, ["content-encoding: br, GZIP"], "br, GZIP"),
    "identity": (b"plain", ["Content-Encoding: identity"], None),
    "plain": (b"plain", [], None),
    "staged": (LARGE, ["Content-Encoding: gzip"], "gzip"),
}


@pytest.fixture
def encoded() -> Iterator[RawServer]:
    """A server that always encodes some objects."""
    with RawServer(
        mirror(REPLIES, {name: reply(body, *fields) for name, (body, fields, _) in REPLIES.items()})
    ) as server:
        yield server


def encodings(dest: Path) -> dict[str, str | None]:
    """Returns the encodings that a destination records."""
    with fetchmill.open(dest) as objects:
        return {name: objects.record(name).content_encoding for name in objects}


@pytest.mark.parametrize("format", FORMATS)
def test_unrequested_encoding_is_stored_as_sent_and_recorded(
    run: Run, encoded: RawServer, dest: Path, tmp_path: Path, format: str
) -> None:
    """The encoding is a column, a field or part of the manifest, and an export has it, too."""
    known = {name: encoding for name, (_, _, encoding) in REPLIES.items()}

    ended = run("get", encoded.url, dest, "--format", format)

    assert ended.code == 0, ended.err
    with fetchmill.open(dest) as objects:
        assert {name: objects[name] for name in objects} == {name: body for name, (body, _, _) in REPLIES.items()}
    if format == "files":
        manifests = b"".join(path.read_bytes() for path in (dest / ".fetchmill/manifests").iterdir())
        assert b"fmF3" in manifests
        return
    assert encodings(dest) == known
    lines = [json.loads(line) for line in run("ls", dest, "--json", "--long").out.splitlines()]
    assert format == "tar" or {line["name"]: line.get("content_encoding") for line in lines} == known
    with fetchmill.open(dest) as objects:
        listed = pyarrow.table(objects).select(["name", "content_encoding"]).to_pylist()
    assert {row["name"]: row["content_encoding"] for row in listed} == known
    assert run("verify", dest).code == 0
    exported = tmp_path / "exported"
    assert run("export", dest, exported, "--format", "jsonl" if format == "parquet" else "parquet").code == 0
    assert encodings(exported) == known


def test_parquet_encoding_column_follows_body(run: Run, encoded: RawServer, dest: Path) -> None:
    """The column follows the body even if every target has a row."""
    assert run("get", encoded.url, dest, "--format", "parquet", "--keep-failed").code == 0

    for shard in dest.glob("*.parquet"):
        names = pyarrow.parquet.read_schema(shard).names
        assert names[names.index("body") + 1 :] == ["content_encoding", "outcome", "kind", "detail", "attempts"]


NAMES = [f"n{number}" for number in range(3)]
OBJECTS = {f"/{name}": reply(name.encode()) for name in NAMES}
ENCODED: dict[str, Callable[[bytes], bytes] | None] = {
    "gzip": gzip.compress,
    "br": brotli.compress,
    "utf-8": bytes,
    "br, gzip": None,
}


def listing(way: str) -> tuple[bytes, list[str]]:
    """Returns a listing of NAMES, and the options for it."""
    links = "".join(f'<a href="{name}">{name}</a>' for name in NAMES)
    nodes = [{"name": name, "type": "file", "size": len(name)} for name in NAMES]
    urls = "".join(f"<url><loc>{{url}}/{name}</loc></url>" for name in NAMES)
    return {
        "api": (page(NAMES).split(b"\r\n\r\n", 1)[1], []),
        "index": (f"<html><body><h1>Index of /</h1>{links}</body></html>".encode(), ["--listing", "html"]),
        "nginx-json": (json.dumps(nodes).encode(), ["--listing", "autoindex"]),
        "sitemap": (f"<urlset>{urls}</urlset>".encode(), ["--listing", "sitemap"]),
    }[way]


@pytest.mark.parametrize("encoding", ENCODED)
@pytest.mark.parametrize("way", ["api", "index", "nginx-json", "sitemap"])
def test_encoded_listing_pages_are_decoded(run: Run, dest: Path, way: str, encoding: str) -> None:
    """A single encoding is decoded, an unknown one is ignored, and two encodings give a one-line error."""
    encode = ENCODED[encoding]
    text, options = listing(way)
    with RawServer({}) as server:
        text = text.replace(b"{url}", server.url.encode())
        listed = reply(encode(text) if encode else text, f"Content-Encoding: {encoding}")
        server.routes |= {"/list": listed, "/": listed, "/sitemap.xml": listed, **OBJECTS}
        server.routes |= {f"/get/{name}": reply(name.encode()) for name in NAMES}
        source = f"{server.url}/sitemap.xml" if way == "sitemap" else server.url

        ended = run("get", source, dest, *options, "--allow-private", "--format", "jsonl")

    if encode:
        assert ended.code == 0, ended.err
        with fetchmill.open(dest) as objects:
            assert sorted(objects.values()) == [name.encode() for name in NAMES]
    else:
        assert ended.code not in {0, 3}
        assert "the Content-Encoding is br, gzip" in ended.err


def test_listing_with_damaged_encoding_fails(run: Run, dest: Path) -> None:
    """The part that could be decoded does not count as a listing."""
    whole = gzip.compress(page(NAMES).split(b"\r\n\r\n", 1)[1], mtime=0)
    for damaged in (whole[:-9], whole[:-3] + b"xyz", b""):
        behaviours: dict[str, Behaviour] = {"/list": reply(damaged, "Content-Encoding: gzip")}
        with RawServer(behaviours) as server:
            ended = run("get", server.url, dest)

        assert ended.code == 4, ended.err
        assert "bad-encoding" in ended.err
