"""`fetchmill serve` and `fetchmill.testing.serve`: serving, faults, and stopping."""

import json
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

import fetchmill
import raw_server
from fetchmill import testing
from fetchmill.testing import Fault

Run = Callable[..., Any]
Serve = Callable[..., testing.Server]


def read(url: str) -> bytes:
    """Returns the body at a URL."""
    with urllib.request.urlopen(url, timeout=10) as reply:  # noqa: S310 - http, from our own server
        body: bytes = reply.read()
    return body


def url_of(process: subprocess.Popen[str]) -> str:
    """Returns the URL that the command prints when it is ready."""
    assert process.stderr is not None
    line = process.stderr.readline()
    assert line.startswith("serving "), line
    url = next(word.rstrip(",") for word in line.split() if word.startswith("http://"))
    assert process.stderr.readline() == f"for example: fetchmill get {url} out/\n"
    return url


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_server_runs_until_signal(start: Run, number: signal.Signals) -> None:
    """The server runs until a signal. It then writes its counters if requested."""
    process = start("serve", "--synthetic", "1e3", "--size", "1KiB", "--port", 0, "--page-size", 10, "--stats")
    url = url_of(process)

    page = json.loads(read(f"{url}/list"))
    body = read(f"{url}/get/{page['FileNames'][3]}")
    process.send_signal(number)
    out, err = process.communicate(timeout=120)

    assert process.returncode == 0
    assert len(page["FileNames"]) == 10
    assert body == testing.synthetic_body(page["FileNames"][3], 1024)
    assert err == ""
    assert (json.loads(out)["list"], json.loads(out)["get"]) == (1, 1)


def test_folder_is_served(start: Run, tmp_path: Path) -> None:
    """A folder is served, also with a path relative to the working folder."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/a b").write_text("content")

    url = url_of(start("serve", "folder", "--port", 0))

    assert json.loads(read(f"{url}/list"))["FileNames"] == ["a b"]
    assert read(f"{url}/get/a%20b") == b"content"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no-such-folder", "--port", "0"], "no-such-folder"),
        (["--synthetic", "5", "--delay", "0-0.5", "--delay-steps", "--port", "0"], "delay must be whole seconds"),
        (["--synthetic", "5", "--threads", "0", "--port", "0"], "threads must be 1 to"),
    ],
)
def test_unservable_arguments_get_one_line_error(run: Run, arguments: list[str], message: str) -> None:
    """A missing folder and an invalid option each get a one-line error."""
    refused = run("serve", *arguments)

    assert (refused.code, refused.out) == (2, "")
    assert refused.err.startswith("fetchmill: error: ")
    assert message in refused.err
    assert refused.err.count("\n") == 1


def test_used_port_error_names_port_option(run: Run, server: Serve) -> None:
    """If the port is in use, the error names the option for another port."""
    port = server(synthetic=1).url.rpartition(":")[2]

    refused = run("serve", "--synthetic", 5, "--port", port)

    assert (refused.code, refused.out) == (2, "")
    assert refused.err == (
        f"fetchmill: error: cannot listen on 127.0.0.1:{port}: Address already in use (os error 98)\n"
        "hint: choose another port with --port N, or any free port with --port 0\n"
    )


def test_fault_options_configure_server_faults(start: Run) -> None:
    """`--fault` makes the first request for each name fail with a status and Retry-After."""
    flags = ("--error-rate", "1", "--error-status", "429", "--retry-after", "7", "--fault-times", "1")
    url = url_of(start("serve", "--synthetic", 5, "--port", 0, *flags))
    name = "file-000000000001"

    with pytest.raises(urllib.error.HTTPError) as refused:
        read(f"{url}/get/{name}")

    assert (refused.value.code, refused.value.headers["Retry-After"]) == (429, "7")
    refused.value.close()
    assert read(f"{url}/get/{name}") == testing.synthetic_body(name, 100)


def test_python_server_counts_requests_and_stops(server: Serve) -> None:
    """The server counts requests and faults, and stops at the end of the block."""
    with server(synthetic=5, faults=[Fault("status", status=503, retry_after=(1, 2), match="*")]) as running:
        with pytest.raises(urllib.error.HTTPError) as refused:
            read(f"{running.url}/get/file-000000000001")
        refused.value.close()
        stats = running.stats()

    assert stats["faults"] == {"status": 1}
    with pytest.raises(urllib.error.URLError):
        read(f"{running.url}/list")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "give either folder or synthetic"),
        ({"folder": ".", "synthetic": 5}, "give either folder or synthetic"),
        ({"synthetic": 5, "faults": [Fault("close", rate=2)]}, "fault 1: rate must be 0 to 1, not 2"),
    ],
)
def test_python_server_refuses_invalid_options(options: dict[str, Any], message: str) -> None:
    """Invalid options raise a UsageError."""
    with pytest.raises(fetchmill.UsageError, match=message):
        testing.serve(**options)


def exchange(server: testing.Server, request: str, *, seconds: float = 30) -> bytes:
    """Sends bytes. Returns everything until the server closes the connection."""
    address = urlsplit(server.url)
    with socket.create_connection((address.hostname, address.port), timeout=seconds) as connection:
        connection.sendall(request.encode("latin-1"))
        replies = b""
        while piece := connection.recv(1 << 16):
            replies += piece
    return replies


def trickle(server: testing.Server, request: bytes) -> None:
    """Sends ten bytes per second until the server closes; the whole request would take a minute."""
    address = urlsplit(server.url)
    with socket.create_connection((address.hostname, address.port), timeout=30) as connection:
        for byte in request:
            connection.sendall(bytes([byte]))
            time.sleep(0.1)


def ask(server: testing.Server, target: str, *, host: str = "localhost") -> bytes:
    """Returns the reply to one request with this Host."""
    return exchange(server, f"GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")


@pytest.fixture
def dotted(tmp_path: Path) -> Path:
    """Creates a folder with hidden files, and a job's state in a subfolder."""
    folder = tmp_path / "dotted"
    for name in ("a", "b/c", ".env", ".git/config", "b/.ssh/id", "old/.fetchmill/x"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    return folder


def test_hidden_names_are_not_served(server: Serve, dotted: Path) -> None:
    """Hidden names, and everything in hidden folders, are neither listed nor served, however they are encoded."""
    served = server(dotted)

    assert json.loads(read(f"{served.url}/list"))["FileNames"] == ["a", "b/c"]
    for target in ("/get/.env", "/get/%2eenv", "/get/.git/config", "/get/b/.ssh/id", "/get/b%2F.ssh%2Fid"):
        assert ask(served, target).startswith(b"HTTP/1.1 404 "), target
    assert ask(served, "/get/b/c").endswith(b"\r\n\r\nb/c")


def test_hidden_option_serves_all_but_job_state(start: Run, dotted: Path) -> None:
    """`--hidden` serves hidden names, except the state of a job."""
    url = url_of(start("serve", dotted, "--port", 0, "--hidden"))

    assert json.loads(read(f"{url}/list"))["FileNames"] == [".env", ".git/config", "a", "b/.ssh/id", "b/c"]
    assert read(f"{url}/get/.git/config") == b".git/config"
    with pytest.raises(urllib.error.HTTPError, match="404"):
        read(f"{url}/get/old/.fetchmill/x")


@pytest.mark.parametrize("target", ["/list", "/get/file-000000000000", "/stats"])
def test_server_at_loopback_refuses_foreign_host_names(server: Serve, target: str) -> None:
    """Requests with a foreign host name get 421, because a web page may let its own name lead to loopback."""
    served = server(synthetic=1)
    named = server(synthetic=1, allow_hosts=["files.test"])

    for host in ("localhost", "localhost:8080", "127.0.0.1:1", "127.9.9.9", "[::1]:80"):
        assert ask(served, target, host=host).startswith(b"HTTP/1.1 200 "), host
    for host in ("evil.test", "evil.test:80", "127.0.0.1.evil.test", "10.0.0.1", ""):
        refused = ask(served, target, host=host)
        assert refused.startswith(b"HTTP/1.1 421 "), host
        assert b"--allow-host NAME" in refused
    assert ask(served, f"http://evil.test{target}").startswith(b"HTTP/1.1 421 ")
    assert exchange(served, f"GET {target} HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 400 ")
    assert ask(named, target, host="files.test:80").startswith(b"HTTP/1.1 200 ")
    assert ask(named, target, host="evil.test").startswith(b"HTTP/1.1 421 ")


def test_allow_host_may_be_repeated(start: Run) -> None:
    """Each `--allow-host` adds a host name."""
    url = url_of(start("serve", "--synthetic", 1, "--port", 0, "--allow-host", "a.test", "--allow-host", "b.test"))

    for host, status in (("a.test", 200), ("b.test", 200), ("c.test", 421)):
        request = urllib.request.Request(f"{url}/list", headers={"Host": host})  # noqa: S310 - http, our own server
        try:
            with urllib.request.urlopen(request, timeout=10) as reply:  # noqa: S310
                found = reply.status
        except urllib.error.HTTPError as error:
            found = error.code
        assert found == status, host


SMUGGLED = "GET /get/file-000000000001 HTTP/1.1\r\nHost: localhost\r\n\r\n"
# Header lines that one parser ignores, and another reads as the length of a body.
AMBIGUOUS = {
    "a blank before the colon": f"Content-Length : {len(SMUGGLED)}",
    "a tab before the colon": f"Content-Length\t: {len(SMUGGLED)}",
    "a vertical tab in the name": "Transfer-Encoding\x0b: chunked",
    "a vertical tab before the name": "\x0bTransfer-Encoding: chunked",
    "a NUL in the name": "Transfer-Encoding\x00: chunked",
    "a line that goes on": f"X: y\r\n Content-Length: {len(SMUGGLED)}",
    "a first line that goes on": f" Content-Length: {len(SMUGGLED)}",
    "a bare CR": f"X: y\rContent-Length: {len(SMUGGLED)}",
    "a bare LF": f"X: y\nContent-Length: {len(SMUGGLED)}",
    "both": f"Content-Length: {len(SMUGGLED)}\r\nTransfer-Encoding: chunked",
    "both, the length 0": "Content-Length: 0\r\nTransfer-Encoding: chunked",
    "two lengths": f"Content-Length: 0\r\nContent-Length: {len(SMUGGLED)}",
    "a list of lengths": "Content-Length: 0, 0",
    "a signed length": f"Content-Length: +{len(SMUGGLED)}",
    "another encoding": "Transfer-Encoding: xchunked",
    "a chunk of no size": "Transfer-Encoding: chunked\r\n\r\n\r\nzz",
    "two hosts": "Host: localhost",
    "no name": ": x",
    "no colon": "Content-Length",
}


@pytest.mark.parametrize("fields", AMBIGUOUS.values(), ids=AMBIGUOUS.keys())
def test_ambiguous_request_head_ends_connection(server: Serve, fields: str) -> None:
    """If a request head is ambiguous, the bytes after it are never answered as a request."""
    served = server(synthetic=2)
    head = f"GET /get/file-000000000000 HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n\r\n"

    replies = exchange(served, head + SMUGGLED)

    assert replies.startswith(b"HTTP/1.1 400 ")
    assert replies.count(b"HTTP/1.1 ") == 1
    assert served.stats()["get"] == 0


def test_client_without_request_is_disconnected(server: Serve) -> None:
    """Clients that send no request, trickle one, or stay idle after one are disconnected.

    Time for delays does not count.
    """
    served = server(synthetic=2, client_timeout=1, delay=(2.5, 2.5))
    whole = "GET /list HTTP/1.1\r\nHost: localhost\r\n\r\n"

    assert exchange(served, "") == b""
    assert exchange(served, "GET /li").startswith(b"HTTP/1.1 408 ")
    assert exchange(served, whole).count(b"HTTP/1.1 200 ") == 1
    assert exchange(served, SMUGGLED).count(b"HTTP/1.1 200 ") == 1
    with pytest.raises(OSError, match=r"Broken pipe|Connection reset"):
        trickle(served, b"GET /list HTTP/1.1\r\nX: " + b"x" * 600)


def test_clients_that_read_nothing_do_not_block_others(server: Serve, tmp_path: Path) -> None:
    """Clients that read nothing are disconnected, with all pending replies. Other clients are served meanwhile."""
    (tmp_path / "large").write_bytes(bytes(32 << 20))
    (tmp_path / "small").write_text("small")
    served = server(tmp_path, client_timeout=2)
    address = urlsplit(served.url)
    request = b"GET /get/large HTTP/1.1\r\nHost: localhost\r\n\r\n" * 4
    slow = [socket.create_connection((address.hostname, address.port), timeout=30) for _ in range(50)]
    try:
        for connection in slow:
            connection.sendall(request)
        for _ in range(100):
            assert read(f"{served.url}/get/small") == b"small"
        end = time.monotonic() + 60
        while served.stats()["connections_closed"] < len(slow) + 100:
            assert time.monotonic() < end, served.stats()
            time.sleep(0.05)
    finally:
        for connection in slow:
            connection.close()


def test_last_page_may_omit_marker_or_send_null(server: Serve, raw: Run, tmp_path: Path) -> None:
    """The last page may lack the marker, as this server's does, or have a null marker."""
    pages = []
    served = server(synthetic=25, page_size=10)
    target = f"{served.url}/list"
    while True:
        pages.append(json.loads(read(target)))
        if "NextMarker" not in pages[-1]:
            break
        target = f"{served.url}/list?next-marker={pages[-1]['NextMarker']}"
    assert [len(page["FileNames"]) for page in pages] == [10, 10, 5]

    with_null = raw(
        {"/list": raw_server.reply(b'{"FileNames": ["a"], "NextMarker": null}'), "/get/a": raw_server.reply(b"body")}
    )
    assert fetchmill.get(with_null.url, tmp_path / "out").fetched == 1
    assert fetchmill.get(served.url, tmp_path / "other").fetched == 25
