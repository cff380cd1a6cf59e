"""Credentials go only to the origin that they were given for, and are neither stored nor shown."""

import base64
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from certificates import Certificates
from nginx import Nginx, Seen, Site, moved, offer
from stored import everything

Run = Callable[..., Any]
Start = Callable[..., Nginx]

SECRET = "canary-7a11"  # noqa: S105 - looked for where it must not be
BODY = b"for those who may"


@dataclass(frozen=True)
class Given:
    """Options, and the field of `Seen` in which a server finds them."""

    options: tuple[str, str]
    field: str
    value: str

    def found(self, seen: list[Seen]) -> set[str]:
        """Returns what the requests had."""
        return {getattr(each, self.field) for each in seen}


BEARER = Given(("--bearer", SECRET), "authorization", f"Bearer {SECRET}")
BASIC = Given(
    ("--auth", f"me:{SECRET}"), "authorization", f"Basic {base64.b64encode(f'me:{SECRET}'.encode()).decode()}"
)
FIELD = Given(("--header", f"X-Token: {SECRET}"), "token", SECRET)
PRINTED = Given(("--bearer-command", f"echo {SECRET}"), "authorization", f"Bearer {SECRET}")
ALL = pytest.mark.parametrize(
    "given", [BEARER, BASIC, FIELD, PRINTED], ids=["bearer", "auth", "header", "bearer-command"]
)


@ALL
@pytest.mark.parametrize("http2", [False, True], ids=["HTTP/1.1", "HTTP/2"])
def test_credentials_are_not_sent_to_redirect_targets(
    given: Given, http2: bool, run: Run, nginx: Start, certificates: Certificates, served: Path, dest: Path
) -> None:
    """The listing and each object use the credentials. Another port of the same host is another origin."""
    offer(served, {"a": BODY, "b": BODY})
    one = Site(leaf=certificates.good, http2=http2, directives=moved("/get/a", "@other@/get/a"))
    server = nginx(one=one, other=Site(leaf=certificates.good, http2=http2))
    options = (*given.options, "--redirects", "5", "--ca-file", certificates.ca_file)

    ended = run("get", server.url("one"), dest, *options)

    assert ended.code == 0, ended.err
    assert (dest / "a").read_bytes() == BODY
    assert server.fetched("one") == {"/list": 1, "/get/a": 1, "/get/b": 1}
    assert given.found(server.seen("one")) == {given.value}
    assert server.fetched("other") == {"/get/a": 1}
    assert given.found(server.seen("other")) == {""}


@ALL
def test_credentials_are_not_sent_to_other_scheme(
    given: Given, run: Run, nginx: Start, certificates: Certificates, served: Path, dest: Path
) -> None:
    """A change from http to https is a change of origin, although nobody could read the credentials."""
    offer(served, {"a": BODY})
    server = nginx(plain=Site(directives=moved("/get/a", "@tls@/get/a")), tls=Site(leaf=certificates.good))
    options = (*given.options, "--redirects", "5", "--ca-file", certificates.ca_file)

    ended = run("get", server.url("plain"), dest, *options)

    assert ended.code == 0, ended.err
    assert given.found(server.seen("plain")) == {given.value}
    assert given.found(server.seen("tls")) == {""}


@ALL
def test_list_credentials_are_sent_only_to_named_origin(
    given: Given, run: Run, nginx: Start, certificates: Certificates, served: Path, dest: Path, tmp_path: Path
) -> None:
    """Other URLs of a list are requested without credentials."""
    (served / "a").write_bytes(BODY)
    server = nginx(one=Site(leaf=certificates.good), other=Site(leaf=certificates.good), plain=Site())
    (tmp_path / "urls.txt").write_text("".join(f"{server.url(site)}/a\n" for site in server.sites))
    options = (*given.options, "--credentials-for", server.url("one"), "--ca-file", certificates.ca_file)

    ended = run("get", "urls.txt", dest, "--allow-private", "--format", "jsonl", *options)

    assert ended.code == 0, ended.err
    found = {site: given.found(server.seen(site)) for site in server.sites}
    assert found == {"one": {given.value}, "other": {""}, "plain": {""}}


@ALL
def test_list_credentials_are_refused_without_named_origin(
    given: Given, run: Run, nginx: Start, served: Path, dest: Path, tmp_path: Path
) -> None:
    """The job does not start if no origin is named."""
    (served / "a").write_bytes(BODY)
    server = nginx(plain=Site())
    (tmp_path / "urls.txt").write_text(f"{server.url('plain')}/a\n")

    ended = run("get", "urls.txt", dest, *given.options)

    assert ended.code == 2, ended.err
    assert "--credentials-for" in ended.err
    assert SECRET not in ended.err
    assert server.seen("plain") == []


@pytest.mark.sampled(5)
@ALL
@pytest.mark.parametrize("format", ["warc", "jsonl"])
def test_credentials_are_neither_stored_nor_shown(
    given: Given, format: str, run: Run, nginx: Start, served: Path, dest: Path
) -> None:
    """Credentials are not in a request record, the journal, the failures or the terminal output."""
    offer(served, {"a": BODY, "refused": b""})
    server = nginx(plain=Site(directives="location = /get/refused { return 403; }"))

    ended = run("get", server.url("plain"), dest, "--format", format, *given.options)
    told = run("status", dest, "--failures")

    assert ended.code == 3, ended.err
    assert given.found(server.seen("plain")) == {given.value}
    secrets = {text.encode() for text in (SECRET, given.value)}
    shown = f"{ended.out}{ended.err}{told.out}{told.err}".encode()
    stored = everything(dest)
    assert any(BODY in each for each in stored)
    assert [secret for secret in secrets for each in (shown, *stored) if secret in each] == []


def test_netrc_is_read_only_on_request(
    run: Run, nginx: Start, served: Path, dest: Path, tmp_path: Path, environment: dict[str, str]
) -> None:
    """By default, `~/.netrc` is not read."""
    offer(served, {"a": BODY})
    (tmp_path / ".netrc").write_text(f"machine localhost login me password {SECRET}\n")
    server = nginx(plain=Site())

    ended = run("get", server.url("plain"), dest, env=environment | {"HOME": str(tmp_path)})

    assert ended.code == 0, ended.err
    assert {each.authorization for each in server.seen("plain")} == {""}
