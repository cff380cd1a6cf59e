"""Sitemap indexes that lead to other indexes are followed up to a depth, each once, also after a kill."""

import gzip
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import fetchmill
from raw_server import Behaviour, Exchange, RawServer, reply

Run = Callable[..., Any]
Raw = Callable[[Mapping[str, Behaviour]], RawServer]


def index(server: RawServer, *paths: str) -> bytes:
    """Returns an index of these sitemaps."""
    entries = "".join(f"<sitemap><loc>{server.url}{path}</loc></sitemap>" for path in paths)
    return f"<sitemapindex>{entries}</sitemapindex>".encode()


def urls(server: RawServer, *paths: str) -> bytes:
    """Returns a sitemap of these URLs."""
    entries = "".join(f"<url><loc>{server.url}{path}</loc></url>" for path in paths)
    return f"<urlset>{entries}</urlset>".encode()


def fetched(dest: Path) -> list[bytes]:
    """Returns the fetched objects, whose bodies are their paths."""
    return sorted(bytes(body) for body in fetchmill.open(dest).values())


def test_nested_indexes_are_followed_once(run: Run, raw: Raw, dest: Path) -> None:
    """Indexes that lead in a circle are followed once each. Text and gzip sitemaps work at any depth."""
    source = raw({path: reply(path.encode()) for path in ("/a", "/b", "/c")})
    maps = {
        "/sitemap.xml": index(source, "/m/1.xml", "/deep/m/2.xml"),
        "/m/1.xml": index(source, "/deep/m/2.xml", "/sitemap.xml", "/m/1.xml", "/m/text.txt"),
        "/deep/m/2.xml": gzip.compress(index(source, "/m/1.xml", "/m/3.xml.gz", "/m/text.txt")),
        "/m/3.xml.gz": gzip.compress(urls(source, "/b", "/c")),
        "/m/text.txt": f"{source.url}/a\n".encode(),
    }
    source.routes |= {path: reply(body) for path, body in maps.items()}

    ended = run("get", f"{source.url}/sitemap.xml", dest, "--format", "jsonl")

    assert ended.code == 0, ended.err
    assert "3 listed = 3 fetched" in ended.err
    assert fetched(dest) == [b"/a", b"/b", b"/c"]
    assert {path: source.count(path) for path in maps} == dict.fromkeys(maps, 1)


def test_sixth_nested_index_fails(run: Run, raw: Raw, dest: Path) -> None:
    """An index below five others fails, but a sitemap of URLs at that depth is read."""
    source = raw({"/a": reply(b"/a")})
    source.routes |= {f"/{depth}.xml": reply(index(source, f"/{depth + 1}.xml")) for depth in range(9)}
    source.routes["/4.xml"] = reply(index(source, "/5.xml", "/urls.xml"))
    source.routes["/urls.xml"] = reply(urls(source, "/a"))

    ended = run("get", f"{source.url}/0.xml", dest, "--format", "jsonl")

    assert ended.code == 3, ended.err
    failures = {failure.name: failure.detail for failure in fetchmill.failures(dest)}
    assert list(failures) == ["5.xml/"]
    assert "the sitemap index is nested too deeply (more than 5 levels)" in failures["5.xml/"]
    assert (fetched(dest), source.count("/6.xml")) == ([b"/a"], 0)


def test_nested_indexes_resume_after_kill(run: Run, raw: Raw, dest: Path, start: Callable[..., Any]) -> None:
    """Sitemaps that were read are not requested again, and the depth is kept."""
    source = raw({path: reply(path.encode()) for path in ("/a", "/b")})

    def stall(exchange: Exchange) -> bytes | None:
        exchange.stall()
        return None

    source.routes |= {
        "/0.xml": reply(index(source, "/1.xml")),
        "/1.xml": reply(index(source, "/2.xml", "/urls.xml")),
        "/2.xml": reply(index(source, "/3-urls.xml", "/4.xml", "/1.xml")),
        "/3-urls.xml": reply(urls(source, "/a")),
        "/4.xml": stall,
    }
    command = ("get", f"{source.url}/0.xml", dest, "--format", "jsonl")
    process = start(*command)
    while not (source.count("/4.xml") and source.count("/a")):
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    # At depth 3, two more indexes are followed, and the third one is refused.
    source.routes |= {
        "/4.xml": reply(index(source, "/5.xml", "/0.xml", "/3-urls.xml")),
        "/5.xml": reply(index(source, "/6.xml")),
        "/6.xml": reply(index(source, "/7.xml")),
        "/urls.xml": reply(urls(source, "/b")),
    }

    ended = run(*command)

    assert ended.code == 3, ended.err
    assert fetched(dest) == [b"/a", b"/b"]
    assert [failure.name for failure in fetchmill.failures(dest)] == ["6.xml/"]
    counts = {path: source.count(path) for path in ("/0.xml", "/1.xml", "/2.xml", "/3-urls.xml", "/7.xml")}
    assert counts == {"/0.xml": 1, "/1.xml": 1, "/2.xml": 1, "/3-urls.xml": 1, "/7.xml": 0}
