"""Provides the destination of a contender's requests: a server, a store, a world of sites, or the user's server."""

import contextlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import ProxyHandler, build_opener

from fetchmill.errors import ListingError, StorageError
from fetchmill.world import sites
from fetchmill_bench import versitygw
from fetchmill_bench.dns_client import resolve
from fetchmill_bench.measurement import raise_descriptor_limit
from fetchmill_bench.process_tree import cpu_seconds
from fetchmill_bench.scenarios import SITE_TIMEOUT, SIZE
from fetchmill_bench.signals import defer_signals

_SERVER = (sys.executable, "-m", "fetchmill_bench.server_process")
_END_SECONDS = 5.0
_LIST_SECONDS = 30.0
# Seed of the sites. It is fixed, so that the mixture of sites is always the same. Some sites never answer.
_SEED = 1


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """The destination of requests.

    Args:
        url: base URL of the list/get server, or the endpoint of a store; empty for sites.
        urls: path of a file with one URL per line; empty if no contender needs it.
        count: number of objects or sites.
        ca_file: certificates to trust.
        dns: name server of the sites.
        hosts: path of a file with the addresses of the sites: an address and a name in each line.
        is_foreign: whether the server is the user's own.
        bucket: the bucket of a store.
        environment: environment variables for store clients, with the store's credentials instead of the user's.
        served: number of objects requested from the server so far; None if the server does not report it.
        server_cpu_seconds: the server's CPU time so far; None if the server does not report it.
    """

    url: str = ""
    urls: str = ""
    count: int
    ca_file: str | None = None
    dns: str | None = None
    hosts: str | None = None
    is_foreign: bool = False
    bucket: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    served: Callable[[], int | None] = field(default=lambda: None)
    server_cpu_seconds: Callable[[], float | None] = field(default=lambda: None)


@contextlib.contextmanager
def file_server(count: int, serve: Mapping[str, Any], folder: Path, *, with_urls: bool) -> Iterator[Endpoint]:
    """Starts a file server that has `count` objects, in its own process.

    Args:
        count: number of objects.
        serve: options for the server, as for `fetchmill.testing.serve`.
        folder: folder for the list of URLs.
        with_urls: whether to write the list.
    """
    options = json.dumps({"synthetic": count, "size": SIZE, **serve})
    with _server_process((*_SERVER, "files", options)) as server:
        url = str(server.read_line()["url"])
        urls = str(_write_urls(folder, url, count)[0]) if with_urls else ""
        yield Endpoint(
            url=url,
            urls=urls,
            count=count,
            served=lambda: int(server.ask()["get"]),
            server_cpu_seconds=lambda: cpu_seconds(server.pid),
        )


@contextlib.contextmanager
def bucket_store(count: int, store: str, folder: Path) -> Iterator[Endpoint]:
    """Starts a store that has a bucket with `count` objects, in its own process.

    Args:
        count: number of objects.
        store: `replay` or `versitygw`.
        folder: the folder in which versitygw stores its objects, for this and later runs.

    Raises:
        StorageError: versitygw is not installed.
    """
    if store == "versitygw":
        versitygw.find_program()
    options = json.dumps({"count": count, "size": SIZE, "folder": str(folder / f"store-{count}")})
    with _server_process((*_SERVER, store, options)) as server:
        details = server.read_line()
        yield Endpoint(
            url=details["url"],
            bucket=details["bucket"],
            environment=details["environment"],
            count=count,
            served=lambda: server.ask()["gets"],
            server_cpu_seconds=lambda: cpu_seconds(details["pid"]),
        )


@contextlib.contextmanager
def foreign_server(url: str, count: int, folder: Path) -> Iterator[Endpoint]:
    """Uses the user's own server for `count` objects, or for as many as it has."""
    urls, found = _write_urls(folder, url, count)
    yield Endpoint(url=url, urls=str(urls), count=found, is_foreign=True)


@contextlib.contextmanager
def world(count: int, folder: Path) -> Iterator[Endpoint]:
    """Starts a world of sites in its own process.

    Args:
        count: number of requested sites.
        folder: the folder for the files of this world and later ones. A host has the same address in all of these
            worlds.
    """
    urls, hosts = folder / "urls.txt", folder / "hosts.txt"
    if not hosts.exists():
        _write_hosts(hosts, folder, count)
    with _world(folder) as (server, details):
        names = [site.url for site in sites((details["http_port"], details["https_port"]), count, **_mixture())]
        urls.write_text("".join(f"{url}\n" for url in names), encoding="ascii")
        yield Endpoint(
            urls=str(urls),
            count=count,
            ca_file=details["ca_file"],
            dns=details["dns"],
            hosts=str(hosts),
            server_cpu_seconds=lambda: cpu_seconds(server.pid),
        )


def _write_hosts(path: Path, folder: Path, count: int) -> None:
    """Writes the hosts' addresses. Uses a separate world, because some hosts resolve differently the second time."""
    with _world(folder) as (_, details):
        names = [urlsplit(site.url).hostname or "" for site in sites((1, 1), count, **_mixture())]
        found = resolve(details["dns"], names)
    path.write_text("".join(f"{address} {name}\n" for name, address in found.items()), encoding="ascii")


def _mixture() -> dict[str, Any]:
    return {"seed": _SEED, "https": 1.0, "redirects": False, "patient": False}


@contextlib.contextmanager
def _world(folder: Path) -> Iterator[tuple["_ServerProcess", dict[str, Any]]]:
    command = (sys.executable, "-m", "fetchmill.world", "--ca-file", str(folder / "ca.pem"))
    with _server_process((*command, "--timeout", str(SITE_TIMEOUT))) as server:
        yield server, server.read_line()


class _ServerProcess:
    """A server in its own process. It ends when its input is closed, which happens even if this process is killed."""

    def __init__(self, command: tuple[str, ...]) -> None:
        # Use a separate process group, so that Ctrl-C in the terminal does not end the server before its contender.
        self._popen = subprocess.Popen(  # noqa: S603 - this package's own modules
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, process_group=0
        )
        self.pid = self._popen.pid
        raise_descriptor_limit(self.pid)

    def read_line(self) -> dict[str, Any]:
        """Returns the server's next line of output."""
        line = _pipe(self._popen.stdout).readline()
        if not line:
            raise StorageError(f"the bench server ended with exit code {self._popen.wait()}")
        value: dict[str, Any] = json.loads(line)
        return value

    def ask(self) -> dict[str, Any]:
        """Returns the server's answer to an empty line."""
        stdin = _pipe(self._popen.stdin)
        stdin.write("\n")
        stdin.flush()
        return self.read_line()

    def end(self) -> None:
        """Ends the server, and kills it if necessary."""
        with contextlib.suppress(OSError):
            _pipe(self._popen.stdin).close()
        try:
            self._popen.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait()
        _pipe(self._popen.stdout).close()


@contextlib.contextmanager
def _server_process(command: tuple[str, ...]) -> Iterator[_ServerProcess]:
    with contextlib.ExitStack() as stack:
        with defer_signals():
            server = _ServerProcess(command)
            stack.callback(server.end)
        yield server


def _pipe(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None  # noqa: S101 - it was requested
    return pipe


def _write_urls(folder: Path, url: str, count: int) -> tuple[Path, int]:
    """Writes the URLs of the first `count` objects. Returns the path and the number of URLs."""
    path, written = folder / "urls.txt", 0
    with path.open("w", encoding="ascii") as file:
        for page in _pages(url):
            names = page[: count - written]
            file.writelines(f"{url}/get/{quote(name)}\n" for name in names)
            written += len(names)
            if written == count:
                break
    return path, written


def _pages(url: str) -> Iterator[list[str]]:
    """Yields the names that a server lists, page by page."""
    # Ignore proxies from the environment.
    opener, query = build_opener(ProxyHandler({})), ""
    while True:
        try:
            with opener.open(f"{url}/list{query}", timeout=_LIST_SECONDS) as reply:
                page = json.load(reply)
            names, marker = page["FileNames"], page.get("NextMarker")
        except (OSError, ValueError, KeyError, AttributeError) as error:
            raise ListingError(f"{url}/list cannot be read: {error}") from error
        yield names
        if not marker:
            return
        query = "?" + urlencode({"next-marker": marker})
