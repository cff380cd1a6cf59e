"""Cookies of replies, along their redirects, and cookies of `--cookies`."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fetchmill
from certificates import Certificates
from nginx import Nginx, Site, offer
from raw_server import Behaviour, Exchange, RawServer, bare_reply, mirror, page, reply
from stored import everything

Run = Callable[..., Any]
Raw = Callable[..., RawServer]
Start = Callable[..., Nginx]
Tree = Callable[..., dict[str, bytes | None]]

SECRET = "canary-c00k1e"  # noqa: S105 - looked for where it must not be


def cookie_of(exchange: Exchange) -> str:
    """Returns the value of the only Cookie field; empty without it."""
    lines = exchange.head.decode("latin-1").split("\r\n")[1:]
    found = [line.partition(":")[2].strip() for line in lines if line.lower().startswith("cookie:")]
    assert len(found) <= 1, lines
    return found[0] if found else ""


def walled(body: bytes) -> Callable[[Exchange], bytes]:
    """Serves a redirect to itself, with a cookie, to requests without one."""

    def behave(exchange: Exchange) -> bytes:
        if cookie_of(exchange) == f"s={SECRET}":
            return reply(body)
        fields = (f"Location: {exchange.target}", f"Set-Cookie: s={SECRET}; Path=/", "Content-Length: 0")
        return bare_reply(*fields, status="302 Found")

    return behave


def moved(to: str, *fields: str) -> bytes:
    """Returns a redirect."""
    return bare_reply(f"Location: {to}", "Content-Length: 0", *fields, status="302 Found")


def test_all_commands_send_redirect_cookie_onward(run: Run, raw: Raw, tmp_path: Path) -> None:
    """Each target has its own cookie, so each is redirected. No cookie is stored."""
    routes = mirror("ab", {"a": walled(b"a"), "b": walled(b"b")})
    listing = page("ab")
    routes["/list"] = lambda exchange: listing if SECRET in cookie_of(exchange) else walled(b"")(exchange)
    server = raw(routes)
    (tmp_path / "urls.txt").write_text(f"{server.url}/get/a\n{server.url}/get/b\n")
    for words in (
        ("get", server.url, tmp_path / "got", "--redirects", "3"),
        ("get", "urls.txt", tmp_path / "records", "--format", "warc", "--allow-private", "--verbose"),
        ("sync", server.url, tmp_path / "synced", "--redirects", "3"),
        ("list", server.url, tmp_path / "listed.jsonl"),
        ("check", "urls.txt", tmp_path / "rows.jsonl", "--allow-private"),
    ):
        before = server.count("/get/a"), server.count("/list")
        ended = run(*(word for word in words if word != "--verbose"))
        assert ended.code == 0, (words, ended.err)
        assert SECRET not in ended.out + ended.err
        after = server.count("/get/a"), server.count("/list")
        assert all(new - old in (0, 2) for old, new in zip(before, after, strict=True)), words
    for folder in ("got", "synced"):
        assert (tmp_path / folder / "a").read_bytes() == b"a"
        assert not [content for content in everything(tmp_path / folder) if SECRET.encode() in content]
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    assert [(row["status"], row["kind"]) for row in rows] == [(200, None), (200, None)]
    assert SECRET not in (tmp_path / "rows.jsonl").read_text() + (tmp_path / "listed.jsonl").read_text()
    replies = list(fetchmill.stream([f"{server.url}/get/{name}" for name in "ab"]))
    assert sorted(bytes(each.body) for each in replies) == [b"a", b"b"]


def test_redirect_with_unchanged_cookie_is_loop(run: Run, raw: Raw, tmp_path: Path) -> None:
    """If each redirect sets a new cookie, there is no loop, but the redirect limit ends the chain."""
    routes: dict[str, Behaviour] = {
        "/same": moved("/same", "Set-Cookie: s=1"),
        "/none": moved("/none"),
        "/new": lambda exchange: moved("/new", f"Set-Cookie: s={exchange.number}"),
        "/elsewhere": moved("/elsewhere", "Set-Cookie: s=1; Path=/other"),
    }
    server = raw(routes)
    (tmp_path / "urls.txt").write_text("\n".join(server.url + path for path in routes))
    run("check", "urls.txt", "rows.jsonl", "--allow-private", "--redirects", "4")
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    assert {row["url"].removeprefix(server.url): row["kind"] for row in rows} == {
        "/same": "redirect-loop",
        "/none": "redirect-loop",
        "/new": "redirect-limit",
        "/elsewhere": "redirect-loop",
    }
    assert [server.count(path) for path in routes] == [2, 1, 5, 1]


def test_cookie_is_sent_only_to_its_host_and_path(run: Run, raw: Raw, dest: Path, tmp_path: Path) -> None:
    """Redirects lead to another host and back. The user's own field is sent only to its origin."""
    seen: list[tuple[str, str]] = []

    def note(answer: Callable[[], bytes]) -> Behaviour:
        def behave(exchange: Exchange) -> bytes:
            seen.append((exchange.target, cookie_of(exchange)))
            return answer()

        return behave

    server = raw({})
    elsewhere = server.url.replace("127.0.0.1", "localhost")
    server.routes |= {
        "/a": note(lambda: moved(f"{elsewhere}/b", "Set-Cookie: s=1; Path=/", "Set-Cookie: t=2; Path=/c/d")),
        "/b": note(lambda: moved(f"{server.url}/c", "Set-Cookie: u=3; Path=/; Domain=127.0.0.1")),
        "/c": note(lambda: moved("/c/d/e")),
        "/c/d/e": note(lambda: reply(b"x")),
    }
    (tmp_path / "urls.txt").write_text(f"{server.url}/a\n")
    own = ("--header", "Cookie: mine=0", "--credentials-for", server.url)
    ended = run("get", "urls.txt", dest, "--format", "jsonl", "--allow-private", *own)
    assert ended.code == 0, ended.err
    assert seen == [("/a", "mine=0"), ("/b", ""), ("/c", "mine=0; s=1"), ("/c/d/e", "mine=0; t=2; s=1")]


def test_cookie_file_entries_are_sent_only_to_their_hosts(run: Run, raw: Raw, tmp_path: Path) -> None:
    """All commands send them, for pages, objects and redirects. A reply replaces a cookie only for its own chain."""
    seen: set[tuple[str, str]] = set()

    def look(answer: bytes) -> Behaviour:
        def behave(exchange: Exchange) -> bytes:
            seen.add((exchange.target.partition("?")[0], cookie_of(exchange)))
            return answer

        return behave

    server = raw({"/list": look(page("ab")), "/get/a": look(reply(b"a")), "/get/b": look(reply(b"b"))})
    elsewhere = server.url.replace("127.0.0.1", "localhost")
    server.routes |= {
        "/c": look(moved("/get/a", "Set-Cookie: id=new; Path=/")),
        "/d": look(moved(f"{elsewhere}/get/b")),
    }
    cookies = tmp_path / "cookies.txt"
    cookies.write_text(
        "# Netscape HTTP Cookie File\n"
        f"#HttpOnly_127.0.0.1\tFALSE\t/\tFALSE\t0\tid\t{SECRET}\n"
        "127.0.0.1\tFALSE\t/get/b\tFALSE\t0\tb\t2\n"
        ".localhost\tTRUE\t/\tFALSE\t0\tl\t3\n"
        "127.0.0.1\tFALSE\t/\tTRUE\t0\tsecure\t4\n"
        "127.0.0.1\tFALSE\t/\tFALSE\t1\told\t5\n"
    )
    (tmp_path / "urls.txt").write_text(f"{server.url}/c\n{server.url}/d\n")
    given, own = ("--cookies", cookies), f"id={SECRET}"
    listed = {("/list", own), ("/get/a", own), ("/get/b", f"b=2; {own}")}
    led = {("/c", own), ("/get/a", "id=new"), ("/d", own), ("/get/b", "l=3")}
    for words, expected in (
        (("get", server.url, tmp_path / "got", *given), listed),
        (("get", server.url, tmp_path / "piped", "--pipeline", "8", *given), listed),
        (("sync", server.url, tmp_path / "synced", *given), listed),
        (("list", server.url, tmp_path / "listed.jsonl", *given), {("/list", own)}),
        (("get", "urls.txt", tmp_path / "urls", "--format", "jsonl", "--allow-private", *given), led),
        (("check", "urls.txt", tmp_path / "rows.jsonl", "--allow-private", *given), led),
    ):
        seen.clear()
        ended = run(*words)
        assert ended.code == 0, (words, ended.err)
        assert seen == expected, words
        assert SECRET not in ended.out + ended.err
    for folder in ("got", "urls"):
        assert not [content for content in everything(tmp_path / folder) if SECRET.encode() in content]
    seen.clear()
    list(fetchmill.stream([f"{server.url}/c", f"{server.url}/d"], cookies=cookies))
    assert seen == led


def test_cookies_are_sent_over_http2(nginx: Start, certificates: Certificates, served: Path, tmp_path: Path) -> None:
    """Cookies for https from a redirect and from a file are sent in addition to the user's field."""
    sets = 'add_header Set-Cookie "s=1; Secure; Path=/"; return 302 /wall;'
    wall = f'location = /wall {{ if ($http_cookie !~ "s=1") {{ {sets} }} return 200 $http_cookie; }}'
    offer(served, {"a": b"x"})
    server = nginx(tls=Site(leaf=certificates.good, http2=True, directives=wall))
    url = server.url("tls")
    cookies = tmp_path / "cookies.txt"
    cookies.write_text("localhost\tFALSE\t/\tTRUE\t0\ts\t1\n")
    options: dict[str, Any] = {"ca_file": certificates.ca_file, "headers": {"Cookie": "mine=0"}, "credentials_for": url}
    (led,) = fetchmill.stream([f"{url}/wall"], **options)
    (given,) = fetchmill.stream([f"{url}/wall"], cookies=cookies, **options)
    assert led.body == given.body == b"mine=0; s=1"
    assert [(each.http, each.status) for each in server.seen("tls")] == [
        ("HTTP/2.0", status) for status in ("302", "200", "200")
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "cannot be read"),
        ("", "the file has no cookies"),
        ('[{"name": "canary"}]', "line 1 does not have seven tab-separated columns"),
        ("a.test\tFALSE\t/\tFALSE\t1\tcanary\tcanary\n", "have expired (1)"),
    ],
)
def test_file_without_cookies_is_refused(text: str | None, said: str, run: Run, dest: Path, tmp_path: Path) -> None:
    """The one-line error does not show the contents, and comes before anything is created."""
    file = tmp_path / "cookies.txt"
    if text is not None:
        file.write_text(text)
    ended = run("get", "http://127.0.0.1:1", dest, "--cookies", file)
    assert ended.code == 2
    assert said in ended.err
    assert "canary" not in ended.err
    assert len(ended.err.splitlines()) == 1
    assert not dest.exists()
    with pytest.raises(fetchmill.UsageError, match="--cookies"):
        list(fetchmill.stream(["http://127.0.0.1:1/"], cookies=file))


def test_python_engines_refuse_cookie_file(run: Run, dest: Path, tmp_path: Path) -> None:
    """Python engines refuse the file, because their libraries make the requests."""
    ended = run("get", "http://127.0.0.1:1", dest, "--cookies", tmp_path / "c", "--engine", "asyncio")
    assert ended.code == 2
    assert "--cookies needs --engine native" in ended.err
