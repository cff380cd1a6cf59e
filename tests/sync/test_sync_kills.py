"""Killed syncs: each object is old or new, and the same command finishes correctly."""

import itertools
import json
import logging
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import Ended
from nginx import Nginx, Site
from synced import ChangingTree, bodies, held, kill_in, until

Run = Callable[..., Ended]
Start = Callable[..., "subprocess.Popen[str]"]

LOG = logging.getLogger(__name__)
SEED = int(os.environ.get("FETCHMILL_SEED") or time.time_ns() % 1_000_000)
# The number of kills, which go through the phases in turn.
KILLS = int(os.environ.get("FETCHMILL_SYNC_KILLS") or 10)
FILES = 1500
# The phases in which a pass is killed.
PHASES = ("listing", "comparing", "requests", "fetching", "applying")


@pytest.fixture
def source(nginx: Callable[..., Nginx]) -> str:
    """Returns the URL of the folder `served`."""
    return nginx(files=Site()).url("files", "127.0.0.1") + "/"


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("number", "phase"), list(enumerate(itertools.islice(itertools.cycle(PHASES), KILLS))))
def test_killed_sync_leaves_each_object_old_or_new(
    run: Run, start: Start, source: str, served: Path, memory_path: Path, number: int, phase: str
) -> None:
    """This holds in every phase. The next call finishes the pass with its original options."""
    delay = random.Random(SEED + number).uniform(0, 0.08)
    LOG.info("FETCHMILL_SEED=%d repeats this", SEED)
    tree, dest = ChangingTree(served, FILES, seed=SEED + number), memory_path / "out"
    assert run("sync", source, dest).code == 0
    old = bodies(dest)
    tree.change_much(changed=300, added=100, removed=100, renamed=20)
    tree.swap_kinds("d070", "d071/f01425") if (served / "d071/f01425").exists() else None
    new = bodies(served)

    process = start("sync", source, dest, "--delete", "--max-delete", "50%", "--commit-window", "5ms", "-j", "8")
    was_killed = kill_in(phase, process, dest / ".fetchmill/sync", delay)
    found = bodies(dest)
    ended = run("sync", source, dest, "--delete", "--max-delete", "50%")

    wrong = [name for name, body in found.items() if body not in (old.get(name), new.get(name))]
    # An entry in the way of a new object is removed before the object arrives.
    in_the_way = ("d070", "d071/f01425")
    lost = [name for name in old.keys() & new.keys() if name not in found and not name.startswith(in_the_way)]
    assert (wrong, lost) == ([], []), (phase, was_killed)
    assert ended.code == 0, ended.err
    assert held(dest) == held(served)
    assert (dest / ".fetchmill/sync/base.sqlite").exists()
    assert sorted(path.name for path in (dest / ".fetchmill/sync").iterdir() if not path.name.startswith("base")) == [
        "lock"
    ]


@pytest.mark.thorough
def test_sync_passes_survive_kills_in_every_phase(
    start: Start, run: Run, source: str, served: Path, memory_path: Path
) -> None:
    """The destination is killed in one phase after the other, without a finished pass in between."""
    tree, dest = ChangingTree(served, FILES, seed=SEED), memory_path / "out"
    states = []
    for phase in PHASES:
        process = start("sync", source, dest, "--commit-window", "5ms", "-j", "8")
        states.append(kill_in(phase, process, dest / ".fetchmill/sync", 0.0))
    ended = run("sync", source, dest)

    assert any(states)
    assert ended.code == 0, ended.err
    assert "continuing the pass that started at" in ended.err
    assert held(dest) == held(served)
    assert len(tree.names()) == FILES


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signal_ends_sync_pass_with_checkpoint(
    start: Start, run: Run, nginx: Callable[..., Nginx], served: Path, dest: Path, number: int, code: int
) -> None:
    """The same command resumes the pass."""
    tree = ChangingTree(served, 200, seed=SEED)
    url = nginx(files=Site(directives="location ~ /f { limit_rate 100; }")).url("files", "127.0.0.1") + "/"
    process = start("sync", url, dest, "-j", "4", "--commit-window", "10ms")
    for _ in until("the fetching"):
        if list((dest / ".fetchmill/sync/fetched").glob("d*/f*")):
            break

    process.send_signal(number)
    _, err = process.communicate(timeout=60)

    assert process.returncode == code, err
    assert "run the same command again" in err
    assert bodies(dest) == {}
    begun: Any = json.loads((dest / ".fetchmill/sync/pass.json").read_bytes())
    assert (begun["number"], begun["is_applying"]) == (1, False)
    assert run("sync", url, dest, "-j", "200").code == 0
    assert held(dest) == held(tree.folder)


def test_resumed_pass_without_delete_removes_nothing(
    start: Start, run: Run, source: str, served: Path, memory_path: Path
) -> None:
    """If nothing has been changed yet, the resumed pass uses the options of its new call."""
    tree, dest = ChangingTree(served, 300, seed=SEED), memory_path / "out"
    assert run("sync", source, dest).code == 0
    for name in tree.names()[:5]:
        (served / name).unlink()
    tree.change_much(changed=100, added=0, removed=0, renamed=0)
    process = start("sync", source, dest, "--delete", "-j", "1", "--commit-window", "5ms", "--rate", "50")
    assert kill_in("fetching", process, dest / ".fetchmill/sync", 0.0)

    ended = run("sync", source, dest)

    assert ended.code == 0, ended.err
    assert "kept: 5, no longer listed by the source" in ended.err
    assert len(held(dest)) == 300
