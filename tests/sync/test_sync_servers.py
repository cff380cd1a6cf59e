"""`fetchmill sync` of a tree with many changes, on each of the servers that list folders."""

import contextlib
import json
import logging
import os
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import Ended
from index_servers import SERVERS, index_server
from synced import LONG_AGO, ChangingTree, bodies, held

# `make sync-long` uses 20,000 files.
FILES = int(os.environ.get("FETCHMILL_SYNC_FILES") or 1000)
FOLDERS = 50
LOG = logging.getLogger(__name__)
SEED = int(os.environ.get("FETCHMILL_SEED") or time.time_ns() % 1_000_000)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("server", SERVERS)
def test_sync_makes_heavily_changed_tree_identical(
    run: Callable[..., Ended], served: Path, memory_path: Path, tmp_path: Path, server: str
) -> None:
    """Times are equal, too.

    The server sends each changed file and no unchanged one, which gets a conditional request at most.
    """
    LOG.info("FETCHMILL_SEED=%d repeats this", SEED)
    # lighttpd keeps each file open for some seconds, and answers 403 if no descriptor is free.
    files = min(FILES, 10_000) if server == "lighttpd" else FILES
    tree, dest = ChangingTree(served, files, SEED, files // FOLDERS), memory_path / "out"
    with index_server(server, served, tmp_path / "server") as source:
        # An overloaded server would write log lines late, and they would count in the next pass.
        words = ("sync", source.url, dest, "--concurrency", "4")
        assert run(*words).code == 0
        source.asked()
        before = held(served)
        tree.change_much(changed=files // 40, added=files * 3 // 200, removed=files // 100, renamed=files // 400)
        last = next(name for name in tree.names() if name.startswith(f"d{FOLDERS - 1:03}/"))
        tree.swap_kinds(f"d{FOLDERS - 2:03}", last)
        after = held(served)
        fetched = {name for name, value in after.items() if before.get(name) != value}
        gone = before.keys() - after.keys()

        ended = run(*words, "--delete", "--json")
        asked = source.asked()
        again = run(*words, "--delete", "--json")

    assert (ended.code, again.code) == (0, 0), ended.out[-800:] + ended.err + again.err
    assert held(dest) == after
    report = json.loads(ended.out.splitlines()[-1])
    assert (report["fetched"], report["removed"], report["failed"]) == (len(fetched), len(gone), 0)
    # A slow request is repeated, and so are those whose replies its connection held. All get the same status again.
    assert asked.folders.keys() == {
        "",
        *(f"{path.relative_to(served)}/" for path in served.rglob("*") if path.is_dir()),
    }
    assert asked.sent.keys() == fetched
    # A sync that requested everything twice would reach these bounds.
    assert asked.sent.total() < 2 * len(fetched)
    assert asked.folders.total() < 2 * len(asked.folders)
    assert asked.same.keys() == (set() if server == "nginx-json" else after.keys() - fetched)
    second = json.loads(again.out.splitlines()[-1])
    assert (second["unchanged"], second["fetched"], second["removed"]) == (len(after), 0, 0)


@pytest.mark.parametrize("server", ["nginx-json", "nginx-html"])
def test_sync_and_get_use_same_non_utf8_names(
    run: Callable[..., Ended], served: Path, tmp_path: Path, server: str
) -> None:
    """`get`, `sync` and `get` with a manifest create the same files. A sync after a `get` changes nothing."""
    names = [b"caf\xe9.txt", b"d\xff/\xe9.txt", b"plain.txt", b"%bytes:caf%E9.txt"]
    for name in names:
        path = Path(os.fsdecode(os.fsencode(served) + b"/" + name))
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(name)
        os.utime(path, (LONG_AGO, LONG_AGO))
    got, mirror, listed = tmp_path / "got", tmp_path / "mirror", tmp_path / "listed"
    with index_server(server, served, tmp_path / "server") as source:
        assert run("get", source.url, got, "--quiet").code == 0
        files = bodies(got)
        assert run("sync", source.url, mirror, "--quiet").code == 0
        again = run("sync", source.url, mirror, "--delete", "--json")
        over = run("sync", source.url, got, "--delete", "--json")
        assert run("list", source.url, tmp_path / "manifest.csv").code == 0
        assert run("get", tmp_path / "manifest.csv", listed, "--allow-private", "--quiet").code == 0
    assert sorted(files.values()) == sorted(names)
    assert bodies(mirror) == bodies(got) == bodies(listed) == files
    for ended in (again, over):
        report = json.loads(ended.out.splitlines()[-1])
        assert (ended.code, report["fetched"], report["removed"], report["unchanged"]) == (0, 0, 0, len(names))


def test_sync_keeps_object_names_of_older_release(run: Callable[..., Ended], served: Path, tmp_path: Path) -> None:
    """Release 0.1.0 named such objects by their URLs. A sync neither renames nor removes them."""
    Path(os.fsdecode(os.fsencode(served) + b"/caf\xe9.txt")).write_bytes(b"x")
    mirror = tmp_path / "mirror"
    with index_server("nginx-json", served, tmp_path / "server") as source:
        assert run("sync", source.url, mirror, "--quiet").code == 0
        host = source.url.removeprefix("http://").strip("/")
        (mirror / host).mkdir()
        (mirror / "caf%E9.txt").rename(mirror / host / "caf%25E9.txt")
        with contextlib.closing(sqlite3.connect(mirror / ".fetchmill/sync/base.sqlite")) as base:
            base.execute("DELETE FROM facts WHERE key = 'byte_names'")
            base.execute("UPDATE objects SET name = ?", (f"{host}/caf%E9.txt".encode(),))
            base.commit()
        ended = run("sync", source.url, mirror, "--delete", "--check-local", "--json", "--refetch")
    report = json.loads(ended.out.splitlines()[-1])
    assert (ended.code, report["fetched"], report["removed"]) == (0, 1, 0), ended.err
    assert list(bodies(mirror)) == [f"{host}/caf%25E9.txt"]
