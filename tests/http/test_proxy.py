"""`--proxy`: what a proxy gets, what it does not get, and that no request bypasses it."""

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

import fetchmill
from certificates import Certificates
from forward_proxy import ForwardProxy
from nginx import Nginx, Site, moved, offer
from stored import everything

Run = Callable[..., Any]
Start = Callable[..., Nginx]
StartProxy = Callable[..., ForwardProxy]
Tree = Callable[..., dict[str, bytes | None]]

USER = "me:canary-b33f"
BASIC = f"Basic {base64.b64encode(USER.encode()).decode()}"
TOKEN = "canary-7a11"  # noqa: S105 - looked for where it must not be
OBJECTS = {f"object-{number}": f"{number}".encode() for number in range(40)}
VARIABLES = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "all_proxy")


@pytest.mark.parametrize("http2", [False, True], ids=["HTTP/1.1", "HTTP/2"])
def test_https_proxy_tunnel_hides_contents(
    http2: bool, run: Run, nginx: Start, proxy: StartProxy, certificates: Certificates, served: Path, dest: Path
) -> None:
    """The proxy learns host, port and user, but nothing of the contents. The origin does not learn of the proxy."""
    offer(served, OBJECTS)
    server = nginx(tls=Site(leaf=certificates.good, http2=http2))
    tunnels = proxy(USER)
    options = ("--proxy", tunnels.url(), "--bearer", TOKEN, "--ca-file", certificates.ca_file)

    ended = run("get", server.url("tls"), dest, *options)

    assert ended.code == 0, ended.err
    assert {path.name: path.read_bytes() for path in dest.iterdir() if path.is_file()} == OBJECTS
    authority = f"localhost:{server.ports['tls']}"
    assert {(asked.method, asked.target, asked.fields["host"]) for asked in tunnels.asked} == {
        ("CONNECT", authority, authority)
    }
    assert {asked.fields["proxy-authorization"] for asked in tunnels.asked} == {BASIC}
    assert TOKEN not in repr(tunnels.asked)
    seen = server.seen("tls")
    assert len(seen) == 1 + len(OBJECTS)
    assert {(each.authorization, each.proxy_authorization) for each in seen} == {(f"Bearer {TOKEN}", "")}


def test_http_proxy_request_is_in_absolute_form(
    run: Run, nginx: Start, proxy: StartProxy, served: Path, dest: Path
) -> None:
    """As RFC 9112, 3.2.2, requires, the request has the whole URL, and the `Host` of the origin."""
    offer(served, OBJECTS)
    server = nginx(plain=Site())
    forwards = proxy(USER)

    ended = run("get", server.url("plain"), dest, "--proxy", forwards.url())

    assert ended.code == 0, ended.err
    assert {path.name: path.read_bytes() for path in dest.iterdir() if path.is_file()} == OBJECTS
    paths = ["/list", *(f"/get/{name}" for name in OBJECTS)]
    assert {asked.method for asked in forwards.asked} == {"GET"}
    assert {asked.target.partition("?")[0] for asked in forwards.asked} == {
        server.url("plain") + path for path in paths
    }
    assert {asked.fields["host"] for asked in forwards.asked} == {f"localhost:{server.ports['plain']}"}
    assert {asked.fields["proxy-authorization"] for asked in forwards.asked} == {BASIC}
    assert set(server.fetched("plain")) == set(paths)


def test_redirect_goes_through_proxy(
    run: Run, nginx: Start, proxy: StartProxy, certificates: Certificates, served: Path, dest: Path, tree: Tree
) -> None:
    """The redirect leads from absolute form to a tunnel. The other origin gets neither user nor proxy credentials."""
    offer(served, {"a": b"found"})
    server = nginx(plain=Site(directives=moved("/get/a", "@tls@/get/a")), tls=Site(leaf=certificates.good))
    both = proxy(USER)
    options = ("--proxy", both.url(), "--redirects", "5", "--bearer", TOKEN, "--ca-file", certificates.ca_file)

    ended = run("get", server.url("plain"), dest, *options)

    assert ended.code == 0, ended.err
    assert tree(dest) == {"a": b"found"}
    assert [asked.method for asked in both.asked] == ["GET", "GET", "CONNECT"]
    assert both.asked[-1].target == f"localhost:{server.ports['tls']}"
    assert [(each.authorization, each.proxy_authorization) for each in server.seen("tls")] == [("", "")]


def test_proxied_redirect_to_private_address_is_refused(
    run: Run, nginx: Start, proxy: StartProxy, served: Path, dest: Path, tree: Tree
) -> None:
    """The proxy does not reveal addresses, so a name counts as public.

    A private address is not even requested from the proxy.
    """
    offer(served, {"a": b"", "b": b"", "stays": b"here"})
    moves = moved("/get/a", "http://127.0.0.1:1/x") + moved("/get/b", "@plain@/get/stays")
    server = nginx(plain=Site(directives=moves))
    forwards = proxy()

    ended = run("get", server.url("plain"), dest, "--proxy", forwards.url(), "--redirects", "5")
    [streamed] = fetchmill.stream([server.url("plain") + "/get/a"], proxy=forwards.url(), redirects=5)
    by_address = server.url("plain", "127.0.0.1") + "/get/b"
    [from_address] = fetchmill.stream([by_address], proxy=forwards.url(), redirects=5)

    assert ended.code == 3, ended.err
    assert tree(dest) == {"b": b"here", "stays": b"here"}
    assert [(each.name, each.kind) for each in fetchmill.failures(dest)] == [("a", "private-address")]
    assert streamed.error is not None
    assert streamed.error.kind == "private-address"
    assert from_address.body == b"here"
    assert "127.0.0.1:1" not in {urlsplit(asked.target).netloc for asked in forwards.asked}


def test_certificate_is_checked_through_proxy(
    run: Run, nginx: Start, proxy: StartProxy, certificates: Certificates, served: Path, dest: Path
) -> None:
    """The certificate must have the origin's name, because the proxy is not trusted."""
    offer(served, OBJECTS)
    server = nginx(tls=Site(leaf=certificates.wrong_name))

    ended = run("get", server.url("tls"), dest, "--proxy", proxy().url(), "--ca-file", certificates.ca_file)

    assert ended.code == 6, ended.err
    assert "tls-wrong-name" in ended.err
    assert server.seen("tls") == []


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_refusing_proxy_is_not_bypassed(
    scheme: str, run: Run, nginx: Start, proxy: StartProxy, certificates: Certificates, served: Path, dest: Path
) -> None:
    """After a 407, nothing is requested directly, and the password is not shown."""
    offer(served, OBJECTS)
    server = nginx(http=Site(), https=Site(leaf=certificates.good))
    refuses = proxy("somebody:else")

    ended = run("get", server.url(scheme), dest, "--proxy", refuses.url(USER), "--ca-file", certificates.ca_file)

    assert ended.code == 4, ended.err
    assert "407" in ended.err or "proxy" in ended.err
    assert USER.partition(":")[2] not in ended.err
    assert refuses.asked
    assert server.seen(scheme) == []


def test_environment_proxy_is_used_only_on_request(
    run: Run, nginx: Start, proxy: StartProxy, served: Path, tmp_path: Path, environment: dict[str, str]
) -> None:
    """Without `--proxy env`, the variables have no effect."""
    offer(served, OBJECTS)
    server = nginx(plain=Site())
    forwards = proxy(USER)
    set_variables = environment | dict.fromkeys(VARIABLES, forwards.url())

    unasked = run("get", server.url("plain"), tmp_path / "unasked", env=set_variables)
    before = len(forwards.asked)
    asked = run("get", server.url("plain"), tmp_path / "asked", "--proxy", "env", env=set_variables)

    assert (unasked.code, asked.code) == (0, 0), asked.err
    assert before == 0
    assert len(forwards.asked) == 1 + len(OBJECTS)


@pytest.mark.parametrize("engine", ["native", "threads", "asyncio"])
def test_each_scheme_uses_its_own_environment_proxy(
    run: Run,
    nginx: Start,
    proxy: StartProxy,
    certificates: Certificates,
    served: Path,
    tmp_path: Path,
    environment: dict[str, str],
    engine: str,
) -> None:
    """As with curl, a token for an http origin never reaches the https proxy. Rules of `no_proxy` agree, too."""
    offer(served, OBJECTS)
    server = nginx(plain=Site(), tls=Site(leaf=certificates.good))
    plain, tls = proxy(), proxy()
    variables = {name: value for name, value in environment.items() if "proxy" not in name.lower()}
    urls = tmp_path / "urls.txt"

    def fetch(name: str, scheme: str, **proxies: str) -> None:
        urls.write_text(f"{server.url(scheme)}/get/object-1\n")
        options = ("--proxy", "env", "--engine", engine, "--allow-private", "--ca-file", certificates.ca_file)
        bearer = ("--bearer", TOKEN, "--credentials-for", server.url(scheme))
        ended = run("get", urls, tmp_path / name, *options, *bearer, env=variables | proxies)
        assert ended.code == 0, ended.err

    fetch("plain", "plain", http_proxy=plain.url(), https_proxy=tls.url())
    assert (len(plain.asked), len(tls.asked)) == (1, 0)
    fetch("tls", "tls", http_proxy=plain.url(), https_proxy=tls.url())
    assert (len(plain.asked), [asked.method for asked in tls.asked]) == (1, ["CONNECT"])
    assert TOKEN not in repr(tls.asked)
    fetch("alone", "plain", https_proxy=tls.url())
    fetch("covered", "plain", http_proxy=plain.url(), no_proxy="x.test, LOCALHOST,127.0.0.0/8")
    assert (len(plain.asked), len(tls.asked)) == (1, 1)


def test_proxy_credentials_are_not_stored(run: Run, nginx: Start, proxy: StartProxy, served: Path, dest: Path) -> None:
    """The journal has no proxy user, so the next run needs the option again."""
    offer(served, OBJECTS)
    server = nginx(plain=Site())

    ended = run("get", server.url("plain"), dest, "--format", "warc", "--proxy", proxy(USER).url())

    assert ended.code == 0, ended.err
    stored = everything(dest)
    secrets = [text.encode() for text in (USER, USER.partition(":")[2], BASIC)]
    assert any(OBJECTS["object-39"] in each for each in stored)
    assert [secret for secret in secrets for each in stored if secret in each] == []
