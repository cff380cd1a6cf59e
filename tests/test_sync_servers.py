"""`fetchmill sync` of a tree that changes much, behind each of the servers that list folders."""

import json
import logging
import os
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import Ended
from index_servers import SERVERS, index_server
from synced import ChangingTree, held

# `make sync-long` has 20,000.
FILES = int(os.environ.get("FETCHMILL_SYNC_FILES") or 1000)
FOLDERS = 50
LOG = logging.getLogger(__name__)
SEED = int(os.environ.get("FETCHMILL_SEED") or time.time_ns() % 1_000_000)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("server", SERVERS)
def test_a_tree_that_changes_much_is_made_identical(
    run: Callable[..., Ended], served: Path, memory_path: Path, tmp_path: Path, server: str
) -> None:
    """Times included; a request a folder, a GET for each file that differs, and conditions where nothing else tells."""
    LOG.info("FETCHMILL_SEED=%d repeats this", SEED)
    # lighttpd keeps a descriptor of each file for some seconds, and says 403 without one.
    files = min(FILES, 10_000) if server == "lighttpd" else FILES
    tree, dest = ChangingTree(served, files, SEED, files // FOLDERS), memory_path / "out"
    with index_server(server, served, tmp_path / "server") as source:
        # What a server is late with, because more connections come than it takes, would be counted in the next pass.
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

    assert (ended.code, again.code) == (0, 0), ended.err + again.err
    assert held(dest) == after
    report = json.loads(ended.out.splitlines()[-1])
    assert (report["fetched"], report["removed"], report["failed"]) == (len(fetched), len(gone), 0)
    assert set(asked.folders.values()) == {1}
    assert asked.sent == Counter(fetched)
    unchanged = after.keys() - fetched
    assert asked.same == (Counter() if server == "nginx-json" else Counter(unchanged))
    second = json.loads(again.out.splitlines()[-1])
    assert (second["unchanged"], second["fetched"], second["removed"]) == (len(after), 0, 0)
