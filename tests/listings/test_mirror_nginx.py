"""Debian's nginx is mirrored through its JSON and its index pages, and compared with `diff -r`.

Dotfiles, empty folders and special files are not mirrored: nginx does not list them, or there is nothing to fetch.
Names that are escaped on disk (docs/reference/formats.md) are renamed back by separate code.
"""

import contextlib
import os
import random
import signal
import subprocess
import sysconfig
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest

import fetchmill
from nginx import Nginx, Site, serving
from trees import SEGMENTS_MAX, copy_library, count_files, differences, make_odd_names, unescape, write

Run = Callable[..., Any]
ServeFolder = Callable[..., "Served"]

MIRROR = {"autoindex": ("--listing", "autoindex"), "html": ("--listing", "html", "--no-robots")}
SLOWLY = ("--commit-window", "20ms", "--threads", "1", "--concurrency", "2")
SITE = "files"
KILLS = 6


both = pytest.mark.parametrize("listing", MIRROR)


@dataclass(frozen=True)
class Served:
    """A folder that nginx serves."""

    nginx: Nginx

    @property
    def url(self) -> str:
        """Returns the SOURCE of a job."""
        return self.nginx.url(SITE, "127.0.0.1")

    def requests(self) -> Counter[str]:
        """Returns the number of requests for each path."""
        return Counter(seen.path for seen in self.nginx.seen(SITE))

    def fetched(self) -> Counter[str]:
        """Returns the number of requests for each file."""
        return self.nginx.fetched(SITE)


@pytest.fixture
def serve_folder(tmp_path: Path) -> Iterator[ServeFolder]:
    """Serves a folder until the end of the test."""

    def serve(folder: Path, listing: str = "autoindex") -> Served:
        index = {"autoindex": "json", "html": "html"}[listing]
        sites = {SITE: Site(autoindex=index, directives="keepalive_requests 500;")}
        return Served(stack.enter_context(serving(folder, tmp_path / "nginx", sites)))

    with contextlib.ExitStack() as stack:
        yield serve


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder with the standard library of this Python and odd names; tests do not change it."""
    folder = tmp_path_factory.mktemp("library")
    copy_library(Path(sysconfig.get_path("stdlib")), folder / "stdlib")
    make_odd_names(folder / "odd")
    return folder


@pytest.mark.sampled(1)
@both
def test_standard_library_and_odd_names_are_mirrored(
    run: Run, serve_folder: ServeFolder, library: Path, dest: Path, listing: str
) -> None:
    """The mirror does not differ, each file was requested once, and a second run has nothing to do."""
    served = serve_folder(library, listing)
    count = count_files(library)

    # Next to other tests, hundreds of concurrent requests would take seconds each. Such slow replies are requested
    # again if too many connections are quarantined.
    first = run("get", served.url, dest, *MIRROR[listing], "-j", 16)
    asked = served.requests()
    second = run("get", served.url, dest, *MIRROR[listing], "-j", 16)

    assert (first.code, second.code) == (0, 0), first.err
    assert f"{count:,} listed = {count:,} fetched + 0 absent + 0 failed + 0 skipped\n" in first.err
    assert "already complete" in second.err
    assert (len(asked.keys() & served.fetched().keys()), set(asked.values())) == (count, {1})
    assert served.requests() == asked
    unescape(dest)
    assert count_files(dest) == count
    assert differences(library, dest) == [f"Only in {library}/odd: empty folder"]


@pytest.mark.one_in(3)
@pytest.mark.sampled(1)
@both
def test_killed_mirror_is_completed(
    run: Run, start: Run, serve_folder: ServeFolder, library: Path, dest: Path, listing: str
) -> None:
    """After SIGKILLs at random moments, the mirror is complete and the ledger has each file once."""
    served = serve_folder(library, listing)
    count = count_files(library)
    moments = random.Random(7)
    settled = [0]

    while len(settled) <= KILLS and settled[-1] < count:
        client = start("get", served.url, dest, *MIRROR[listing], *SLOWLY)
        wait_for_commit(dest, settled[-1], client)
        time.sleep(moments.uniform(0, 0.05))
        client.send_signal(signal.SIGKILL)
        client.wait()
        settled.append(fetchmill.status(dest).settled)
    ended = run("get", served.url, dest, *MIRROR[listing])

    assert ended.code == 0, ended.err
    assert 0 < settled[2] < count, "it was killed too late to show anything"
    assert f"{count:,} listed = {count:,} fetched + 0 absent + 0 failed + 0 skipped\n" in ended.err
    assert len(served.fetched()) == count
    unescape(dest)
    assert differences(library, dest) == [f"Only in {library}/odd: empty folder"]


def wait_for_commit(dest: Path, before: int, client: subprocess.Popen[str]) -> None:
    """Waits until more targets have finished than before, or all of them."""
    while client.poll() is None:
        with contextlib.suppress(fetchmill.FetchmillError):
            if fetchmill.status(dest).settled > before:
                return
        time.sleep(0.002)
    assert client.returncode == 0, client.communicate()


@pytest.mark.thorough
@both
def test_large_folder_is_mirrored(
    run: Run, serve_folder: ServeFolder, tmp_path: Path, dest: Path, listing: str
) -> None:
    """A folder listing of several megabytes is divided into pages while it is read."""
    folder = tmp_path / "served"
    count = 30_000
    (folder / "large").mkdir(parents=True)
    for number in range(count):
        (folder / "large" / f"{number:05d} of many").write_text(str(number))
    served = serve_folder(folder, listing)

    ended = run("get", served.url, dest, *MIRROR[listing], "--durability", "process")

    assert ended.code == 0, ended.err
    assert f"{count:,} listed = {count:,} fetched + 0 absent" in ended.err
    assert served.requests()["/large/"] == 1
    assert differences(folder, dest) == []


def test_unlistable_folder_and_pipe_are_reported(
    run: Run, serve_folder: ServeFolder, tmp_path: Path, dest: Path
) -> None:
    """A folder with an index.html has no listing, and a pipe cannot be fetched. The walk continues after both."""
    folder = tmp_path / "served"
    for name in ("a", "site/index.html", "site/page", "site/below/x", "z/last", ".dotfile"):
        write(folder / name, name.encode())
    os.mkfifo(folder / "pipe")
    (folder / "dangling").symlink_to("nowhere")
    served = serve_folder(folder)

    ended = run("get", served.url, dest, *MIRROR["autoindex"])
    failures = list(fetchmill.failures(dest))

    assert ended.code == 3
    assert "5 listed = 2 fetched + 0 absent + 1 failed + 2 skipped\n" in ended.err
    assert [(failure.name, failure.kind, failure.status) for failure in failures] == [("site/", "listing", 200)]
    assert "not a JSON listing" in failures[0].detail
    assert sorted(path.name for path in dest.rglob("*") if path.is_file() and ".fetchmill" not in path.parts) == [
        "a",
        "last",
    ]


@both
def test_retry_run_walks_folder_that_became_listable(
    run: Run, serve_folder: ServeFolder, tmp_path: Path, dest: Path, listing: str
) -> None:
    """`--retry-failed` walks into the folder and fetches nothing else again."""
    folder = tmp_path / "served"
    for name in ("a", "site/index.html", "site/below/x"):
        write(folder / name, name.encode())
    served = serve_folder(folder, listing)
    run("get", served.url, dest, *MIRROR[listing])
    (folder / "site" / "index.html").unlink()

    ended = run("get", served.url, dest, *MIRROR[listing], "--retry-failed")

    assert ended.code == 0, ended.err
    assert "2 listed = 2 fetched + 0 absent + 0 failed + 0 skipped\n" in ended.err
    assert differences(folder, dest) == []
    assert served.requests()["/a"] == 1


@both
def test_symlink_loop_ends_at_64_folders(
    run: Run, serve_folder: ServeFolder, tmp_path: Path, dest: Path, listing: str
) -> None:
    """A symlink to a parent folder makes an endless tree (Linux stops after 40 levels); the walk ends at 64 folders."""
    folder = tmp_path / "served"
    write(folder / "a/b/file", b"in a ring")
    (folder / "a/b/up").symlink_to("../..")
    served = serve_folder(folder, listing)

    ended = run("get", served.url, dest, *MIRROR[listing])
    failures = {failure.kind: failure for failure in fetchmill.failures(dest)}

    rounds = [f"{'a/b/up/' * number}a/b/file" for number in range(40)]
    within = list(takewhile(lambda name: name.count("/") < SEGMENTS_MAX, rounds))
    assert ended.code == 3
    assert failures.keys() == {"listing"}
    assert failures["listing"].name.count("/") == SEGMENTS_MAX + 1
    assert f"{len(within) + 1} listed = {len(within)} fetched + 0 absent + 1 failed + 0 skipped\n" in ended.err
    assert all((dest / name).read_bytes() == b"in a ring" for name in within)


@both
def test_name_too_long_after_escaping_is_refused(
    run: Run, serve_folder: ServeFolder, tmp_path: Path, dest: Path, listing: str
) -> None:
    """A name of 86 control bytes takes 258 on disk, so it fails (kind `name`) without a request.

    A name of 85 is stored.
    """
    folder = tmp_path / "served"
    write(folder / ("\n" * 86), b"too long")
    write(folder / ("\n" * 85), b"just fits")
    served = serve_folder(folder, listing)

    ended = run("get", served.url, dest, *MIRROR[listing])

    assert ended.code == 3
    assert [failure.kind for failure in fetchmill.failures(dest)] == ["name"]
    assert served.fetched() == {"/" + "%0A" * 85: 1}
    assert (dest / ("%0A" * 85)).read_bytes() == b"just fits"
