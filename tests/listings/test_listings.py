"""The listing type is detected; index pages and sitemaps of real and hostile servers are read.

`tests/listings/index_pages` has recorded pages for a folder with the odd names of `trees`. They come from Debian's
Apache 2.4.71 (with the `IndexOptions` in their names) and from lighttpd 1.4.69. Pages of nginx come from nginx itself,
also in test_mirror_nginx.py, and pages of Python from Python's server.
"""

import contextlib
import gzip
import json
import os
import re
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote
from xml.sax.saxutils import escape

import pytest

import fetchmill
from broken_bodies import MIB, BrokenObject
from check_results import read_rows
from engines import ENGINES, engine_options, limit_options
from fetchmill.testing import Server
from nginx import Nginx, Site
from ports import free_ports
from raw_server import Exchange, RawServer, page, reply
from trees import ODD_NAMES, differences, write

Run = Callable[..., Any]
Raw = Callable[..., RawServer]
Serve = Callable[..., Server]

PAGES = Path(__file__).with_name("index_pages")
SERVER_START_SECONDS = 60.0
# Names that Python's server returns unchanged.
TEXTS = [name.decode() for name in ODD_NAMES if name.isascii() or name.decode(errors="ignore").encode() == name]


def index(*links: str, end: str = "</html>") -> bytes:
    """Returns a 200 reply with an index page of these links."""
    anchors = "".join(f'<a href="{link}">a name</a>\n' for link in links)
    return reply(f"<html><title>Index of /</title><body>{anchors}</body>{end}".encode())


def listing_of(dest: Path) -> str:
    """Returns the listing type in the journal."""
    with contextlib.closing(sqlite3.connect(dest / ".fetchmill/job.sqlite")) as journal:
        (identity,) = journal.execute("SELECT value FROM job WHERE key = 'identity'").fetchone()
    return str(json.loads(identity)["listing"])


@contextlib.contextmanager
def python_server(folder: Path) -> Iterator[str]:
    """Runs `python -m http.server` over a folder. Returns its URL."""
    (port,) = free_ports(1)
    command = (sys.executable, "-m", "http.server", "--bind", "127.0.0.1", "--directory", str(folder), str(port))
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + SERVER_START_SECONDS
        while True:
            assert process.poll() is None
            assert time.monotonic() < deadline
            with contextlib.suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
                break
            time.sleep(0.02)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(timeout=SERVER_START_SECONDS)


def make_tree(folder: Path) -> int:
    """Creates nested folders with odd names at each level. Returns the number of files."""
    for position, name in enumerate(TEXTS):
        write(folder / "names" / name, b"x" * position)
        write(folder / "folders" / name / "below" / name, name.encode())
    write(folder / "at the top", b"top")
    return 2 * len(TEXTS) + 1


def test_python_http_server_is_mirrored_without_options(run: Run, tmp_path: Path, dest: Path) -> None:
    """A folder of Python's server is mirrored without any listing option."""
    count = make_tree(tmp_path / "served")
    with python_server(tmp_path / "served") as url:
        ended = run("get", f"{url}/", dest, "--format", "tar")
        again = run("get", url, dest, "--format", "tar")

    assert ended.code == 0, ended.err
    assert f"{count:,} listed = {count:,} fetched + 0 absent + 0 failed + 0 skipped\n" in ended.err
    assert "already complete" in again.err
    assert listing_of(dest) == "html"
    stored = fetchmill.open(dest)
    assert stored["at the top"] == b"top"
    assert {stored[f"folders/{name}/below/{name}"] == name.encode() for name in TEXTS} == {True}
    assert [len(stored[f"names/{name}"]) for name in TEXTS] == list(range(len(TEXTS)))


@pytest.mark.parametrize("autoindex", ["json", "html"])
def test_nginx_is_mirrored_without_options(
    run: Run, nginx: Callable[..., Nginx], served: Path, dest: Path, autoindex: str
) -> None:
    """A folder of nginx is mirrored with both index formats. The page that showed the type is not requested again."""
    for name in ("top/a b", "top/in/c#d", "top/in/deeper/e", "beside/f"):
        write(served / name, name.encode())
    server = nginx(site=Site(autoindex=autoindex))

    ended = run("get", f"{server.url('site')}/top", dest)

    assert ended.code == 0, ended.err
    assert differences(served / "top", dest) == []
    assert listing_of(dest) == {"json": "autoindex", "html": "html"}[autoindex]
    listed = [seen.path for seen in server.seen("site") if seen.path.endswith("/") or "." in seen.path]
    robots = ["/robots.txt"] if autoindex == "html" else []
    assert listed == ["/top/", *robots, "/top/in/", "/top/in/deeper/"]


@pytest.mark.parametrize("path", sorted(PAGES.glob("*.html")), ids=lambda path: path.stem)
def test_pages_of_apache_and_lighttpd_give_every_name(run: Run, raw: Raw, dest: Path, path: Path) -> None:
    """Index pages recorded from Apache and lighttpd give every name."""
    folders = ("folder", "folder a&b", "folder %2f#?")
    routes = {f"/top/{quote(name)}": reply(name) for name in ODD_NAMES}
    empty = index("/top/", "?C=N;O=D")
    routes |= {f"/top/{quote(name)}/": empty for name in folders} | {"/top/": reply(path.read_bytes())}
    server = raw({**routes, "/robots.txt": reply(status="404 No"), "/top/list": reply(status="404 No")})

    ended = run("get", f"{server.url}/top/", dest, "--format", "tar")

    assert ended.code == 0, ended.err
    count = len(ODD_NAMES)
    assert f"{count} listed = {count} fetched + 0 absent + 0 failed + 0 skipped\n" in ended.err
    assert sorted(fetchmill.open(dest).values()) == sorted(ODD_NAMES)
    assert all(server.count(f"/top/{quote(name)}/") == 1 for name in folders)


def test_list_get_api_is_requested_without_detection(run: Run, server: Serve, raw: Raw, dest: Path) -> None:
    """The first page of the API is requested once. With API options, no other listing type is tried."""
    source = server(synthetic=2500)
    other = raw({"/names": reply(status="404 No"), "/": index("x"), "/x": reply(b"x")})

    ended = run("get", source.url, dest)
    meant = run("get", other.url, dest.with_name("other"), "--list-path", "/names")

    assert (ended.code, source.stats()["list"]) == (0, 3), ended.err
    assert listing_of(dest).startswith("api /list ")
    assert (meant.code, other.requests) == (4, ["/names"])


@pytest.mark.one_in(3)
@pytest.mark.sampled(4)
@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_walks_detected_listing(engine: str, run: Run, raw: Raw, dest: Path) -> None:
    """Every engine stores the names of the folders, also engines with worker processes."""
    routes = {"/": index("a%20b", "in/"), "/in/": index("c"), "/a%20b": reply(b"1"), "/in/c": reply(b"2")}
    source = raw({**routes, "/list": reply(status="404 No"), "/robots.txt": reply(status="404 No")})

    ended = run("get", source.url, dest, *engine_options(engine), *limit_options(engine, 2))

    assert ended.code == 0, ended.err
    assert ((dest / "a b").read_bytes(), (dest / "in/c").read_bytes()) == (b"1", b"2")


def test_links_elsewhere_are_not_requested(run: Run, raw: Raw, dest: Path) -> None:
    """Links to other origins, other folders, queries and scripts count as skipped."""
    elsewhere = raw({})
    hostile = (
        f"{elsewhere.url}/top/x",
        f"//{elsewhere.url.removeprefix('http://')}/top/x",
        "/etc/passwd",
        "../x",
        "../../x/",
        "..%2f..%2fx",
        "%2e%2e%2fx",
        "x%00",
        "in/deeper",
        "x?download",
        "javascript:alert(1)",
        "ftp://127.0.0.1/top/x",
        "%zz",
    )
    own = ("../", "./", "/", "?C=N;O=D", "?C=M&amp;O=A", "#top", "%2e%2e/")
    entries = ("ok", "./ok", "ok#again", "/top/ok", "&#111;k", "o%6b", "in/", "in/")
    source = raw({"/top/": index(*own, *hostile, *entries), "/top/in/": index("../", "/top/"), "/top/ok": reply(b"1")})

    ended = run("get", f"{source.url}/top", dest, "--listing", "html", "--no-robots")

    assert ended.code == 0, ended.err
    listed = len(hostile) + 1
    assert f"{listed} listed = 1 fetched + 0 absent + 0 failed + {len(hostile)} skipped\n" in ended.err
    assert (sorted(source.requests), elsewhere.requests) == (["/top/", "/top/in/", "/top/ok"], [])


BROKEN: Mapping[str, tuple[bytes, str, int]] = {
    "cut": (index("a", "b", end=""), "the page is cut off", 5),
    "no-length": (b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n<title>Index of /</title><a href=a>", "is cut off", 5),
    "own-page": (reply(b"<html><title>My site</title><a href=a>a</a></html>"), 'it is called "My site"', 1),
    "no-heading": (reply(b"<html><a href=a>a</a></html>"), "it has no heading", 1),
    "base": (reply(b"<title>Index of /</title><base href=http://a/><a href=a></html>"), "<base>", 1),
    "json": (reply(b"[]"), "the page is not an index", 1),
    "empty": (reply(b""), "the page is not an index", 1),
    "forbidden": (reply(status="403 No"), "status 403", 1),
    "long-tag": (reply(b"<title>Index of /</title>&#" + b"0" * 300_000 + b";</html>"), "tag of more than", 1),
}


@pytest.mark.sampled(5)
@pytest.mark.parametrize("broken", BROKEN)
def test_folder_without_index_fails_alone(run: Run, raw: Raw, dest: Path, broken: str) -> None:
    """Entries listed before the failure are fetched, and the rest once the index of the folder is complete."""
    answer, detail, attempts = BROKEN[broken]
    shown = index("a", "b", "c")
    good = [False]
    routes: dict[str, Any] = {"/": index("bad/", "good"), "/good": reply(b"good")}
    routes |= {f"/bad/{name}": reply(name.encode()) for name in "abc"}

    def list_bad(exchange: Exchange) -> bytes | None:
        if good[0]:
            return shown
        exchange.send(answer)
        exchange.close()
        return None

    routes["/bad/"] = list_bad
    source = raw(routes)
    command = ("get", source.url, dest, "--listing", "html", "--no-robots")

    ended = run(*command)
    failures = list(fetchmill.failures(dest))
    asked = source.count("/bad/")
    good[0] = True
    again = run(*command, "--retry-failed")

    assert ended.code == 3, ended.err
    assert [(failure.name, failure.kind) for failure in failures] == [("bad/", "listing")]
    assert detail in failures[0].detail
    assert asked == attempts
    assert again.code == 0, again.err
    assert sorted(path.name for path in dest.rglob("*") if path.is_file() and ".fetchmill" not in path.parts) == [
        *("a", "b", "c", "good")
    ]
    # A health check may have requested one of them again.
    assert fetchmill.status(dest).listed == fetchmill.status(dest).fetched == 4


def test_truncated_page_is_resumed_in_order(run: Run, raw: Raw, dest: Path) -> None:
    """Each entry of a truncated page is taken once, in the order of the page."""
    names = [f"file-{number}" for number in range(2500)]
    whole = index(*names)

    def list_top(exchange: Exchange) -> bytes | None:
        if exchange.number > 2:
            return whole
        exchange.send(whole[: len(whole) * exchange.number // 3])
        exchange.close()
        return None

    source = raw({"/": list_top, **{f"/{name}": reply(name.encode()) for name in names}})

    ended = run("get", source.url, dest, "--listing", "html", "--no-robots", "--format", "jsonl")

    assert ended.code == 0, ended.err
    assert "2,500 listed = 2,500 fetched" in ended.err
    # A health check may request the page, too.
    assert source.count("/") in (3, 4)
    assert sorted(fetchmill.open(dest)) == sorted(names)


def test_job_keeps_its_listing_type_when_resumed(run: Run, raw: Raw, dest: Path) -> None:
    """A job keeps its listing type, although its server now answers the list API."""
    routes: dict[str, Any] = {"/": index("a", "in/"), "/in/": reply(status="403 No"), "/a": reply(b"1")}
    source = raw({**routes, "/list": reply(status="404 No"), "/robots.txt": reply(status="404 No")})
    first = run("get", source.url, dest)
    source.routes |= {"/list": page(["other"]), "/get/other": reply(b"other"), "/in/": index("b"), "/in/b": reply(b"2")}

    again = run("get", source.url, dest, "--retry-failed")
    refused = run("get", source.url, dest, "--listing", "api")

    assert (first.code, again.code) == (3, 0), again.err
    assert (source.count("/list"), source.count("/robots.txt"), listing_of(dest)) == (1, 2, "html")
    assert (dest / "in/b").read_bytes() == b"2"
    assert refused.code == 2
    assert "its listing is html" in refused.err


UNKNOWN: Mapping[str, tuple[dict[str, bytes], str]] = {
    "a-site": (
        {"/list": reply(status="404 No"), "/": reply(b"<!doctype html><title>Shop</title><a href=x>x</a>")},
        (
            r"unknown kind of listing: \S+/list returned status 404, "
            r'and the page itself is not an index \(it is called "Shop"\)'
        ),
    ),
    "a-site-for-all-paths": (
        {"/list": reply(b"<title>Shop</title>"), "/": reply(b"<title>Shop</title>")},
        r"/list returned a page without names, and the page itself is not an index",
    ),
    "nothing": ({}, r"/list failed \(status\): status 404, attempts: 1; check SOURCE, or set --list-path"),
    "other-json": (
        {"/list": reply(b"{}"), "/": reply(b"{}")},
        r"/list cannot be read: the page has no field FileNames",
    ),
    "forbidden": (
        {"/list": reply(status="403 No"), "/": reply(status="403 No")},
        r"/list failed \(status\): status 403",
    ),
}


@pytest.mark.parametrize("unknown", UNKNOWN)
def test_unknown_listing_type_is_reported(run: Run, raw: Raw, dest: Path, unknown: str) -> None:
    """A one-line error for an unknown listing type has the replies to all requests."""
    routes, told = UNKNOWN[unknown]
    source = raw({"/list": reply(status="404 No"), "/": reply(status="404 No"), **routes})

    ended = run("get", source.url, dest)

    assert ended.code == 4
    assert re.search(told, ended.err), ended.err
    assert source.requests == ["/list", "/"]


ROBOTS = b"""User-agent: *
Disallow: /

User-agent: Fetchmill
Disallow: /top/secret/
Disallow: /*.gif$
Allow: /top/a.gif
"""


def robots_site(raw: Raw, robots: bytes) -> RawServer:
    """A folder whose robots.txt forbids some of its files."""
    files = ("a.gif", "b.gif", "b.gif.txt", "secret/x", "in/c", "in/d.gif")
    routes = {f"/top/{name}": reply(name.encode()) for name in files}
    routes |= {"/top/": index("a.gif", "b.gif", "b.gif.txt", "secret/", "in/"), "/top/in/": index("c", "d.gif")}
    return raw({**routes, "/top/secret/": index("x"), "/top/list": reply(status="404 No"), "/robots.txt": robots})


def test_folders_forbidden_by_robots_txt_are_skipped(run: Run, raw: Raw, dest: Path) -> None:
    """Forbidden folders are not entered, and a notice says how to fetch them.

    With `--no-robots`, they are fetched and robots.txt is not requested.
    """
    source, other = robots_site(raw, reply(ROBOTS)), robots_site(raw, reply(ROBOTS))

    ended = run("get", f"{source.url}/top", dest)
    whole = run("get", f"{other.url}/top", dest.with_name("whole"), "--no-robots")

    assert ended.code == 0, ended.err
    assert "6 listed = 3 fetched + 0 absent + 0 failed + 3 skipped\n" in ended.err
    assert f"{source.url}/robots.txt forbids 3 of the listed files and folders, which were skipped" in ended.err
    assert {target for target in source.requests if "secret" in target or target.endswith(".gif")} == {"/top/a.gif"}
    assert whole.code == 0, whole.err
    assert "6 listed = 6 fetched" in whole.err
    assert other.count("/robots.txt") == 0


FORBIDDING: Mapping[str, tuple[bytes, int, str]] = {
    "nobody": (reply(b""), 0, ""),
    "no-file": (reply(status="404 No"), 0, ""),
    "closed": (reply(status="403 No"), 0, ""),
    "all": (reply(b"User-agent: *\nDisallow: /\n"), 4, r"/robots.txt forbids /top/; .*--no-robots"),
    "broken": (
        reply(status="500 Oops"),
        4,
        r"/robots.txt \(server-error\): status 500, attempts: 5; .*--no-robots",
    ),
    "moved": (
        reply(b"", "Location: /robots.txt", status="301 Moved"),
        4,
        r"/robots.txt \(redirect-loop\): redirect to /robots.txt: .*, attempts: 1; .*--no-robots",
    ),
}


@pytest.mark.parametrize("answer", FORBIDDING)
def test_missing_robots_txt_allows_and_broken_one_forbids(run: Run, raw: Raw, dest: Path, answer: str) -> None:
    """A missing robots.txt allows everything. If it is broken, no folder is walked."""
    robots, code, told = FORBIDDING[answer]
    source = robots_site(raw, robots)

    ended = run("get", f"{source.url}/top", dest)

    assert ended.code == code, ended.err
    assert re.search(told, ended.err), ended.err
    assert ("/top/in/" in source.requests) == (code == 0)


def test_robots_txt_is_obeyed_after_redirect(run: Run, raw: Raw, dest: Path) -> None:
    """If robots.txt is redirected to another host, the rules there apply (RFC 9309, 2.3.1.2)."""
    other = raw({"/rules": reply(ROBOTS)})
    source = robots_site(raw, reply(b"", f"Location: {other.url}/rules", status="302 Found"))

    ended = run("get", f"{source.url}/top", dest)

    assert ended.code == 0, ended.err
    assert "6 listed = 3 fetched + 0 absent + 0 failed + 3 skipped\n" in ended.err


def test_sizes_of_nginx_are_in_manifests(
    run: Run, nginx: Callable[..., Nginx], served: Path, tmp_path: Path, dest: Path
) -> None:
    """Manifests have the exact sizes of nginx, and objects that changed later are reported."""
    for name, size in (("small", 7), ("empty", 0), ("large", 70_000)):
        write(served / name, b"x" * size)
    exact, rounded = Site(autoindex="html"), Site(autoindex="html", directives="autoindex_exact_size off;")
    server = nginx(exact=exact, rounded=rounded)

    ended = [run("list", server.url(site), f"{site}.csv") for site in ("exact", "rounded")]
    (served / "small").write_bytes(b"longer than it was")
    fetched = run("get", "exact.csv", dest, "--allow-private")

    assert [each.code for each in ended] == [0, 0], ended
    sizes = {row["name"]: row["size"] for row in read_rows(tmp_path / "exact.csv")}
    assert {name: int(size) for name, size in sizes.items()} == {"small": 7, "empty": 0, "large": 70_000}
    assert {row["name"]: row["size"] for row in read_rows(tmp_path / "rounded.csv")}["large"] in ("", None)
    assert fetched.code == 3
    assert [failure.kind for failure in fetchmill.failures(dest)] == ["changed"]


@pytest.mark.parametrize("autoindex", ["json", "html"])
def test_times_are_in_manifests_when_zone_is_known(
    run: Run, nginx: Callable[..., Nginx], served: Path, tmp_path: Path, autoindex: str
) -> None:
    """JSON of nginx is in GMT, whatever the server's zone. Index pages have no zone, so manifests lack their times."""
    for number, name in enumerate(("old", "in/new", "in/a b")):
        write(served / name, b"x" * number)
        os.utime(served / name, (0, 1_767_261_600 + number))
    server = nginx(site=Site(autoindex=autoindex, directives="autoindex_localtime on;"))

    ended = run("list", server.url("site"), "times.parquet")

    assert ended.code == 0, ended.err
    rows = {row["name"]: (row["size"], row["last_modified"]) for row in read_rows(tmp_path / "times.parquet")}
    times = [datetime(2026, 1, 1, 10, 0, second, tzinfo=UTC) if autoindex == "json" else None for second in range(3)]
    assert rows == {"old": (0, times[0]), "in/new": (1, times[1]), "in/a b": (2, times[2])}


@pytest.mark.parametrize("format", ["files", "tar"])
def test_inexact_sizes_and_times_are_never_compared(run: Run, raw: Raw, dest: Path, format: str) -> None:
    """Rounded sizes, times without a zone, and similar text are never compared."""
    told = (
        "01-Jan-2026 10:00  1K",
        "2026-01-01 10:00  12",
        "2026-Jan-01 10:00:00 0.1K",
        "01-Jan-2026 10:00",
        "7 7 7",
        "99",
    )
    rows = "".join(f"<tr><td><a href={n}>{n}</a></td><td>{text}</td></tr>" for n, text in enumerate(told))
    routes = {f"/{number}": reply(b"four") for number in range(len(told))}
    source = raw({**routes, "/": reply(f"<title>Index of /</title><table>{rows}</table></html>".encode())})

    ended = run("get", source.url, dest, "--listing", "html", "--no-robots", "--format", format)

    assert ended.code == 0, ended.err
    assert f"{len(told)} listed = {len(told)} fetched" in ended.err


def test_exact_times_of_sitemap_are_in_manifests(run: Run, raw: Raw, tmp_path: Path) -> None:
    """Manifests have times of a sitemap that have a time of day and a zone; a date alone is left out."""
    lastmods = ("2026-01-01T12:00:00+02:00", "2026-01-01", "", "soon", "2026-01-01T10:00Z")
    source = raw({})
    entries = "".join(
        f"<url><loc>{source.url}/{number}</loc><lastmod>{text}</lastmod></url>" for number, text in enumerate(lastmods)
    )
    source.routes["/sitemap.xml"] = reply(f"<urlset>{entries}</urlset>".encode())

    ended = run("list", f"{source.url}/sitemap.xml", "times.csv")

    assert ended.code == 0, ended.err
    rows = {row["url"].rpartition("/")[2]: row["last_modified"] for row in read_rows(tmp_path / "times.csv")}
    assert rows == {"0": "2026-01-01T10:00:00.000000Z", "1": "", "2": "", "3": "", "4": ""}


def test_python_and_plan_detect_listing_type(raw: Raw, tmp_path: Path) -> None:
    """Python's default is `listing="auto"`, and `html` works, too. A plan probes what a job would fetch."""
    names = [f"n{number}" for number in range(300)]
    files = {f"/{name}": reply(name.encode()) for name in names}
    source = raw({**files, "/": index(*names), "/list": reply(status="404 No"), "/robots.txt": reply(status="404 No")})

    report = fetchmill.get(source.url, tmp_path / "auto", listing="auto")
    told = fetchmill.get(source.url, tmp_path / "html", listing="html", robots=False)
    listed = fetchmill.list(source.url, tmp_path / "names.jsonl")
    planned = fetchmill.plan(source.url, probe_seconds=1)

    assert (report.fetched, told.fetched, listed.rows) == (300, 300, 300)
    assert planned.objects == 300
    with pytest.raises(fetchmill.UsageError, match="robots is for servers and lists of URLs"):
        fetchmill.get("s3://bucket", tmp_path / "none", robots=False)


def sitemap(*urls: str, index: bool = False) -> bytes:
    """Returns a sitemap of these URLs, or an index of them."""
    root, entry = ("sitemapindex", "sitemap") if index else ("urlset", "url")
    entries = "".join(f"<{entry}><loc>{escape(url)}</loc><lastmod>2026-01-01</lastmod></{entry}>\n" for url in urls)
    space = "http://www.sitemaps.org/schemas/sitemap/0.9"
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<{root} xmlns="{space}">\n{entries}</{root}>'.encode()


def sitemap_site(raw: Raw) -> tuple[RawServer, RawServer]:
    """A server with a sitemap index and objects, and another server that the index must not lead to."""
    elsewhere = raw({})
    targets = ("/a%20b", "/page?id=1&x=%2F", "/caf%C3%A9/", "/in/c")
    source = raw({target: reply(target.encode()) for target in targets})
    url, other = source.url, elsewhere.url
    maps = [f"{url}/maps/one.xml", f"{url}/maps/two.xml.gz?v=2", f"{url}/maps/broken.xml", f"{url}/maps/nested.xml"]
    source.routes |= {
        "/sitemap.xml": reply(sitemap(*maps, maps[0], f"{other}/maps.xml", index=True)),
        "/maps/one.xml": reply(sitemap(f"{url}/a b", f"{url}/page?id=1&x=%2F", f"{other}/x", f"{other}/x", "mailto:x")),
        "/maps/two.xml.gz?v=2": reply(gzip.compress(sitemap(f"{url}/caf\u00e9/", f"{url}/in/../in/c#part"))),
        "/maps/broken.xml": reply(sitemap(f"{url}/a%20b")[:-20]),
        "/maps/nested.xml": reply(sitemap(f"{url}/maps/one.xml", f"{url}/sitemap.xml", index=True)),
    }
    return source, elsewhere


@pytest.mark.sampled(1)
@pytest.mark.parametrize("format", ["files", "parquet", "warc"])
def test_sitemaps_list_urls_of_their_own_origin(run: Run, raw: Raw, dest: Path, format: str) -> None:
    """All sitemaps of an index give exact URLs. Other origins are skipped, and unreadable sitemaps fail."""
    source, elsewhere = sitemap_site(raw)
    command = ("get", f"{source.url}/sitemap.xml", dest, "--format", format)

    ended = run(*command)
    failures = {failure.name: failure.detail for failure in fetchmill.failures(dest)}
    source.routes["/maps/broken.xml"] = reply(sitemap(f"{source.url}/in/c?again"))
    source.routes["/in/c?again"] = reply(b"again")
    again = run(*command, "--retry-failed")

    assert ended.code == 3, ended.err
    # Skipped: the other server's sitemap and object, and an invalid URL.
    assert "8 listed = 4 fetched + 0 absent + 1 failed + 3 skipped\n" in ended.err
    assert "is cut off" in failures["maps/broken.xml/"]
    assert (source.count("/maps/one.xml"), source.count("/maps/broken.xml"), elsewhere.requests) == (1, 6, [])
    assert source.count("/maps/nested.xml") == 1
    assert "8 listed = 5 fetched + 0 absent + 0 failed + 3 skipped\n" in again.err
    host = source.url.removeprefix("http://")
    targets = {"/a%20b", "/page?id=1&x=%2F", "/caf%C3%A9/", "/in/c", "/in/c?again"}
    # File names are decoded.
    names = {f"{host}{unquote(target) if '%2F' not in target else target}" for target in targets}
    assert set(fetchmill.open(dest)) == (
        names if format == "files" else {f"{source.url}{target}" for target in targets}
    )
    assert all(source.count(target) == 1 for target in targets)
    assert source.count("/robots.txt") == source.count("/list") == 0
    assert run("verify", dest, "--sample", "5").code == 0


@pytest.mark.parametrize("breaks", [[], [2 * MIB, MIB + 1]], ids=["whole", "resumed"])
def test_large_redirected_sitemap_is_read_and_resumed(run: Run, raw: Raw, dest: Path, breaks: list[int]) -> None:
    """A sitemap that does not fit into memory is read from a file, and resumed if it breaks off."""
    source = raw({"/sitemap.xml": reply(b"", "Location: /maps/all.xml", status="301 Moved"), "/a": reply(b"found")})
    large = BrokenObject(sitemap(*[f"{source.url}/a"] * 60_000), breaks)
    source.routes["/maps/all.xml"] = large

    ended = run("get", f"{source.url}/sitemap.xml", dest, "--format", "jsonl")

    assert ended.code == 0, ended.err
    assert len(large.body) > 3 * MIB
    assert "1 listed = 1 fetched" in ended.err
    assert large.firsts == ([0, 2 * MIB, 3 * MIB + 1] if breaks else [0])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_reads_sitemaps(engine: str, run: Run, raw: Raw, tmp_path: Path, dest: Path) -> None:
    """Every engine reads sitemaps, and `list` writes their URLs."""
    source, _ = sitemap_site(raw)
    source.routes["/sitemap.xml"] = reply(sitemap(f"{source.url}/maps/one.xml", index=True))

    ended = run("get", f"{source.url}/sitemap.xml", dest, *engine_options(engine), *limit_options(engine, 2))
    listed = run("list", f"{source.url}/sitemap.xml", "urls.csv", "--exclude", "*page*")

    assert (ended.code, listed.code) == (0, 0), ended.err + listed.err
    assert "4 listed = 2 fetched + 0 absent + 0 failed + 2 skipped\n" in ended.err
    assert [row["url"] for row in read_rows(tmp_path / "urls.csv")] == [f"{source.url}/a%20b"]


def test_killed_sitemap_job_resumes(run: Run, start: Run, raw: Raw, dest: Path) -> None:
    """Each sitemap is requested once, or again if the job was killed while reading it.

    The ledger has each object once.
    """
    names = [f"/{number}" for number in range(4000)]
    source = raw({name: reply(name.encode()) for name in names})
    parts = [[f"{source.url}{name}" for name in names[start::4]] for start in range(4)]
    source.routes |= {f"/{part}.xml": reply(sitemap(*urls)) for part, urls in enumerate(parts)}
    maps = [f"{source.url}/{part}.xml" for part in range(4)]
    source.routes["/all"] = reply(sitemap(*maps, index=True))
    command = ("get", f"{source.url}/all", dest, "--listing", "sitemap", "--format", "jsonl", "--commit-window", "20ms")

    settled = 0
    for _ in range(3):
        client = start(*command, "--rate", "500")
        while client.poll() is None:
            with contextlib.suppress(fetchmill.FetchmillError):
                if fetchmill.status(dest).settled > settled + 200:
                    break
            time.sleep(0.005)
        client.kill()
        client.wait()
        settled = fetchmill.status(dest).settled
    ended = run(*command)

    assert 0 < settled < len(names), "it was killed too late to show anything"
    assert ended.code == 0, ended.err
    assert "4,000 listed = 4,000 fetched + 0 absent + 0 failed + 0 skipped\n" in ended.err
    assert sorted(fetchmill.open(dest)) == sorted(f"{source.url}{name}" for name in names)
