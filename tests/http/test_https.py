"""https against Debian's nginx: TLS versions, HTTP/2, resumption, and bad certificates.

nginx's log shows the protocol.
"""

import re
import socket
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import fetchmill
from certificates import Certificates
from foreign import read_objects
from nginx import Nginx, Site, offer
from raw_server import RawServer, mirror

Run = Callable[..., Any]
Start = Callable[..., Nginx]
Tree = Callable[..., dict[str, bytes | None]]

MIRROR = ("--listing", "autoindex")
COUNT = 300
SECONDS_AT_ONCE = 20.0
# Faults of a certificate as failure kinds; the names are attributes of Certificates.
BAD = {
    "expired": "tls-expired",
    "too_early": "tls-expired",
    "wrong_name": "tls-wrong-name",
    "self_signed": "tls-self-signed",
    "unknown_ca": "tls-unknown-ca",
    "wrong_purpose": "tls-certificate",
}
# The same for OpenSSL: X509_V_ERR_CERT_HAS_EXPIRED and so on.
OPENSSL_CODES = {
    "expired": 10,
    "too_early": 9,
    "wrong_name": 62,
    "self_signed": 18,
    "unknown_ca": 20,
    "wrong_purpose": 26,
}


@pytest.mark.parametrize("fault", BAD)
def test_openssl_confirms_test_certificate_faults(fault: str, nginx: Start, certificates: Certificates) -> None:
    """The certificates have the faults that the tests below assume, and the good one has none."""
    server = nginx(good=Site(leaf=certificates.good), bad=Site(leaf=getattr(certificates, fault)))

    assert openssl_code(server.ports["good"], certificates.ca_file) == 0
    assert openssl_code(server.ports["bad"], certificates.ca_file) == OPENSSL_CODES[fault]


ODD = {
    "weak-key": "the key is too weak: RSA with fewer than 2,048 bits",
    "sha-1": "its signature uses an unsupported algorithm, such as SHA-1",
    "long-path": "its chain is not valid: PathLenConstraintViolated",
    "unknown-extension": "its chain is not valid: UnsupportedCriticalExtension",
}


@pytest.mark.parametrize("fault", ODD)
def test_rule_breaking_certificate_is_refused_with_reason(
    run: Run, certificates: Certificates, dest: Path, fault: str
) -> None:
    """A bad certificate is accepted only for a host that the user names as insecure."""
    leaf = certificates.signed_with_sha1() if fault == "sha-1" else certificates.odd(fault)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # Otherwise, OpenSSL does not serve a weak key.
    context.set_ciphers("DEFAULT@SECLEVEL=0")
    context.load_cert_chain(leaf.chain, leaf.key)
    with RawServer(mirror(["a"]), tls=context) as server:
        command = ("get", server.url, dest, "--ca-file", certificates.ca_file)
        refused = run(*command)
        taken = run(*command, "--insecure-host", "localhost")

    assert refused.code == 6
    assert f"(tls-certificate; {ODD[fault]})" in refused.err
    assert (taken.code, (dest / "a").exists()) == (0, True), taken.err


def openssl_code(port: int, ca_file: Path) -> int:
    """Returns OpenSSL's verification error for a server's certificate; 0 if there is none."""
    context = ssl.create_default_context(cafile=ca_file)
    try:
        with socket.create_connection(("127.0.0.1", port)) as plain:
            context.wrap_socket(plain, server_hostname="localhost").close()
    except ssl.SSLCertVerificationError as error:
        return error.verify_code
    return 0


def fill(folder: Path, count: int = COUNT) -> None:
    """Creates files of up to some kilobytes in a few folders; one is larger than a TLS record."""
    for number in range(count):
        path = folder / f"folder {number % 7}" / f"{number:04d}"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(f"{number}, ".encode() * (number % 997))
    (folder / "large").write_bytes(bytes(range(256)) * 4096)


@dataclass(frozen=True, kw_only=True)
class Spoken:
    """The server's offer, the user's choice, and the expected protocol."""

    protocols: str
    http2: bool
    options: tuple[str, ...] = ()
    http: str
    tls: str


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "spoken",
    [
        Spoken(protocols="TLSv1.2", http2=False, http="HTTP/1.1", tls="TLSv1.2"),
        Spoken(protocols="TLSv1.3", http2=False, http="HTTP/1.1", tls="TLSv1.3"),
        Spoken(protocols="TLSv1.2", http2=True, http="HTTP/2.0", tls="TLSv1.2"),
        Spoken(protocols="TLSv1.3", http2=True, http="HTTP/2.0", tls="TLSv1.3"),
        Spoken(protocols="TLSv1.2 TLSv1.3", http2=True, options=("--http2",), http="HTTP/2.0", tls="TLSv1.3"),
        Spoken(protocols="TLSv1.2 TLSv1.3", http2=True, options=("--no-http2",), http="HTTP/1.1", tls="TLSv1.3"),
        Spoken(protocols="TLSv1.2 TLSv1.3", http2=False, options=("--http2",), http="HTTP/1.1", tls="TLSv1.3"),
    ],
    ids=["1.2", "1.3", "h2 by 1.2", "h2 by 1.3", "h2 wanted", "h2 not wanted", "h2 not offered"],
)
def test_folder_is_mirrored_over_best_protocol(
    spoken: Spoken, run: Run, nginx: Start, certificates: Certificates, served: Path, dest: Path, tree: Tree
) -> None:
    """Each file is identical and was requested once."""
    fill(served)
    server = nginx(tls=Site(leaf=certificates.good, protocols=spoken.protocols, http2=spoken.http2))

    ended = run("get", server.url("tls"), dest, *MIRROR, "--ca-file", certificates.ca_file, *spoken.options)

    assert ended.code == 0, ended.err
    assert f"{COUNT + 1:,} listed = {COUNT + 1:,} fetched + 0 absent + 0 failed + 0 skipped\n" in ended.err
    assert tree(dest) == tree(served)
    seen = server.seen("tls")
    assert {(each.tls, each.status) for each in seen} == {(spoken.tls, "200")}
    assert {each.http for each in seen if not each.path.endswith("/")} == {spoken.http}, "folders go one by one"
    assert {each.host for each in seen} == {f"localhost:{server.ports['tls']}"}
    assert set(server.fetched("tls").values()) == {1}


@pytest.mark.parametrize("http2", [False, True], ids=["HTTP/1.1", "HTTP/2"])
def test_api_is_listed_and_fetched_over_https(
    http2: bool, run: Run, nginx: Start, certificates: Certificates, served: Path, dest: Path, tree: Tree
) -> None:
    """The listing uses TLS, too. A certificate may be for an address instead of a name."""
    offer(served, {"a": b"a", "b/c": b"b/c"})
    server = nginx(api=Site(leaf=certificates.good, http2=http2))

    ended = run("get", server.url("api", "127.0.0.1"), dest, "--ca-file", certificates.ca_file)

    assert ended.code == 0, ended.err
    assert tree(dest) == {"a": b"a", "b": None, "b/c": b"b/c"}


@pytest.mark.parametrize("protocols", ["TLSv1.2", "TLSv1.3"])
def test_tls_sessions_are_resumed(
    protocols: str, run: Run, nginx: Start, certificates: Certificates, served: Path, dest: Path
) -> None:
    """A server that closes each connection after five requests sees at most one full handshake per thread."""
    fill(served, 100)
    site = Site(leaf=certificates.good, protocols=protocols, directives="keepalive_requests 5;")
    server = nginx(tls=site)

    one_by_one = ("--concurrency", "1", "--threads", "1")
    ended = run("get", server.url("tls"), dest, *MIRROR, "--ca-file", certificates.ca_file, *one_by_one)

    assert ended.code == 0, ended.err
    how = {each.connection: each.resumed for each in server.seen("tls")}
    full = [connection for connection, resumed in how.items() if resumed != "r"]
    assert len(how) >= 100 / 5
    assert len(full) <= 2, "one of the listing, one of the thread"


@pytest.mark.parametrize(("fault", "kind"), BAD.items())
def test_bad_certificate_of_only_server_stops_job(
    fault: str, kind: str, run: Run, nginx: Start, certificates: Certificates, served: Path, dest: Path
) -> None:
    """The exit code is 6, the one-line error has the fault, and no request is sent."""
    fill(served, 3)
    server = nginx(bad=Site(leaf=getattr(certificates, fault)))

    began = time.monotonic()
    ended = run("get", server.url("bad"), dest, *MIRROR, "--ca-file", certificates.ca_file)
    took = time.monotonic() - began

    assert ended.code == 6, ended.err
    assert took < SECONDS_AT_ONCE
    assert kind in ended.err
    assert "localhost" in ended.err
    assert [line for line in ended.err.splitlines() if "error:" in line] == ended.err.splitlines()[-1:]
    assert server.seen("bad") == []


def test_good_certificate_is_refused_without_its_authority(
    run: Run, nginx: Start, certificates: Certificates, dest: Path
) -> None:
    """The system's authorities do not include that of the tests."""
    server = nginx(tls=Site(leaf=certificates.good))

    ended = run("get", server.url("tls"), dest, *MIRROR)

    assert ended.code == 6, ended.err
    assert "tls-unknown-ca" in ended.err
    assert server.seen("tls") == []


@pytest.mark.parametrize("fault", BAD)
def test_insecure_host_may_have_any_certificate(
    fault: str, run: Run, nginx: Start, certificates: Certificates, served: Path, dest: Path, tree: Tree
) -> None:
    """A host that the user names as insecure may have any certificate."""
    fill(served, 3)
    server = nginx(bad=Site(leaf=getattr(certificates, fault)))
    insecure = ("--insecure-host", "localhost")

    ended = run("get", server.url("bad"), dest, *MIRROR, "--ca-file", certificates.ca_file, *insecure)

    assert ended.code == 0, ended.err
    assert tree(dest) == tree(served)


def test_insecure_host_applies_only_to_that_host(
    run: Run, nginx: Start, certificates: Certificates, served: Path, dest: Path
) -> None:
    """Other hosts are still checked, even the same server under its IP address."""
    fill(served, 3)
    server = nginx(bad=Site(leaf=certificates.expired))
    insecure = ("--insecure-host", "127.0.0.1", "--insecure-host", "host")

    ended = run("get", server.url("bad"), dest, *MIRROR, "--ca-file", certificates.ca_file, *insecure)

    assert ended.code == 6, ended.err
    assert "tls-expired" in ended.err
    assert server.seen("bad") == []


@pytest.mark.parametrize(("fault", "kind"), BAD.items())
def test_bad_certificate_fails_only_targets_of_its_host(
    fault: str,
    kind: str,
    run: Run,
    nginx: Start,
    certificates: Certificates,
    served: Path,
    dest: Path,
    tmp_path: Path,
) -> None:
    """In a list of URLs, the other host's targets are fetched and stored under their URLs."""
    fill(served, 20)
    server = nginx(good=Site(leaf=certificates.good), bad=Site(leaf=getattr(certificates, fault)))
    names = sorted(path.relative_to(served).as_posix() for path in served.rglob("*") if path.is_file())
    urls = {site: [f"{server.url(site)}/{name.replace(' ', '%20')}" for name in names] for site in server.sites}
    pairs = zip(urls["good"], urls["bad"], strict=True)
    (tmp_path / "urls.txt").write_text("".join(f"{good}\n{bad}\n" for good, bad in pairs))

    ended = run("get", "urls.txt", dest, "--allow-private", "--format", "parquet", "--ca-file", certificates.ca_file)

    assert ended.code == 3, ended.err
    assert f"{2 * len(names)} listed = {len(names)} fetched + 0 absent + {len(names)} failed + 0 skipped" in ended.err
    stored = {each.name.decode(): each.body for each in read_objects(dest, "parquet", "duckdb")}
    assert stored == {url: (served / name).read_bytes() for url, name in zip(urls["good"], names, strict=True)}
    assert {(each.name, each.kind) for each in fetchmill.failures(dest)} == {(url, kind) for url in urls["bad"]}
    assert server.seen("bad") == []


def test_self_signed_certificate_in_ca_file_is_accepted(
    run: Run, nginx: Start, certificates: Certificates, served: Path, dest: Path, tmp_path: Path
) -> None:
    """As in curl, a self-signed certificate in the CA file is trusted.

    Its name and dates are still checked, and any other certificate is refused.
    """
    fill(served, 5)
    own, expired = certificates.own_authority, certificates.expired_authority
    server = nginx(own=Site(leaf=own), expired=Site(leaf=expired))

    taken = run("get", server.url("own"), dest, *MIRROR, "--ca-file", own.chain)
    assert taken.code == 0, taken.err
    for url, ca_file, kind in (
        (server.url("own", "127.0.0.1"), own.chain, "tls-wrong-name"),
        (server.url("expired"), expired.chain, "tls-expired"),
        (server.url("own"), expired.chain, "tls-self-signed"),
    ):
        refused = run("get", url, tmp_path / "other", *MIRROR, "--ca-file", ca_file)
        assert (refused.code, kind in refused.err) == (6, True), refused.err


def test_untrusted_host_is_reported_once(
    run: Run, nginx: Start, certificates: Certificates, served: Path, dest: Path, tmp_path: Path
) -> None:
    """One notice names each untrusted host of several.

    If it is the only host, the job ends, whatever the number of its targets.
    """
    fill(served, 20)
    server = nginx(good=Site(leaf=certificates.good), bad=Site(leaf=certificates.self_signed))
    (tmp_path / "both.txt").write_text(
        f"{server.url('good')}/large\n" + "".join(f"{server.url('bad')}/{n}\n" for n in range(200))
    )
    (tmp_path / "one.txt").write_text("".join(f"{server.url('bad')}/{n}\n" for n in range(20_000)))
    options = ("--allow-private", "--format", "null", "--ca-file", certificates.ca_file)

    both = run("get", "both.txt", dest, *options)
    one = run("get", "one.txt", tmp_path / "other", *options)

    assert both.code == 3, both.err
    assert both.err.count(f"the certificate of {server.url('bad')} is self-signed") == 1, both.err
    assert "--ca-file" in both.err
    assert one.code == 6, one.err
    assert "if you trust it, pass it with --ca-file" in one.err


@pytest.mark.parametrize("content", [None, b"", b"no certificate at all\n"], ids=["missing", "empty", "text"])
def test_ca_file_without_certificates_is_refused(content: bytes | None, run: Run, dest: Path, tmp_path: Path) -> None:
    """The error comes before anything is changed, because a file that trusts nobody is a mistake."""
    if content is not None:
        (tmp_path / "ca.pem").write_bytes(content)

    ended = run("get", "https://localhost:1", dest, "--ca-file", "ca.pem")

    assert ended.code == 2, ended.err
    assert "ca.pem" in ended.err
    assert not dest.exists()


def test_listing_from_server_without_tls_fails_by_kind(run: Run, nginx: Start, dest: Path) -> None:
    """The failure kind says that the server does not use TLS."""
    server = nginx(plain=Site())

    ended = run("get", server.url("plain").replace("http:", "https:"), dest)

    assert ended.code == 4, ended.err
    assert re.search(r"\btls\b", ended.err)
