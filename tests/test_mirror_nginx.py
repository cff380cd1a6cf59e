"""Real input: Debian's nginx over real files, mirrored through its JSON autoindex, compared with `diff -r`.

What is not mirrored, because nginx does not list it or there is nothing to fetch: dotfiles, empty folders, and what
is neither file nor folder. Names that are escaped on disk (docs/formats.md) are renamed back here, by other code.
"""

import contextlib
import os
import random
import shutil
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
from urllib.parse import unquote_to_bytes

import pytest

import fetchmill
from nginx import Nginx, Site, serving

Run = Callable[..., Any]
ServeFolder = Callable[[Path], "Served"]

MIRROR = ("--listing", "autoindex")
SLOWLY = ("--commit-window", "20ms", "--threads", "1", "--limit", "2")
SITE = "files"
LEFT_OUT = ("__pycache__", "site-packages", "dist-packages")
KILLS = 6
SEGMENTS_MAX = 64
ODD_NAMES = (
    b"a b",
    b" leading and trailing ",
    b"100%",
    b"%20",
    b"%FF",
    b"%2e%2e",
    b"a+b",
    b"#fragment",
    b"what?is=this&that",
    b"semi;colon,comma",
    b"'single' \"double\"",
    b"back\\slash",
    b"\\..\\x",
    b"C:\\con",
    b"\xff\xfe",
    b"\xc3(",
    b"cut \xe2\x82",
    b"\xed\xa0\x80",
    b"line\nbreak",
    b"tab\there",
    b"\x01\x1b[31m\x7f",
    b"carriage\rreturn",
    "caf\u00e9".encode(),
    "cafe\u0301".encode(),
    "\u0085\u202e\u200b".encode(),
    "\U0001f600".encode(),
    b"upper",
    b"UPPER",
    b"x" * 255,
    b"-rf",
    b"--help",
    b"ends with a dot.",
    b"three...",
    b"~",
    b"*",
    b"$HOME `id`",
    b"<b>&amp;",
    b"http:",
    b"null",
)


@dataclass(frozen=True)
class Served:
    """A folder that an nginx serves."""

    nginx: Nginx

    @property
    def url(self) -> str:
        """The SOURCE of a job."""
        return self.nginx.url(SITE, "127.0.0.1")

    def requests(self) -> Counter[str]:
        """How often each path was asked for."""
        return Counter(seen.path for seen in self.nginx.seen(SITE))

    def fetched(self) -> Counter[str]:
        """The same without the folders."""
        return self.nginx.fetched(SITE)


@pytest.fixture
def serve_folder(tmp_path: Path) -> Iterator[ServeFolder]:
    """Serves a folder until the end of the test."""
    sites = {SITE: Site(directives="keepalive_requests 500;")}
    with contextlib.ExitStack() as stack:
        yield lambda folder: Served(stack.enter_context(serving(folder, tmp_path / "nginx", sites)))


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the standard library of this Python and the odd names; tests do not change it."""
    folder = tmp_path_factory.mktemp("library")
    copy_library(Path(sysconfig.get_path("stdlib")), folder / "stdlib")
    make_odd_names(folder / "odd")
    return folder


def copy_library(source: Path, copy: Path) -> None:
    """Regular files; no link is followed."""
    for name, folders, files in os.walk(source):
        folders[:] = [folder for folder in folders if folder not in LEFT_OUT and not folder.startswith(".")]
        for file in (Path(name, file) for file in files if not file.startswith(".")):
            if file.is_file() and not file.is_symlink():
                target = copy / file.relative_to(source)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, target)


def make_odd_names(folder: Path) -> None:
    """Each name as a file and as a folder, and what else is odd about a tree."""
    for position, name in enumerate(map(os.fsdecode, ODD_NAMES)):
        write(folder / "names" / name, os.fsencode(name) * position)
        write(folder / "folders" / name / name, os.fsencode(name))
    write(folder / "empty file", b"")
    (folder / "empty folder").mkdir()
    deep = folder.joinpath(*["deep"] * (SEGMENTS_MAX - 2))
    write(deep / "file", b"as deep as a name may be")


def write(path: Path, body: bytes) -> None:
    """A new file, and the folders to it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("xb") as file:
        file.write(body)


def count_files(folder: Path) -> int:
    """Regular files below a folder, its job's own aside."""
    return sum(len(files) for name, _, files in os.walk(folder) if ".fetchmill" not in Path(name).parts)


def unescape(folder: Path) -> None:
    """Renames what was escaped on disk back to the server's bytes, deepest first."""
    for name, folders, files in os.walk(folder, topdown=False):
        for entry in (Path(name, entry) for entry in (*folders, *files) if "%" in entry):
            plain = entry.with_name(os.fsdecode(unquote_to_bytes(os.fsencode(entry.name))))
            assert not os.path.lexists(plain)
            entry.rename(plain)


def differences(served: Path, mirror: Path) -> list[str]:
    """What `diff -r` says, in the C locale."""
    command = ("diff", "-r", "--no-dereference", "--exclude=.fetchmill", served, mirror)
    ended = subprocess.run(command, capture_output=True, env={"LC_ALL": "C"}, timeout=120, check=False)
    assert ended.stderr == b""
    return os.fsdecode(ended.stdout).splitlines()


def test_the_standard_library_and_odd_names_are_mirrored(
    run: Run, serve_folder: ServeFolder, library: Path, dest: Path
) -> None:
    """Nothing differs, each file was asked for once, and a second run has nothing to do."""
    served = serve_folder(library)
    count = count_files(library)

    first = run("get", served.url, dest, *MIRROR)
    asked = served.requests()
    second = run("get", served.url, dest, *MIRROR)

    assert (first.code, second.code) == (0, 0), first.err
    assert f"{count:,} listed = {count:,} fetched + 0 absent + 0 failed + 0 skipped\n" in first.err
    assert "all done already" in second.err
    assert (len(asked.keys() & served.fetched().keys()), set(asked.values())) == (count, {1})
    assert served.requests() == asked
    unescape(dest)
    assert count_files(dest) == count
    assert differences(library, dest) == [f"Only in {library}/odd: empty folder"]


def test_a_mirror_that_was_killed_is_finished(
    run: Run, start: Run, serve_folder: ServeFolder, library: Path, dest: Path
) -> None:
    """SIGKILL at seeded moments, listing and fetching: the same tree, each file once in the ledger."""
    served = serve_folder(library)
    count = count_files(library)
    moments = random.Random(7)
    settled = [0]

    while len(settled) <= KILLS and settled[-1] < count:
        client = start("get", served.url, dest, *MIRROR, *SLOWLY)
        wait_for_commit(dest, settled[-1], client)
        time.sleep(moments.uniform(0, 0.05))
        client.send_signal(signal.SIGKILL)
        client.wait()
        settled.append(fetchmill.status(dest).settled)
    ended = run("get", served.url, dest, *MIRROR)

    assert ended.code == 0, ended.err
    assert 0 < settled[2] < count, "it was killed too late to show anything"
    assert f"{count:,} listed = {count:,} fetched + 0 absent + 0 failed + 0 skipped\n" in ended.err
    assert len(served.fetched()) == count
    unescape(dest)
    assert differences(library, dest) == [f"Only in {library}/odd: empty folder"]


def wait_for_commit(dest: Path, before: int, client: subprocess.Popen[str]) -> None:
    """Until more targets are done than before, or all are."""
    while client.poll() is None:
        with contextlib.suppress(fetchmill.FetchmillError):
            if fetchmill.status(dest).settled > before:
                return
        time.sleep(0.002)
    assert client.returncode == 0, client.communicate()


def test_a_large_folder_is_mirrored(run: Run, serve_folder: ServeFolder, tmp_path: Path, dest: Path) -> None:
    """It comes as one reply of megabytes, and is cut into pages as it is read."""
    folder = tmp_path / "served"
    count = 30_000
    (folder / "large").mkdir(parents=True)
    for number in range(count):
        (folder / "large" / f"{number:05d} of many").write_text(str(number))
    served = serve_folder(folder)

    ended = run("get", served.url, dest, *MIRROR, "--durability", "process")

    assert ended.code == 0, ended.err
    assert f"{count:,} listed = {count:,} fetched + 0 absent" in ended.err
    assert served.requests()["/large/"] == 1
    assert differences(folder, dest) == []


def test_what_a_server_does_not_list_is_told(run: Run, serve_folder: ServeFolder, tmp_path: Path, dest: Path) -> None:
    """A folder with an index page has no listing; a pipe is nothing to fetch; the walk goes on behind both."""
    folder = tmp_path / "served"
    for name in ("a", "site/index.html", "site/page", "site/below/x", "z/last", ".dotfile"):
        write(folder / name, name.encode())
    os.mkfifo(folder / "pipe")
    (folder / "dangling").symlink_to("nowhere")
    served = serve_folder(folder)

    ended = run("get", served.url, dest, *MIRROR)
    failures = list(fetchmill.failures(dest))

    assert ended.code == 3
    assert "5 listed = 2 fetched + 0 absent + 1 failed + 2 skipped\n" in ended.err
    assert [(failure.name, failure.kind, failure.status) for failure in failures] == [("site/", "listing", 200)]
    assert "no listing as JSON" in failures[0].detail
    assert sorted(path.name for path in dest.rglob("*") if path.is_file() and ".fetchmill" not in path.parts) == [
        "a",
        "last",
    ]


def test_a_folder_that_became_listable_is_fetched_by_the_second_pass(
    run: Run, serve_folder: ServeFolder, tmp_path: Path, dest: Path
) -> None:
    """`--retry-failed` walks into it, and fetches nothing else again."""
    folder = tmp_path / "served"
    for name in ("a", "site/index.html", "site/below/x"):
        write(folder / name, name.encode())
    served = serve_folder(folder)
    run("get", served.url, dest, *MIRROR)
    (folder / "site" / "index.html").unlink()

    ended = run("get", served.url, dest, *MIRROR, "--retry-failed")

    assert ended.code == 0, ended.err
    assert "2 listed = 2 fetched + 0 absent + 0 failed + 0 skipped\n" in ended.err
    assert differences(folder, dest) == []
    assert served.requests()["/a"] == 1


def test_a_loop_of_links_ends(run: Run, serve_folder: ServeFolder, tmp_path: Path, dest: Path) -> None:
    """A link to a folder above it is followed for ever (by Linux 40 times); the walk ends at 64 folders."""
    folder = tmp_path / "served"
    write(folder / "a/b/file", b"in a ring")
    (folder / "a/b/up").symlink_to("../..")
    served = serve_folder(folder)

    ended = run("get", served.url, dest, *MIRROR)
    failures = {failure.kind: failure for failure in fetchmill.failures(dest)}

    rounds = [f"{'a/b/up/' * number}a/b/file" for number in range(40)]
    within = list(takewhile(lambda name: name.count("/") < SEGMENTS_MAX, rounds))
    assert ended.code == 3
    assert failures.keys() == {"listing"}
    assert failures["listing"].name.count("/") == SEGMENTS_MAX + 1
    assert f"{len(within) + 1} listed = {len(within)} fetched + 0 absent + 1 failed + 0 skipped\n" in ended.err
    assert all((dest / name).read_bytes() == b"in a ring" for name in within)


def test_a_name_that_is_too_long_once_escaped_is_refused(
    run: Run, serve_folder: ServeFolder, tmp_path: Path, dest: Path
) -> None:
    """86 control bytes are 258 on disk: failed(name), without a request; 85 are stored."""
    folder = tmp_path / "served"
    write(folder / ("\n" * 86), b"too long")
    write(folder / ("\n" * 85), b"just fits")
    served = serve_folder(folder)

    ended = run("get", served.url, dest, *MIRROR)

    assert ended.code == 3
    assert [failure.kind for failure in fetchmill.failures(dest)] == ["name"]
    assert served.fetched() == {"/" + "%0A" * 85: 1}
    assert (dest / ("%0A" * 85)).read_bytes() == b"just fits"
