"""Redirects of Debian's nginx: which are followed, how many, and which are refused."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fetchmill
from certificates import Certificates
from foreign import read_objects
from nginx import Nginx, Site, moved, offer

Run = Callable[..., Any]
Start = Callable[..., Nginx]
Tree = Callable[..., dict[str, bytes | None]]

BODY = b"found"
# Redirects of a server that lists its objects are followed only on request.
FOLLOW = ("--redirects", "5")


def test_redirects_of_listed_objects_fail_by_default(
    run: Run, nginx: Start, served: Path, dest: Path, tree: Tree
) -> None:
    """Redirected objects fail, and other objects of the server are fetched."""
    offer(served, {"a": BODY, "stays": b"here"})
    server = nginx(plain=Site(directives=moved("/get/a", "/get/stays")))

    ended = run("get", server.url("plain"), dest)

    assert ended.code == 3
    assert tree(dest) == {"stays": b"here"}
    assert [(each.name, each.kind, each.status) for each in fetchmill.failures(dest)] == [("a", "redirect", 302)]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirected_object_keeps_listed_name(
    status: int, run: Run, nginx: Start, served: Path, dest: Path, tree: Tree
) -> None:
    """The destination of the redirect is not stored."""
    offer(served, {"a": b"", "stays": b"here"})
    (served / "elsewhere").write_bytes(BODY)
    server = nginx(plain=Site(directives=moved("/get/a", "/elsewhere", status)))

    ended = run("get", server.url("plain"), dest, *FOLLOW)

    assert ended.code == 0, ended.err
    assert tree(dest) == {"a": BODY, "stays": b"here"}
    assert server.fetched("plain") == {"/list": 1, "/get/a": 1, "/get/stays": 1, "/elsewhere": 1}
    assert {each.referer for each in server.seen("plain")} == {""}


def test_redirect_from_http_to_https_is_followed(
    run: Run, nginx: Start, certificates: Certificates, served: Path, dest: Path, tree: Tree
) -> None:
    """Many sites redirect in this way. The certificate is checked as usual."""
    offer(served, {"a": BODY})
    server = nginx(plain=Site(directives=moved("/get/a", "@tls@/get/a")), tls=Site(leaf=certificates.good))

    ended = run("get", server.url("plain"), dest, *FOLLOW, "--ca-file", certificates.ca_file)

    assert ended.code == 0, ended.err
    assert tree(dest) == {"a": BODY}
    assert [(each.path, each.host) for each in server.seen("tls")] == [("/get/a", f"localhost:{server.ports['tls']}")]


def test_redirect_to_bad_certificate_fails_only_its_target(
    run: Run, nginx: Start, certificates: Certificates, served: Path, dest: Path, tree: Tree
) -> None:
    """The job continues, because the certificate does not belong to its only server."""
    offer(served, {"a": BODY, "stays": b"here"})
    server = nginx(plain=Site(directives=moved("/get/a", "@tls@/get/a")), tls=Site(leaf=certificates.expired))

    ended = run("get", server.url("plain"), dest, *FOLLOW, "--ca-file", certificates.ca_file)

    assert ended.code == 3, ended.err
    assert tree(dest) == {"stays": b"here"}
    assert [(each.name, each.kind) for each in fetchmill.failures(dest)] == [("a", "tls-expired")]


def test_redirect_from_https_to_http_is_refused(
    run: Run, nginx: Start, certificates: Certificates, served: Path, dest: Path
) -> None:
    """The other server gets no request, because TLS must not be dropped."""
    offer(served, {"a": BODY})
    server = nginx(tls=Site(leaf=certificates.good, directives=moved("/get/a", "@plain@/get/a")), plain=Site())

    ended = run("get", server.url("tls"), dest, *FOLLOW, "--ca-file", certificates.ca_file)

    assert ended.code == 3, ended.err
    assert [(each.name, each.kind) for each in fetchmill.failures(dest)] == [("a", "redirect-refused")]
    assert server.seen("plain") == []


@pytest.mark.parametrize(
    "location", ["file:///etc/passwd", "ftp://localhost/x", "http://user:word@localhost/", "data:,x"]
)
def test_redirect_to_invalid_url_is_refused(location: str, run: Run, nginx: Start, served: Path, dest: Path) -> None:
    """A redirect cannot choose another scheme or a user."""
    offer(served, {"a": BODY})
    server = nginx(plain=Site(directives=moved("/get/a", location)))

    ended = run("get", server.url("plain"), dest, *FOLLOW)

    assert ended.code == 3, ended.err
    assert [each.kind for each in fetchmill.failures(dest)] == ["redirect-refused"]


def test_redirect_loop_is_detected(run: Run, nginx: Start, served: Path, dest: Path) -> None:
    """A loop of one or two steps is detected as soon as it closes."""
    offer(served, {"itself": b"", "there": b"", "back": b""})
    steps = moved("/get/itself", "/get/itself") + moved("/get/there", "/get/back") + moved("/get/back", "/get/there")
    server = nginx(plain=Site(directives=steps))

    ended = run("get", server.url("plain"), dest, *FOLLOW)

    assert ended.code == 3, ended.err
    kinds = {each.name: each.kind for each in fetchmill.failures(dest)}
    assert kinds == dict.fromkeys(["itself", "there", "back"], "redirect-loop")
    assert server.fetched("plain") == {"/list": 1, "/get/itself": 1, "/get/there": 2, "/get/back": 2}


def test_redirects_beyond_limit_are_not_requested(run: Run, nginx: Start, served: Path, dest: Path, tree: Tree) -> None:
    """The number of redirects is limited: one more fails and is not requested."""
    offer(served, {"three": b"", "four": b""})
    (served / "end").write_bytes(BODY)
    chain = "".join(moved(f"/{step}", f"/{step - 1}" if step > 1 else "/end") for step in (1, 2, 3))
    server = nginx(plain=Site(directives=chain + moved("/get/three", "/2") + moved("/get/four", "/3")))

    ended = run("get", server.url("plain"), dest, "--redirects", "3")

    assert ended.code == 3, ended.err
    assert tree(dest) == {"three": BODY}
    assert [(each.name, each.kind) for each in fetchmill.failures(dest)] == [("four", "redirect-limit")]
    assert server.fetched("plain")["/end"] == 1


def test_growing_redirect_chain_ends_at_limit(run: Run, nginx: Start, served: Path, dest: Path) -> None:
    """Each redirect leads to a new URL, so there is no loop."""
    offer(served, {"a": b""})
    server = nginx(plain=Site(directives="location = /get/a { return 302 /get/a?x$args; }"))

    ended = run("get", server.url("plain"), dest, *FOLLOW)

    assert ended.code == 3, ended.err
    assert [each.kind for each in fetchmill.failures(dest)] == ["redirect-limit"]
    assert len(server.fetched("plain")) == 1 + 1 + 5


def test_redirected_list_url_keeps_its_name(
    run: Run, nginx: Start, certificates: Certificates, served: Path, dest: Path, tmp_path: Path
) -> None:
    """An object is stored under its own URL. Two URLs that lead to one place are two objects."""
    (served / "end").write_bytes(BODY)
    plain = Site(directives=moved("/a", "@tls@/end", 301) + moved("/b", "@tls@/end", 308))
    server = nginx(plain=plain, tls=Site(leaf=certificates.good))
    urls = [server.url("plain") + "/a", server.url("plain") + "/b", server.url("tls") + "/end"]
    (tmp_path / "urls.txt").write_text("\n".join(urls))

    ended = run("get", "urls.txt", dest, "--allow-private", "--format", "parquet", "--ca-file", certificates.ca_file)

    assert ended.code == 0, ended.err
    stored = {each.name.decode(): each.body for each in read_objects(dest, "parquet", "duckdb")}
    assert stored == dict.fromkeys(urls, BODY)
