"""`--proxy socks5://` and `socks5h://`: which side resolves names, and that no request bypasses the proxy."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

import fetchmill
from certificates import Certificates
from nginx import Nginx, Site, offer
from raw_server import Exchange, RawServer, in_turn, mirror, page, reply
from socks_proxy import SocksProxy
from stored import everything

Run = Callable[..., Any]
Raw = Callable[..., RawServer]
Start = Callable[..., Nginx]
Tree = Callable[..., dict[str, bytes | None]]

USER = "me:canary-50c5"


def port_of(url: str) -> int:
    """Returns the port of a server's URL."""
    port = urlsplit(url).port
    assert port is not None
    return port


def test_socks5h_proxy_resolves_names(run: Run, raw: Raw, dest: Path, tree: Tree, tmp_path: Path) -> None:
    """The proxy gets the origin's name and the password. Requests to the origin are those of a direct connection."""
    heads: list[bytes] = []

    def look(exchange: Exchange) -> bytes:
        heads.append(exchange.head)
        return reply(b"a")

    server = raw(mirror("a", {"a": look}))
    with SocksProxy(port_of(server.url), USER) as proxy:
        ended = run("get", "http://origin.invalid:81", dest, "--proxy", proxy.url("socks5h"))
        assert ended.code == 0, ended.err
        assert tree(dest) == {"a": b"a"}
        assert set(proxy.asked) == {("origin.invalid", 81)}
        assert set(proxy.users) == {USER}
        assert heads[0].startswith(b"GET /get/a HTTP/1.1\r\nHost: origin.invalid:81\r\n")
        assert b"roxy" not in heads[0]
        assert "canary" not in ended.out + ended.err
        assert not [content for content in everything(tmp_path) if b"canary" in content]

        refused = run("get", "http://origin.invalid:81", tmp_path / "b", "--proxy", proxy.url("socks5h", "me:wrong"))
        assert refused.code != 0
        assert "proxy-refused" in refused.err
        assert "wrong" not in refused.err


def test_socks5_proxy_gets_locally_resolved_address(run: Run, raw: Raw, dest: Path, tree: Tree) -> None:
    """The rule for private addresses applies to the origin, but not to the proxy."""
    server = raw(mirror("a"))
    with SocksProxy(port_of(server.url)) as proxy:
        ended = run("get", "http://localhost:81", dest, "--proxy", proxy.url("socks5"), "--resolver", "system")
        assert ended.code == 0, ended.err
        assert tree(dest) == {"a": b"a"}
        assert set(proxy.asked) == {("127.0.0.1", 81)}

        replies = list(fetchmill.stream(["http://localhost:81/get/a"], proxy=proxy.url("socks5"), public_only=True))
        assert [each.error.kind for each in replies if each.error] == ["private-address"]
        assert len(proxy.asked) == len([each for each in proxy.asked if each == ("127.0.0.1", 81)])


@pytest.mark.parametrize("http2", [False, True], ids=["HTTP/1.1", "HTTP/2"])
def test_tls_works_through_socks_proxy(
    http2: bool, run: Run, nginx: Start, certificates: Certificates, served: Path, dest: Path, tree: Tree
) -> None:
    """The origin's certificate is checked, and the proxy learns host and port."""
    offer(served, {"a": b"x"})
    server = nginx(tls=Site(leaf=certificates.good, http2=http2))
    with SocksProxy(server.ports["tls"]) as proxy:
        words = ("--proxy", proxy.url("socks5h"), "--ca-file", certificates.ca_file)
        ended = run("get", "https://localhost:444", dest, *words)
        assert ended.code == 0, ended.err
        assert tree(dest) == {"a": b"x"}
        assert set(proxy.asked) == {("localhost", 444)}


def test_all_commands_and_environment_accept_socks_proxy(
    run: Run, raw: Raw, environment: dict[str, str], tmp_path: Path
) -> None:
    """Sync, list, check and streams use the proxy, also from `ALL_PROXY` with `--proxy env`."""
    server = raw({**mirror("a"), "/b": in_turn(reply(b"b")), "/list": page("a")})
    with SocksProxy(port_of(server.url)) as proxy:
        through = ("--proxy", proxy.url("socks5h"))
        (tmp_path / "urls.txt").write_text("http://origin.invalid/b\nhttp://refused.test/b\n")
        of_env = {**environment, "ALL_PROXY": proxy.url("socks5h")}
        for words in (
            ("sync", "http://origin.invalid", tmp_path / "synced", *through),
            ("list", "http://origin.invalid", tmp_path / "listed.jsonl", *through),
            ("check", "urls.txt", tmp_path / "rows.jsonl", *through, "--attempts", "1"),
        ):
            ended = run(*words)
            assert ended.code == 0, ended.err
        ended = run("get", "http://origin.invalid", tmp_path / "got", "--proxy", "env", env=of_env)
        assert ended.code == 0, ended.err
        rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
        assert {row["url"]: (row["status"], row["kind"]) for row in rows} == {
            "http://origin.invalid/b": (200, None),
            "http://refused.test/b": (None, "proxy-refused"),
        }
        (reply_of_stream,) = fetchmill.stream(["http://origin.invalid/b"], proxy=proxy.url("socks5h"))
        assert reply_of_stream.body == b"b"


@pytest.mark.parametrize(
    ("proxy", "words"),
    [
        ("socks4://127.0.0.1:1", "the scheme socks4 is not supported for a proxy"),
        (f"socks5://:{'canary'}@127.0.0.1:1", "needs a user name"),
        ("socks5://127.0.0.1:1/path", "has a path"),
    ],
)
def test_unknown_proxy_scheme_gets_one_line_error(proxy: str, words: str, run: Run, dest: Path) -> None:
    """The error does not show the password of the URL."""
    ended = run("get", "http://127.0.0.1:1", dest, "--proxy", proxy)
    assert ended.code == 2
    assert words in ended.err
    assert "canary" not in ended.err


def test_python_engines_refuse_socks_proxy(run: Run, dest: Path) -> None:
    """Python libraries would need additional packages for SOCKS."""
    ended = run("get", "http://127.0.0.1:1", dest, "--proxy", "socks5://127.0.0.1:1", "--engine", "threads")
    assert ended.code == 2
    assert "--proxy socks5:// needs --engine native" in ended.err
