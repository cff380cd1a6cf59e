"""A server that refuses everything: the job stops early, and continues with other credentials."""

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fetchmill
from conftest import Ended
from raw_server import Exchange, RawServer, page, reply

Run = Callable[..., Ended]
Raw = Callable[..., RawServer]
NAMES = [f"f{number:05}" for number in range(3000)]
REFUSED = 12


def token_server(raw: Raw, status: str, valid: Callable[[Exchange], bool]) -> RawServer:
    """A list/get server that lists for every client, but returns objects only with a valid token."""

    def answer(exchange: Exchange) -> bytes:
        return reply(b"x") if valid(exchange) else reply(b"no", status=status)

    return raw({"/list": page(NAMES)} | {f"/get/{name}": answer for name in NAMES})


@pytest.mark.parametrize("status", ["401 Unauthorized", "403 Forbidden"])
@pytest.mark.parametrize("engine", ["native", "threads"])
def test_job_stops_when_all_targets_are_refused_and_resumes(
    run: Run, raw: Raw, dest: Path, status: str, engine: str
) -> None:
    """The job stops after about 200 targets. A valid token and `--retry-failed` fetch everything."""
    server = token_server(raw, status, lambda exchange: b"bearer right" in exchange.head.lower())
    words = ("get", server.url, dest, "--format", "jsonl", "--engine", engine, "-j", "16")
    ended = run(*words, "--bearer", "wrong")
    assert ended.code == REFUSED, ended.err
    assert f"answered {status[:3]} to 200 targets in a row" in ended.err
    found = fetchmill.status(dest)
    assert found.failed <= 250
    assert found.pending == len(NAMES) - found.failed
    ended = run(*words, "--bearer", "right", f"--retry-failed={status[:3]}")
    assert ended.code == 0, ended.err
    assert fetchmill.status(dest).fetched == len(NAMES)


def test_expired_token_stops_job(run: Run, raw: Raw, dest: Path) -> None:
    """An object that was fetched before is requested again, and is refused, too."""
    given: list[str] = []
    lock = threading.Lock()

    def valid(exchange: Exchange) -> bool:
        with lock:
            given.append(exchange.target)
            return len(given) <= 500

    server = token_server(raw, "403 Forbidden", valid)
    ended = run("get", server.url, dest, "--format", "jsonl", "-j", "16")
    assert ended.code == REFUSED, ended.err
    found = fetchmill.status(dest)
    assert found.fetched == 500
    assert 200 <= found.failed < 600
    assert len(set(given)) < len(given)


@pytest.mark.parametrize("options", [(), ("--max-failed", "100%")])
def test_individually_forbidden_targets_do_not_stop_job(
    run: Run, raw: Raw, dest: Path, options: tuple[str, ...]
) -> None:
    """The job continues if a fetched object can still be fetched, or if the user limits failures."""
    limit = "/get/f00100"
    server = token_server(raw, "403 Forbidden", lambda exchange: not options and exchange.target < limit)
    ended = run("get", server.url, dest, "--format", "jsonl", "-j", "16", *options)
    found: Any = fetchmill.status(dest)
    assert (ended.code, found.pending) == ((0, 0) if options else (3, 0)), ended.err
    assert found.fetched == (0 if options else 100)
    assert ("the job continued, because the server still sends an object" in ended.err) == (not options)


def test_404_does_not_stop_job(run: Run, raw: Raw, dest: Path) -> None:
    """A 404 never stops a job, and neither does a refusal in a check."""
    server = token_server(raw, "404 Not Found", lambda _: False)
    assert run("get", server.url, dest, "--format", "jsonl").code == 3
    assert fetchmill.status(dest).absent == len(NAMES)
    refusing = token_server(raw, "403 Forbidden", lambda _: False)
    urls = dest.with_suffix(".txt")
    urls.write_text("".join(f"{refusing.url}/get/{name}\n" for name in NAMES[:400]))
    ended = run("check", urls, "--allow-private", "--json", "--rate-per-host", "0")
    assert ended.code == 0
    assert json.loads(ended.out.splitlines()[-1])["counts"] == {"403": 400}


def test_python_raises_access_error_for_exit_code_12(raw: Raw, dest: Path) -> None:
    """Python raises `AccessError` for exit code 12."""
    server = token_server(raw, "403 Forbidden", lambda _: False)
    with pytest.raises(fetchmill.errors.AccessError, match="answered 403 to 200 targets"):
        fetchmill.get(server.url, dest, format="jsonl")
