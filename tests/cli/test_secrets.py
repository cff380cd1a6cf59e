"""Presigned URLs and tokens: kept for a retry, readable only by their owner, and never shown."""

import json
import stat
import urllib.parse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fetchmill
from raw_server import RawServer

Run = Callable[..., Any]
Raw = Callable[..., RawServer]

SIGNATURE = "0123456789abcdef0123456789abcdef"
QUERY = f"X-Amz-Credential=AKIDEXAMPLE%2F2026&X-Amz-Date=1&X-Amz-Signature={SIGNATURE}&X-Amz-Security-Token=tok3n"
REFUSED = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"
GOOD = b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx"


def readers_of(folder: Path) -> dict[str, str]:
    """Returns files and folders of a job's state that other users may open, with their modes."""
    found = [folder, *folder.rglob("*")]
    modes = {path.relative_to(folder).as_posix(): stat.filemode(path.stat().st_mode) for path in found}
    return {name: mode for name, mode in modes.items() if mode[4:] != "------"}


@pytest.mark.parametrize("place", ["inside", "beside"])
def test_url_signatures_are_stored_but_not_shown(run: Run, raw: Raw, dest: Path, tmp_path: Path, place: str) -> None:
    """Failures keep their signatures, so that a retry can use them.

    Others may be able to enter the `--state` folder.
    """
    server = raw({"/a": REFUSED, "/b": GOOD})
    (tmp_path / "urls.txt").write_text(f"{server.url}/a?{QUERY}\n{server.url}/b?token=tok3n\n")
    state = dest / ".fetchmill"
    options = []
    if place == "beside":
        state = tmp_path / "state"
        state.mkdir(mode=0o755)
        options = ["--state", state]

    ended = run("get", "urls.txt", dest, "--allow-private", *options)

    assert ended.code == 3, ended.err
    modes = readers_of(state)
    assert {name for name in modes if Path(state / name).is_file()} <= {"lock", "state"}, modes
    shown = run("status", dest, "--failures", *options)
    as_json = run("status", dest, "--failures", "--json", *options)
    for text in (shown.out, as_json.out, ended.err):
        assert SIGNATURE not in text
        assert "AKIDEXAMPLE" not in text
        assert "tok3n" not in text
    assert "X-Amz-Signature=***" in shown.out
    assert "X-Amz-Date=1" in json.loads(as_json.out)["name"]
    [failure] = fetchmill.failures(dest, state=state if options else None)
    assert urllib.parse.urlsplit(failure.name).query == QUERY

    server.routes["/a"] = GOOD
    again = run("get", "urls.txt", dest, "--allow-private", "--retry-failed", *options)

    assert again.code == 0, again.err
    assert server.requests.count(f"/a?{QUERY}") == 2


def test_secrets_are_detected_by_name_and_shape(run: Run, raw: Raw, dest: Path, tmp_path: Path) -> None:
    """Output for people never contains secrets.

    Only the failures file does, for a retry, and only its owner can read it.
    """
    names = ("private_token", "key", "jwt", "pwd", "code", "session", "sas", "accessToken")
    query = "&".join(f"{name}=s3cret{name}" for name in names) + "&v=eyJhbGciOiJIUzI1NiJ9.s3cret.x"
    server = raw({"/a": REFUSED})
    (tmp_path / "urls.txt").write_text(f"{server.url}/a?{query}\n")

    ended = run("get", "urls.txt", dest, "--allow-private", "--format", "jsonl", "--log-file", tmp_path / "log")
    shown = run("status", dest, "--failures")

    assert ended.code == 3, ended.err
    for text in (ended.out, ended.err, shown.out, shown.err, (tmp_path / "log").read_text()):
        assert "s3cret" not in text
    assert "private_token=***" in shown.out
    failures = dest / "_failures.ndjson"
    assert (stat.S_IMODE(failures.stat().st_mode), query in failures.read_text()) == (0o600, True)


def test_error_messages_contain_no_tokens(run: Run, dest: Path, tmp_path: Path) -> None:
    """Errors about a URL show neither its password nor its token or signature."""
    urls = ["http://user:pa55word@a.test/", "no-url/?access_token=tok3n", f"s3:/b?sig={SIGNATURE}"]
    (tmp_path / "urls.txt").write_text("".join(f"{url}\n" for url in urls))

    ended = run("get", "urls.txt", dest, "--allow-private")
    shown = run("status", dest, "--failures")

    assert ended.code == 3, ended.err
    for text in (ended.err, shown.out):
        assert not any(secret in text for secret in ("pa55word", "tok3n", SIGNATURE)), text


def test_state_readable_by_others_is_made_private(run: Run, raw: Raw, dest: Path, tmp_path: Path) -> None:
    """An older release may have left the journal readable by others."""
    server = raw({"/a": REFUSED})
    (tmp_path / "urls.txt").write_text(f"{server.url}/a?{QUERY}\n")
    assert run("get", "urls.txt", dest, "--allow-private").code == 3
    journal = dest / ".fetchmill" / "job.sqlite"
    journal.chmod(0o644)

    assert run("get", "urls.txt", dest, "--allow-private", "--retry-failed").code == 3

    assert stat.S_IMODE(journal.stat().st_mode) == 0o600
