"""`--listing links` takes the links below SOURCE on any HTML page, each file and folder once."""

import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import fetchmill
from raw_server import Behaviour, Exchange, RawServer, reply

Run = Callable[..., Any]
Raw = Callable[[Mapping[str, Behaviour]], RawServer]

LINKS = ("--listing", "links", "--no-robots")
# Listings of several servers, shortened: the folder `/top/` with the file `a.txt` and the folder `in`.
PAGES = {
    "caddy": '<!DOCTYPE html><html><head><title>top</title></head><body><h1><a href="/">/</a><a href="./">top</a></h1>'
    '<a href="./?sort=size&order=asc">Size</a><a href="./in/"><b>in</b></a><a href="./a.txt">a.txt</a></body></html>',
    "iis": '<html><head><title>host - /top/</title></head><body><H1>host - /top/</H1><pre><A HREF="/">[To Parent]'
    '</A><br>1/15/2024 9:21 AM &lt;dir&gt; <A HREF="/top/in/">in</A><br>2 <A HREF="/top/a.txt">a.txt</A></pre></html>',
    "go": '<!doctype html>\n<meta name="viewport">\n<pre>\n<a href="a.txt">a.txt</a>\n<a href="in/">in/</a>\n</pre>\n',
    "jetty": '<!DOCTYPE html><html><head><title>Directory: /top/</title></head><table><tr><th><a href="?C=N&O=D">Name'
    '</a></th></tr><tr><td><a href="/top/a.txt">a.txt&nbsp;</a></td><tr><td><a href="/top/in/">in/</a></table></html>',
    "darkhttpd": "<html><head><title>/top/</title></head><body><h1>/top/</h1><pre>"
    '<a href="..">..</a>/\n<a href="in/">in</a>/\n<a href="a.txt">a.txt</a> 2\n</pre></body></html>',
    "subversion": "<html><head><title>project - Revision 7: /top</title></head><body><ul>"
    '<li><a href="../">..</a></li><li><a href="in/">in/</a></li><li><a href="a.txt">a.txt</a></li></ul></body></html>',
    "pep503": '<!DOCTYPE html><h1>Links for top</h1><a href="a.txt#sha256=00">a.txt</a><a href="in/">in</a></html>',
    "apache-own-heading": "<html><head><title>Our mirror</title></head><body><h1>Our mirror</h1><pre>"
    '<a href="?C=N;O=D">Name</a><a href="/">Parent Directory</a>\n<a href="a.txt">a.txt</a>\n<a href="in/">in/</a>',
}


def links(*hrefs: str, head: str = "") -> bytes:
    """Returns a 200 reply with a page of these links, without a heading."""
    anchors = "".join(f'<a href="{href}">a link</a>\n' for href in hrefs)
    return reply(f"<!doctype html>{head}{anchors}".encode())


def files(dest: Path) -> dict[str, bytes]:
    """Returns the fetched files by name."""
    paths = [path for path in dest.rglob("*") if path.is_file() and ".fetchmill" not in path.parts]
    return {str(path.relative_to(dest)): path.read_bytes() for path in paths}


@pytest.mark.parametrize("server", PAGES)
def test_pages_of_any_server_are_walked(run: Run, raw: Raw, dest: Path, server: str) -> None:
    """Folders of the page are walked, too; nothing above or outside SOURCE is requested."""
    routes = {"/top/": reply(PAGES[server].encode()), "/top/a.txt": reply(b"a")}
    source = raw({**routes, "/top/in/": links("../", "b"), "/top/in/b": reply(b"b")})

    ended = run("get", f"{source.url}/top/", dest, *LINKS)

    assert ended.code == 0, ended.err
    assert "2 listed = 2 fetched + 0 absent + 0 failed + 0 skipped\n" in ended.err
    assert files(dest) == {"a.txt": b"a", "in/b": b"b"}
    assert sorted(source.requests) == ["/top/", "/top/a.txt", "/top/in/", "/top/in/b"]


def test_links_outside_folder_are_skipped(run: Run, raw: Raw, dest: Path) -> None:
    """Only links below SOURCE on its own origin are requested."""
    elsewhere = raw({})
    hostile = (
        f"{elsewhere.url}/top/x",
        "//127.0.0.2/top/x",
        "/etc/passwd",
        "../x",
        "/topmost/x",
        "in/../../x",
        "%2e%2e/x",
        "a%2fb",
        "in/%00",
        "in//x",
        "ok?download",
        "in/?all",
        "javascript:alert(1)",
        "%zz",
    )
    own = ("../", "./", "/", "?C=N", "#top", "/top/?sort=size")
    source = raw({"/top/": links(*own, *hostile, "ok", "ok#x", "./ok"), "/top/ok": reply(b"1")})

    ended = run("get", f"{source.url}/top", dest, *LINKS)

    assert ended.code == 0, ended.err
    skipped = len(hostile)
    assert f"{skipped + 1} listed = 1 fetched + 0 absent + 0 failed + {skipped} skipped\n" in ended.err
    assert (sorted(source.requests), elsewhere.requests) == (["/top/", "/top/ok"], [])


@pytest.mark.parametrize("format", ["files", "jsonl"])
def test_linked_files_and_folders_are_taken_once(run: Run, raw: Raw, dest: Path, format: str) -> None:
    """Each file and folder is requested once, although several pages link to it before and after it was listed."""
    pages = {"/": ("b/", "b/c/", "b/c/1", "2"), "/b/": ("c/", "c/1", "c/2", "../2"), "/b/c/": ("1", "2", "/b/", "./")}
    routes: dict[str, Behaviour] = {path: links(*hrefs) for path, hrefs in pages.items()}
    source = raw({**routes, **{path: reply(path.encode()) for path in ("/b/c/1", "/b/c/2", "/2")}})

    ended = run("get", source.url, dest, *LINKS, "--format", format)

    assert ended.code == 0, ended.err
    assert "4 listed = 3 fetched + 0 absent + 0 failed + 1 skipped\n" in ended.err
    assert {path: source.count(path) for path in source.requests} == dict.fromkeys(
        [*routes, "/b/c/1", "/b/c/2", "/2"], 1
    )
    assert {name: bytes(body) for name, body in fetchmill.open(dest).items()} == {
        "2": b"/2",
        "b/c/1": b"/b/c/1",
        "b/c/2": b"/b/c/2",
    }


def test_endlessly_deep_listing_ends_at_level_64(run: Run, raw: Raw, dest: Path) -> None:
    """A listing in which each folder links to a deeper one ends at level 64."""
    source = raw({"/" + "x/" * depth: links("x/") for depth in range(66)})

    ended = run("get", source.url, dest, *LINKS)

    assert ended.code == 3, ended.err
    assert len(source.requests) == 65
    assert "deeper than 64" in next(iter(fetchmill.failures(dest))).detail


def test_links_are_resolved_against_redirect_and_base(run: Run, raw: Raw, dest: Path) -> None:
    """Redirects and base URLs must stay within the origin; a redirect out of the folder is refused."""
    moved = {
        "/top/": reply(b"", "Location: /top/v2/index.html", status="302 Found"),
        "/top/v2/index.html": links("a", "../in/"),
    }
    based = {"/top/in/": links("b", head='<base href="/top/in/deep/">'), "/top/in/deep/b": reply(b"b")}
    source = raw(
        {**moved, **based, "/top/v2/a": reply(b"a"), "/away/": reply(b"", "Location: /top/v2/", status="302 Found")}
    )

    ended = run("get", f"{source.url}/top", dest, *LINKS)
    away = run("get", f"{source.url}/away", dest.with_name("away"), *LINKS)

    assert ended.code == 0, ended.err
    assert files(dest) == {"v2/a": b"a", "in/deep/b": b"b"}
    assert away.code == 4


REFUSED: Mapping[str, tuple[bytes, str]] = {
    "json": (reply(b'{"a": 1}'), "not HTML"),
    "empty": (reply(b""), "not HTML"),
    "base-elsewhere": (links("a", head="<base href=//127.0.0.2/>"), "<base> is not a URL, or points to another origin"),
    "moved": (reply(b"", "Location: /a", status="302 Found"), "outside this folder; list the new URL instead"),
}


@pytest.mark.parametrize("refused", REFUSED)
def test_folder_without_links_fails_alone(run: Run, raw: Raw, dest: Path, refused: str) -> None:
    """A folder without a page of links fails alone; everything else is fetched."""
    answer, detail = REFUSED[refused]
    source = raw({"/": links("a", "bad/"), "/a": links("x"), "/bad/": answer})

    ended = run("get", source.url, dest, *LINKS)

    assert ended.code == 3, ended.err
    failures = [(failure.name, failure.kind) for failure in fetchmill.failures(dest)]
    assert failures == [("bad/", "listing")]
    assert detail in next(iter(fetchmill.failures(dest))).detail
    assert list(files(dest)) == ["a"]


def test_truncated_page_without_length_is_detected(run: Run, raw: Raw, dest: Path) -> None:
    """A page without a length must have its closing tag, because a closed connection may have truncated it."""
    head = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"

    def cut_once(exchange: Exchange) -> bytes | None:
        exchange.send(head + (b"<html><a href=a>a</a>" if exchange.number == 1 else b"<html><a href=a>a</a></html>"))
        exchange.close()
        return None

    source = raw({"/": cut_once, "/a": reply(b"a")})

    ended = run("get", source.url, dest, *LINKS)

    assert (ended.code, source.count("/")) == (0, 2), ended.err


def test_robots_txt_is_obeyed_in_link_listing(run: Run, raw: Raw, dest: Path) -> None:
    """robots.txt applies to links in subfolders, too."""
    routes = {"/": links("a", "in/b", "out/"), "/a": reply(b"a"), "/in/b": reply(b"b")}
    source = raw({**routes, "/robots.txt": reply(b"User-agent: *\nDisallow: /in/\nDisallow: /out/\n")})

    ended = run("get", source.url, dest, "--listing", "links")

    assert ended.code == 0, ended.err
    assert list(files(dest)) == ["a"]
    assert sorted(source.requests) == ["/", "/a", "/robots.txt"]


def test_refused_index_page_error_suggests_links(run: Run, raw: Raw, dest: Path) -> None:
    """The error of a refused index page ends with the hint to try `--listing links`."""
    source = raw({"/": links("a"), "/list": reply(status="404 No"), "/robots.txt": reply(status="404 No")})

    for way in ("auto", "html"):
        ended = run("get", source.url, dest, "--listing", way)
        assert ended.code == 4
        assert ended.err.rstrip().endswith("try --listing links"), ended.err


def test_sync_keeps_unlisted_objects_and_refuses_delete(run: Run, raw: Raw, dest: Path) -> None:
    """`--delete` is refused, because a page with fewer links does not prove that an object is gone."""
    source = raw({"/": links("a", "in/b"), "/a": reply(b"a"), "/in/b": reply(b"b")})

    refused = run("sync", source.url, dest, *LINKS, "--delete")
    first = run("sync", source.url, dest, *LINKS)
    source.routes["/"] = links("a")
    second = run("sync", source.url, dest, *LINKS)

    assert refused.code == 2
    assert "--delete cannot be used with --listing links" in refused.err
    assert (first.code, second.code) == (0, 0), second.err
    assert files(dest) == {"a": b"a", "in/b": b"b"}


def test_list_writes_manifest_of_links(run: Run, raw: Raw, tmp_path: Path) -> None:
    """`list` writes a manifest of the links."""
    source = raw({"/": links("a", "in/"), "/in/": links("b", "../a")})

    ended = run("list", source.url, tmp_path / "names.csv", *LINKS)

    assert ended.code == 0, ended.err
    assert [line.split(",")[0] for line in (tmp_path / "names.csv").read_text().splitlines()[1:]] == ["a", "in/b"]


def test_killed_walk_fetches_nothing_twice(run: Run, raw: Raw, dest: Path, start: Callable[..., Any]) -> None:
    """The second run knows what the first one listed."""

    def list_last(exchange: Exchange) -> bytes | None:
        exchange.stall()
        return None

    routes: dict[str, Behaviour] = {
        "/": links("a", "later/z", "in/", "later/"),
        "/in/": links("a"),
        "/later/": list_last,
    }
    objects = {path: reply(path.encode()) for path in ("/a", "/in/a", "/later/z")}
    source = raw({**routes, **objects})
    command = ("get", source.url, dest, *LINKS, "--format", "jsonl")
    process = start(*command)
    while not source.count("/later/") or not all(source.count(path) for path in objects):
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    source.routes["/later/"] = links("z", "../later/z", "./")
    pages = {path: source.count(path) for path in ("/", "/in/")}

    ended = run(*command)

    assert ended.code == 0, ended.err
    assert sorted(fetchmill.open(dest)) == ["a", "in/a", "later/z"]
    assert fetchmill.status(dest).fetched == 3
    assert {path: source.count(path) for path in ("/", "/in/")} == pages
