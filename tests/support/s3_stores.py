"""Third-party S3-compatible stores, each a process at a loopback port: versitygw, and moto's server.

versitygw checks signatures and is fast, but its keys are paths. moto takes any key, and any secret.
"""

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import boto3
import pytest
from botocore.config import Config

from certificates import Leaf
from fetchmill.errors import StorageError
from fetchmill_bench.versitygw import ENVIRONMENT, Versitygw, find_program, run_versitygw
from ports import free_ports

__all__ = ["ENVIRONMENT", "Moto", "Store", "Versitygw", "moto_serving", "named_versitygw", "versitygw_serving"]

START_SECONDS = 60.0
LOGGED_MAX = 1000


class Store(Protocol):
    """A store with one bucket."""

    endpoint: str
    bucket: str

    def environment(self) -> dict[str, str]:
        """Returns credentials and settings for a client's process, without the user's own."""

    def put(self, key: str, body: bytes) -> None:
        """Creates an object."""


class Moto:
    """A bucket of moto's server.

    Args:
        endpoint: URL of the server.
        bucket: the bucket's name; the bucket is created.
    """

    def __init__(self, endpoint: str, bucket: str) -> None:
        self.endpoint = endpoint
        self.bucket = bucket
        self._client = client_of(self)
        self._client.create_bucket(Bucket=bucket)

    def environment(self) -> dict[str, str]:
        """Works as in `Store`."""
        return dict(ENVIRONMENT)

    def put(self, key: str, body: bytes) -> None:
        """Works as in `Store`."""
        self._client.put_object(Bucket=self.bucket, Key=key, Body=body)

    def close(self) -> None:
        """Closes the connections of the client that filled it."""
        self._client.close()


def client_of(store: Store, **given: str) -> Any:  # noqa: ANN401 - boto3 makes the classes of its clients as it runs
    """Creates a boto3 client of a store; `given` are other credentials than the store's."""
    settings = Config(s3={"addressing_style": "path"}, proxies={}, retries={"total_max_attempts": 1})
    environment = store.environment()
    session = boto3.session.Session(
        aws_access_key_id=given.get("access_key", environment["AWS_ACCESS_KEY_ID"]),
        aws_secret_access_key=given.get("secret_key", environment["AWS_SECRET_ACCESS_KEY"]),
        region_name=environment["AWS_REGION"],
    )
    return session.client("s3", endpoint_url=store.endpoint, config=settings)


def keys_of(store: Store, prefix: str = "") -> list[str]:
    """Returns every key with this prefix, as boto3 lists them."""
    with contextlib.closing(client_of(store)) as client:
        pages = client.get_paginator("list_objects_v2").paginate(Bucket=store.bucket, Prefix=prefix)
        return [found["Key"] for page in pages for found in page.get("Contents", [])]


def read_all(store: Store, prefix: str = "") -> dict[str, bytes]:
    """Returns every object whose key has this prefix, as boto3 gets it."""
    keys = keys_of(store, prefix)
    with contextlib.closing(client_of(store)) as client:
        return {key: client.get_object(Bucket=store.bucket, Key=key)["Body"].read() for key in keys}


def bodies(count: int, prefix: str = "", folder: int = 1000) -> dict[str, bytes]:
    """Returns the given number of small objects, `folder` of them per folder; sizes differ, and one is empty."""
    keys = (f"{prefix}{index // folder:03}/{index:06}" for index in range(count))
    return {key: (key.encode() * 4)[: index % 100] for index, key in enumerate(keys)}


def fill(store: Store, objects: Mapping[str, bytes]) -> None:
    """Puts objects."""
    for key, body in objects.items():
        store.put(key, body)


@contextlib.contextmanager
def versitygw_serving(folder: Path) -> Iterator[Versitygw]:
    """Runs a versitygw over an empty folder; the test fails if it is not installed."""
    folder.mkdir()
    with contextlib.ExitStack() as stack:
        try:
            store = stack.enter_context(run_versitygw(folder, port=free_ports(1)[0]))
        except StorageError as error:
            pytest.fail(str(error))
        yield store


def named_versitygw(folder: Path, host: str, address: str, leaf: Leaf) -> tuple[object, ...]:
    """Returns the command of a versitygw over a folder of buckets, at a name and its subdomains, which are buckets."""
    keys = (ENVIRONMENT["AWS_ACCESS_KEY_ID"], ENVIRONMENT["AWS_SECRET_ACCESS_KEY"])
    return (
        *(find_program(), "--keep-alive", "--quiet", "--port", f"{address}:443", "--region", ENVIRONMENT["AWS_REGION"]),
        *("--virtual-domain", host, "--cert", leaf.chain, "--key", leaf.key, "--access", keys[0], "--secret", keys[1]),
        *("posix", folder),
    )


@contextlib.contextmanager
def moto_serving(log: Path) -> Iterator[str]:
    """Runs moto's server. Returns its address; its output goes to a file."""
    (port,) = free_ports(1)
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with log.open("wb") as said:
        process = subprocess.Popen(
            command, env={"PATH": os.environ["PATH"], **ENVIRONMENT}, stdin=subprocess.DEVNULL, stdout=said, stderr=said
        )
    try:
        _wait_for(port, process, log)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(timeout=START_SECONDS)


def _wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    """Waits until it listens, because importing it takes some seconds."""
    deadline = time.monotonic() + START_SECONDS
    while True:
        with contextlib.suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
            return
        said = log.read_text(errors="replace")[-LOGGED_MAX:]
        assert process.poll() is None, f"moto's server has ended: {said}"
        assert time.monotonic() < deadline, f"moto's server does not listen: {said}"
        time.sleep(0.02)
