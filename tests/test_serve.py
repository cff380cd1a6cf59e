"""`fetchmill serve` and `fetchmill.testing.serve`: a server, its faults, its end."""

import json
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fetchmill
from fetchmill import testing
from fetchmill.testing import Fault

Run = Callable[..., Any]
Serve = Callable[..., testing.Server]


def read(url: str) -> bytes:
    """The body at a URL."""
    with urllib.request.urlopen(url, timeout=10) as reply:  # noqa: S310 - http, from our own server
        body: bytes = reply.read()
    return body


def url_of(process: subprocess.Popen[str]) -> str:
    """What the command says when it is ready."""
    assert process.stderr is not None
    line = process.stderr.readline()
    assert line.startswith("serving "), line
    url = next(word.rstrip(",") for word in line.split() if word.startswith("http://"))
    assert process.stderr.readline() == f"for example: fetchmill get {url} out/\n"
    return url


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_until_a_signal(start: Run, number: signal.Signals) -> None:
    """And then writes its counters, if asked to."""
    process = start("serve", "--synthetic", "1e3", "--size", "1KiB", "--port", 0, "--page-size", 10, "--stats")
    url = url_of(process)

    page = json.loads(read(f"{url}/list"))
    body = read(f"{url}/get/{page['FileNames'][3]}")
    process.send_signal(number)
    out, err = process.communicate(timeout=10)

    assert process.returncode == 0
    assert len(page["FileNames"]) == 10
    assert body == testing.synthetic_body(page["FileNames"][3], 1024)
    assert err == ""
    assert (json.loads(out)["list"], json.loads(out)["get"]) == (1, 1)


def test_a_folder_is_served(start: Run, tmp_path: Path) -> None:
    """Relative to where the command runs."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/a b").write_text("content")

    url = url_of(start("serve", "folder", "--port", 0))

    assert json.loads(read(f"{url}/list"))["FileNames"] == ["a b"]
    assert read(f"{url}/get/a%20b") == b"content"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--synthetic", "5", "--port", "{taken}"], "cannot listen on 127.0.0.1:{taken}"),
        (["no-such-folder", "--port", "0"], "no-such-folder"),
        (["--synthetic", "5", "--delay", "0-0.5", "--delay-steps", "--port", "0"], "delay must be whole seconds"),
        (["--synthetic", "5", "--threads", "0", "--port", "0"], "threads must be 1 to"),
    ],
)
def test_what_cannot_be_served_is_one_line(run: Run, server: Serve, arguments: list[str], message: str) -> None:
    """A taken port, a missing folder, an option that makes no sense."""
    taken = server(synthetic=1).url.rpartition(":")[2]

    refused = run("serve", *(argument.replace("{taken}", taken) for argument in arguments))

    assert (refused.code, refused.out) == (2, "")
    assert refused.err.startswith("fetchmill: error: ")
    assert message.replace("{taken}", taken) in refused.err
    assert refused.err.count("\n") == 1


def test_fault_flags_become_faults(start: Run) -> None:
    """A status with Retry-After, for the first request of every name."""
    flags = ("--error-rate", "1", "--error-status", "429", "--retry-after", "7", "--fault-times", "1")
    url = url_of(start("serve", "--synthetic", 5, "--port", 0, *flags))
    name = "file-000000000001"

    with pytest.raises(urllib.error.HTTPError) as refused:
        read(f"{url}/get/{name}")

    assert (refused.value.code, refused.value.headers["Retry-After"]) == (429, "7")
    refused.value.close()
    assert read(f"{url}/get/{name}") == testing.synthetic_body(name, 100)


def test_the_library_serves_in_this_process(server: Serve) -> None:
    """It counts, and stops at the end of the block."""
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
        ({}, "one of folder and synthetic must be given"),
        ({"folder": ".", "synthetic": 5}, "one of folder and synthetic must be given"),
        ({"synthetic": 5, "faults": [Fault("close", rate=2)]}, "fault 1: rate must be 0 to 1, not 2"),
    ],
)
def test_the_library_refuses_nonsense(options: dict[str, Any], message: str) -> None:
    """As UsageError."""
    with pytest.raises(fetchmill.UsageError, match=message):
        testing.serve(**options)
