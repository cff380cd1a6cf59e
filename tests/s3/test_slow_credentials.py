"""A slow search for credentials delays only the requests that need them."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fetchmill.testing import Server

Serve = Callable[..., Server]
Start = Callable[..., "subprocess.Popen[str]"]

COUNT = 300
PATIENCE = 20.0
# The time limit of a `credential_process`.
SLOW = 60


@pytest.fixture
def settings(environment: dict[str, str], tmp_path: Path) -> dict[str, str]:
    """Returns settings for a profile whose credential process takes a minute and records that it was killed."""
    config = tmp_path / "config"
    config.write_text(f"[default]\ncredential_process = sh -c 'echo $$ > {tmp_path}/process; exec sleep {SLOW}'\n")
    kept = {name: value for name, value in environment.items() if not name.startswith("AWS_")}
    return kept | {"AWS_CONFIG_FILE": str(config), "AWS_EC2_METADATA_DISABLED": "true"}


def wait_for(what: Callable[[], bool]) -> bool:
    """Returns whether a condition becomes true in time."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if what():
            return True
        time.sleep(0.05)
    return False


def is_alive(pid: int) -> bool:
    """Returns whether a process exists and has not ended."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


@pytest.mark.sampled(3)
@pytest.mark.parametrize("engine", ["native", "threads", "asyncio"])
@pytest.mark.parametrize("order", ["first", "mixed"])
def test_other_hosts_are_fetched_during_credentials_search(
    start: Start, server: Serve, settings: dict[str, str], dest: Path, tmp_path: Path, engine: str, order: str
) -> None:
    """All of them are fetched by one thread. SIGINT ends the job and the credential process immediately."""
    source = server(synthetic=COUNT)
    there = [f"{source.url}/get/file-{index:012}\n" for index in range(COUNT)]
    bucket = [f"s3://bucket/{index}\n" for index in range(COUNT)]
    mixed = [line for pair in zip(bucket, there, strict=True) for line in pair]
    (tmp_path / "list.txt").write_text("".join(bucket + there if order == "first" else mixed))
    only = ("--threads", 1) if engine == "native" else ()
    command = ("get", "list.txt", dest, "--allow-private", "--format", "null", "--engine", engine, *only)

    job = start(*command, "--rate-per-host", 0, "--endpoint-url", "http://127.0.0.1:1", env=settings)

    assert wait_for(lambda: source.stats()["requests"] >= COUNT), source.stats()
    process = int((tmp_path / "process").read_text())
    assert is_alive(process)
    job.send_signal(signal.SIGINT)
    asked = time.monotonic()
    assert job.wait(PATIENCE) == 130
    assert time.monotonic() - asked < PATIENCE / 2
    assert wait_for(lambda: not is_alive(process))


def test_stream_continues_during_credentials_search(server: Serve, settings: dict[str, str]) -> None:
    """Requests without credentials get their replies. Closing the stream ends the search."""
    source = server(synthetic=COUNT)
    program = f"""
import fetchmill, time
urls = [f"s3://bucket/{{n}}" for n in range(20)] + [f"{source.url}/get/file-{{n:012}}" for n in range({COUNT})]
began = time.monotonic()
with fetchmill.Client(endpoint_url="http://127.0.0.1:1") as client, client.stream(urls) as replies:
    for count, reply in enumerate(replies, 1):
        if count == {COUNT}:
            break
print(count, time.monotonic() - began < {PATIENCE})
"""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    began = time.monotonic()
    ended = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env=clean | settings,
        timeout=SLOW,
        check=False,
    )
    assert ended.stdout.split() == [str(COUNT), "True"], ended.stderr
    assert time.monotonic() - began < PATIENCE + 10
