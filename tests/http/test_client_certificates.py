"""`--client-cert` and `--client-key`: which servers get the certificate, and errors if it cannot be used."""

import os
import ssl
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import fetchmill
from certificates import Certificates, Leaf, demanding
from nginx import Nginx, Site, offer
from raw_server import Behaviour, RawServer, bare_reply, mirror, reply
from stored import everything

Run = Callable[..., Any]
Start = Callable[..., Nginx]
Tree = Callable[..., dict[str, bytes | None]]
Serve = Callable[..., RawServer]


@pytest.fixture
def demands(certificates: Certificates) -> Iterator[Serve]:
    """Starts servers that require a client certificate."""
    with ExitStack() as stack:

        def start(routes: dict[str, Behaviour], version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> RawServer:
            return stack.enter_context(RawServer(routes, tls=demanding(certificates, version)))

        yield start


@pytest.fixture
def client(certificates: Certificates) -> Leaf:
    """Returns a certificate for clients only."""
    return certificates.wrong_purpose


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=["TLS 1.2", "TLS 1.3"])
def test_all_commands_send_client_certificate(
    version: ssl.TLSVersion, run: Run, demands: Serve, certificates: Certificates, client: Leaf, tmp_path: Path
) -> None:
    """Only the paths of the files are stored, and a second run reads the files again."""
    server = demands({**mirror("ab"), "/c": reply(b"c")}, version)
    both = tmp_path / "both.pem"
    both.write_bytes(client.key.read_bytes() + client.chain.read_bytes())
    trust = ("--ca-file", certificates.ca_file)
    shown = (*trust, "--client-cert", client.chain, "--client-key", client.key)
    (tmp_path / "urls.txt").write_text(f"{server.url}/c\n")
    to_server = ("--allow-private", "--credentials-for", server.url)
    for words in (
        ("get", server.url, tmp_path / "got", *shown),
        ("get", server.url, tmp_path / "got", *trust, "--client-cert", both),
        ("sync", server.url, tmp_path / "synced", *shown),
        ("list", server.url, tmp_path / "listed.jsonl", *shown),
        ("check", "urls.txt", tmp_path / "rows.jsonl", *shown, *to_server),
    ):
        ended = run(*words)
        assert ended.code == 0, (words, ended.err)
    assert '"status":200' in (tmp_path / "rows.jsonl").read_text().replace(" ", "")
    (streamed,) = fetchmill.stream(
        [f"{server.url}/c"], ca_file=certificates.ca_file, client_cert=both, credentials_for=server.url
    )
    assert streamed.body == b"c"
    key = client.key.read_bytes().splitlines()[1]
    assert not [content for content in everything(tmp_path / "got") if key in content]


def test_client_certificate_is_sent_over_http2(
    run: Run, nginx: Start, certificates: Certificates, client: Leaf, served: Path, dest: Path, tree: Tree
) -> None:
    """A client without a certificate gets a 400 from nginx."""
    offer(served, {"a": b"x"})
    asks = f"ssl_client_certificate {certificates.ca_file}; ssl_verify_client on;"
    server = nginx(tls=Site(leaf=certificates.good, http2=True, directives=asks))
    words = ("get", server.url("tls"), dest, "--ca-file", certificates.ca_file)
    assert run(*words).code != 0
    ended = run(*words, "--client-cert", client.chain, "--client-key", client.key)
    assert ended.code == 0, ended.err
    assert tree(dest) == {"a": b"x"}
    assert {each.http for each in server.seen("tls") if each.path == "/get/a"} == {"HTTP/2.0"}


def test_client_certificate_is_not_sent_to_other_origins(
    run: Run, demands: Serve, certificates: Certificates, client: Leaf, dest: Path, tmp_path: Path
) -> None:
    """Redirects and lists lead to other origins, which must not identify the client."""
    other = demands({"/b": reply(b"b")})
    moved = bare_reply(f"Location: {other.url}/b", "Content-Length: 0", status="302 Found")
    server = demands({"/a": moved, "/c": reply(b"c")})
    (tmp_path / "urls.txt").write_text(f"{server.url}/a\n{server.url}/c\n{other.url}/b\n")
    shown = ("--client-cert", client.chain, "--client-key", client.key, "--credentials-for", server.url)

    ended = run(
        "get", "urls.txt", dest, "--format", "jsonl", "--allow-private", "--ca-file", certificates.ca_file, *shown
    )

    assert ended.code == 3, ended.err
    failed = {each.name: (each.kind, each.detail) for each in fetchmill.failures(dest)}
    assert set(failed) == {f"{server.url}/a", f"{other.url}/b"}
    for kind, detail in failed.values():
        assert kind == "tls"
        assert "the server requires a client certificate; see --client-cert" in (detail or "")


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=["TLS 1.2", "TLS 1.3"])
def test_rejected_client_certificate_is_named_in_error(
    version: ssl.TLSVersion, run: Run, demands: Serve, certificates: Certificates, tmp_path: Path
) -> None:
    """The error names the certificate, and the request is not retried."""
    server = demands({"/a": reply(b"a")}, version)
    wrong = certificates.unknown_ca
    (tmp_path / "urls.txt").write_text(f"{server.url}/a\n")
    words = ("--client-cert", wrong.chain, "--client-key", wrong.key, "--credentials-for", server.url)
    run("get", "urls.txt", "out", "--format", "jsonl", "--allow-private", "--ca-file", certificates.ca_file, *words)
    (failure,) = fetchmill.failures(tmp_path / "out")
    assert (failure.kind, failure.attempts) == ("tls", 1)
    assert "TLS alert unknown_ca: the server refused the client certificate" in (failure.detail or "")


def test_unusable_client_certificate_files_are_refused(
    run: Run, certificates: Certificates, client: Leaf, tmp_path: Path
) -> None:
    """The error is one line with the option and the remedy, and comes before any request."""
    chain, key = client.chain, client.key
    locked, older, empty, pipe = (tmp_path / name for name in ("locked.pem", "older.pem", "empty.pem", "pipe"))
    to_lock = ("openssl", "pkey", "-in", key, "-aes256", "-passout", "pass:x", "-out", locked)
    subprocess.run(to_lock, check=True, capture_output=True, timeout=60)
    older.write_text("-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nAAAA\n-----END RSA PRIVATE KEY-----\n")
    empty.write_text("")
    os.mkfifo(pipe)
    https, http = "https://localhost:1", "http://localhost:1"
    (tmp_path / "urls.txt").write_text(f"{https}/a\n")
    for source, words, said in (
        (https, ("--client-cert", tmp_path / "none"), "it cannot be read"),
        (https, ("--client-cert", empty), "it has no certificate"),
        (https, ("--client-cert", pipe), "not a regular file"),
        (https, ("--client-cert", chain), "name the key file with --client-key"),
        (https, ("--client-cert", chain, "--client-key", empty), "it has no private key"),
        (https, ("--client-cert", chain, "--client-key", locked), "its key is encrypted"),
        (https, ("--client-cert", chain, "--client-key", older), "its key is encrypted"),
        (https, ("--client-cert", chain, "--client-key", certificates.good.key), "does not match the certificate"),
        (https, ("--client-key", key), "--client-key needs --client-cert"),
        (http, ("--client-cert", chain, "--client-key", key), "is sent only over TLS"),
        ("urls.txt", ("--client-cert", chain, "--client-key", key), "--credentials-for"),
        (https, ("--client-cert", chain, "--client-key", key, "--engine", "threads"), "--engine native"),
    ):
        ended = run("get", source, "out", *words)
        assert ended.code == 2, (words, ended.err)
        assert said in ended.err, (words, ended.err)
        assert len(ended.err.splitlines()) == 1, ended.err
        assert not (tmp_path / "out").exists(), words
    for options, said in (
        ({"client_cert": chain, "client_key": key}, "credentials_for"),
        ({"client_key": key}, "client_cert"),
        ({"client_cert": chain, "client_key": locked, "credentials_for": https}, "encrypted"),
    ):
        with pytest.raises(fetchmill.UsageError, match=said):
            list(fetchmill.stream([f"{https}/a"], **options))
