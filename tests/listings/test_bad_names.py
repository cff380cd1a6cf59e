"""Hostile names are refused or escaped, and nothing is replaced or written outside DEST.

Every name has an outcome in the ledger, which `fetchmill status DEST --failures` shows.
"""

import os
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import fetchmill
from awkward_names import REFUSED, STORED
from canary import Canary
from raw_server import (
    Behaviour,
    Exchange,
    RawServer,
    get_target,
    in_turn,
    mirror,
    page,
    reply,
    then_stall,
)

Run = Callable[..., Any]
Raw = Callable[..., RawServer]


@dataclass(frozen=True)
class Finished:
    """A finished job with every name above."""

    report: fetchmill.Report
    dest: Path
    failures: dict[str, fetchmill.Failure]
    asked: list[str]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Finished]:
    """Runs one job and checks that nothing changes around its destination."""
    canary = Canary(tmp_path_factory.mktemp("names"))
    names = [*REFUSED.values(), *(name for name, _ in STORED.values())]
    with RawServer(mirror(names)) as server:
        report = fetchmill.get(server.url, canary.dest)
        failures = {failure.name: failure for failure in fetchmill.failures(canary.dest)}
        yield Finished(report, canary.dest, failures, server.asked())
    canary.assert_untouched()


def stored(dest: Path) -> dict[str, bytes]:
    """Returns the objects in a destination, without links."""
    found = {}
    for path in dest.rglob("*"):
        relative = path.relative_to(dest)
        if relative.parts[0] != ".fetchmill" and path.is_file() and not path.is_symlink():
            found[relative.as_posix()] = path.read_bytes()
    return found


def kinds(dest: Path) -> dict[str, str]:
    """Returns the failure kind of each name."""
    return {failure.name: failure.kind for failure in fetchmill.failures(dest)}


def assert_balanced(dest: Path) -> None:
    """Checks that each listed target is counted once, and that each failed one is reported once."""
    status = fetchmill.status(dest)
    assert status.balanced
    assert status.finished
    assert len(list(fetchmill.failures(dest))) == status.failed + status.absent


# --- one name at a time ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", REFUSED.values(), ids=REFUSED)
def test_name_unusable_as_file_is_refused(finished: Finished, name: str) -> None:
    """A name that cannot be a file fails (kind `name`), without a request."""
    shown = [failure for failure in finished.failures.values() if failure.name == name]

    assert [(failure.outcome, failure.kind, failure.status) for failure in shown] == [("failed", "name", None)]
    assert get_target(name) not in finished.asked


@pytest.mark.parametrize(("name", "path"), STORED.values(), ids=STORED)
def test_name_is_encoded_once_and_escaped_on_disk(finished: Finished, name: str, path: str) -> None:
    """A name is requested once, percent-encoded once, and stored below DEST with unusual characters escaped."""
    assert finished.asked.count(get_target(name)) == 1
    assert os.lstat(finished.dest / path).st_mode & 0o170000 == 0o100000
    assert (finished.dest / path).read_bytes() == name.encode()
    assert name not in finished.failures


def test_every_name_has_outcome(finished: Finished) -> None:
    """The counts of the ledger add up, and each file belongs to a listed name."""
    report = finished.report

    assert (report.fetched, report.failed) == (len(STORED), len(REFUSED))
    assert report.listed == len(STORED) + len(REFUSED)
    assert report.failures == {"name": len(REFUSED)}
    assert stored(finished.dest) == {path: name.encode() for name, path in STORED.values()}
    assert len(finished.asked) == len(STORED)
    assert_balanced(finished.dest)


def test_request_lines_have_only_unreserved_characters(finished: Finished) -> None:
    """No name reaches a header field, a query or a parent folder."""
    for target in finished.asked:
        assert re.fullmatch(r"/get/(?:[A-Za-z0-9._~/-]|%[0-9A-F]{2})+", target), target
        assert not {".", ".."} & set(target.split("/"))


def test_names_are_escaped_in_terminal_output(run: Run, raw: Raw, canary: Canary) -> None:
    """The output of every command is free of control bytes and of characters that change the text direction."""
    names = ["\x1b]0;owned\x07", "\x1b[2Ja\r\nb", "\x9b31m", "a\u202eb", "c\x08\x7f\t", "../\x1b[1m", "d\0\x1b[0m"]
    forbidden = reply(b"\x1b[31m", "X-Y: \x80", status="403 Forbidden\x80")
    server = raw(mirror(names, dict.fromkeys(names, forbidden)))

    ended = [
        run("get", server.url, canary.dest),
        run("get", server.url, canary.dest, "--json"),
        run("get", server.url, canary.dest, "--retry-failed"),
        run("status", canary.dest),
        run("status", canary.dest, "--json"),
        run("status", canary.dest, "--failures"),
        run("status", canary.dest, "--failures", "--json"),
    ]

    assert [each.code for each in ended] == [3, 3, 3, 0, 0, 0, 0]
    for each in ended:
        for text in (each.out, each.err):
            assert text.replace("\n", "").replace("\t", "").isprintable()
    rows = [line.split("\t") for line in ended[5].out.splitlines()]
    assert sorted((row[1], row[2]) for row in rows) == [("failed", "name")] * 2 + [("failed", "status")] * 5
    assert {len(row) for row in rows} == {6}


def test_refused_names_set_exit_code_3(run: Run, raw: Raw, canary: Canary) -> None:
    """A job with only refused names ends with exit code 3.

    The message has the failure kind and the command that lists them.
    """
    server = raw(mirror(REFUSED.values()))

    ended = run("get", server.url, canary.dest)
    shown = run("status", canary.dest, "--failures")

    count = len(REFUSED)
    assert ended.code == 3
    assert f"{count} listed = 0 fetched + 0 absent + {count} failed + 0 skipped\n" in ended.err
    assert f"failed: name {count}\n" in ended.err
    assert f"list them: fetchmill status {canary.dest} --failures\n" in ended.err
    assert [line.split("\t")[1:5] for line in shown.out.splitlines()] == [["failed", "name", "-", "0"]] * count
    assert server.asked() == []
    assert stored(canary.dest) == {}


# --- names that collide ------------------------------------------------------------------------------------------

MEETINGS = {
    "file-then-folder": ["foo", "foo/bar"],
    "folder-then-file": ["foo/bar", "foo"],
    "file-then-deep-folder": ["foo", "foo/a/b/c", "foo/a/d"],
    "twice": ["same", "same"],
    "thrice": ["s/same", "s/same", "s/same"],
    "twice-escaped": ["a%b", "a%b"],
}


@pytest.mark.parametrize("apart", [False, True], ids=["at-once", "apart"])
@pytest.mark.parametrize("names", MEETINGS.values(), ids=MEETINGS)
def test_colliding_names_keep_one_file(raw: Raw, canary: Canary, names: list[str], apart: bool) -> None:
    """The other names fail (kind `name-taken`), in one window or several, with one or many requests in flight."""
    others = [f"other-{number}" for number in range(20)]
    routes = mirror([*names, *others]) | {"/list": page([names[0], *others], "m")}
    routes["/list?next-marker=m"] = page(names[1:])
    if apart:
        routes["/list?next-marker=m"] = lambda exchange: _after(0.3, exchange, page(names[1:]))

    report = fetchmill.get(raw(routes).url, canary.dest, commit_window=0.05 if apart else 1.0)

    left = {path: body for path, body in stored(canary.dest).items() if not path.startswith("other-")}
    assert len(left) == report.fetched - len(others) >= 1
    assert all(body.decode().replace("%", "%25") == path for path, body in left.items())
    assert report.failures == {"name-taken": len(names) - len(left)}
    assert set(kinds(canary.dest).values()) == {"name-taken"}
    if apart:
        assert set(left) == {names[0].replace("%", "%25")}
    assert_balanced(canary.dest)


def _after(seconds: float, exchange: Exchange, text: bytes) -> bytes:
    exchange.client_speaks(seconds)
    return text


def test_similar_names_do_not_collide(raw: Raw, canary: Canary) -> None:
    """Names that differ by case or Unicode normalisation do not collide, and escaping keeps different names apart."""
    names = ["A", "a", "é", "e\u0301", "%41", "A%", "\x01", "%01", "%2501", "x ", "x", "x.", ".x"]

    report = fetchmill.get(raw(mirror(names)).url, canary.dest)

    assert (report.fetched, report.failed) == (len(names), 0)
    assert sorted(body.decode() for body in stored(canary.dest).values()) == sorted(names)


# --- files that exist already ------------------------------------------------------------------------------------


def plant_file(dest: Path, canary: Canary) -> str:
    """Creates another program's file at `taken`."""
    (dest / "taken").write_text("planted")
    canary.look_again()
    return "taken"


def plant_folder(dest: Path, canary: Canary) -> str:
    """Creates a folder at `taken`."""
    (dest / "taken").mkdir()
    (dest / "taken" / "inside").write_text("planted")
    canary.look_again()
    return "taken"


def plant_file_for_a_folder(dest: Path, canary: Canary) -> str:
    """Creates a file where a folder is needed."""
    (dest / "folder").write_text("planted")
    canary.look_again()
    return "folder/taken"


def plant_link_to_a_file(dest: Path, canary: Canary) -> str:
    """Creates a symlink to a file outside."""
    (dest / "taken").symlink_to(canary.folder / "passwd")
    return "taken"


def plant_link_to_nothing(dest: Path, canary: Canary) -> str:
    """Creates a symlink to a missing file outside; following it would create the file."""
    (dest / "taken").symlink_to(canary.folder / "nothing")
    return "taken"


def plant_link_to_a_folder(dest: Path, canary: Canary) -> str:
    """Creates a symlink to a folder outside."""
    (dest / "folder").symlink_to(canary.folder / "etc")
    return "folder/taken"


def plant_relative_link(dest: Path, canary: Canary) -> str:
    """Creates the same symlink in a subfolder, with a relative path."""
    del canary
    (dest / "far").mkdir()
    (dest / "far" / "folder").symlink_to("../../../etc")
    return "far/folder/deep/taken"


Plant = Callable[[Path, Canary], str]
PLANTS = [
    plant_file,
    plant_folder,
    plant_file_for_a_folder,
    plant_link_to_a_file,
    plant_link_to_nothing,
    plant_link_to_a_folder,
    plant_relative_link,
]
IDS = [plant.__name__.removeprefix("plant_") for plant in PLANTS]


def picture(dest: Path) -> dict[str, object]:
    """Returns the planted files with their times, without following symlinks."""
    found: dict[str, object] = {}
    for path in sorted(dest.rglob("*")):
        relative = path.relative_to(dest)
        if relative.parts[0] != ".fetchmill" and relative.name not in {"first", "last"} and not path.is_dir():
            found[str(relative)] = (
                os.readlink(path) if path.is_symlink() else path.read_text(),
                path.lstat().st_mtime_ns,
            )
    return found


@pytest.mark.parametrize("plant", PLANTS, ids=IDS)
def test_file_planted_during_job_is_kept(start: Run, raw: Raw, canary: Canary, plant: Plant) -> None:
    """The target fails (kind `name-taken`).

    The file is not replaced, followed or written to; other targets are fetched.
    """
    (canary.dest / "trial").mkdir()
    name = plant(canary.dest / "trial", canary)
    for path in sorted((canary.dest / "trial").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    (canary.dest / "trial").rmdir()
    planted = False

    def when_planted(exchange: Exchange) -> bytes:
        while not planted:
            assert not exchange.client_speaks(0.01)
        return reply(name.encode())

    server = raw(mirror(["first", name, "last"], {name: when_planted}))
    process = start("get", server.url, canary.dest, "--commit-window", "50ms")
    while not (server.count(get_target(name)) and (canary.dest / "first").exists() and (canary.dest / "last").exists()):
        assert process.poll() is None
        time.sleep(0.01)
    plant(canary.dest, canary)
    before = picture(canary.dest)
    planted = True
    _, err = process.communicate(timeout=120)

    assert process.returncode == 3, err
    assert "3 listed = 2 fetched + 0 absent + 1 failed + 0 skipped\n" in err
    assert "failed: name-taken 1\n" in err
    assert kinds(canary.dest) == {name: "name-taken"}
    assert picture(canary.dest) == before
    assert_balanced(canary.dest)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("plant", PLANTS, ids=IDS)
def test_file_planted_between_runs_is_kept(run: Run, raw: Raw, canary: Canary, plant: Plant) -> None:
    """A retry run does not touch files that were planted after the first run."""
    server = raw(mirror(["first", "taken", "folder/taken", "far/folder/deep/taken", "last"]))
    good = dict(server.routes)
    for target in list(good):
        if target.endswith("taken"):
            server.routes[target] = reply(status="403 Forbidden")
    first = run("get", server.url, canary.dest)
    server.routes |= good
    name = plant(canary.dest, canary)
    before = picture(canary.dest)

    ended = run("get", server.url, canary.dest, "--retry-failed")

    left = {path: seen for path, seen in picture(canary.dest).items() if path in before}
    assert (first.code, ended.code) == (3, 3), ended.err
    assert "5 listed = 4 fetched + 0 absent + 1 failed + 0 skipped\n" in ended.err
    assert kinds(canary.dest) == {name: "name-taken"}
    assert left == before
    assert_balanced(canary.dest)


def test_file_planted_while_job_is_stopped_is_kept(start: Run, run: Run, raw: Raw, canary: Canary) -> None:
    """If a file is planted between a kill and the next run, its target fails (kind `name-taken`).

    Earlier objects count once.
    """
    names = [f"n{number:02}" for number in range(30)]
    scripted: dict[str, Behaviour] = {name: in_turn(then_stall(b""), reply(name.encode())) for name in names[20:]}
    server = raw(mirror(names, scripted))
    # Each has one connection, so replies are not stored while it waits for the next one.
    process = start("get", server.url, canary.dest, "--commit-window", "50ms", "-j", "64")
    while len(stored(canary.dest)) < 20:
        assert process.poll() is None
        time.sleep(0.01)
    process.kill()
    process.communicate(timeout=120)
    (canary.dest / "n25").write_text("planted")

    ended = run("get", server.url, canary.dest)

    assert ended.code == 3
    assert "30 listed = 29 fetched + 0 absent + 1 failed + 0 skipped\n" in ended.err
    assert kinds(canary.dest) == {"n25": "name-taken"}
    assert stored(canary.dest) == {name: b"planted" if name == "n25" else name.encode() for name in names}


def test_retry_run_stores_object_when_its_path_is_free_again(run: Run, raw: Raw, canary: Canary) -> None:
    """Once the planted file is gone, --retry-failed fetches its target and nothing else."""
    server = raw(mirror(["a", "b"], {"b": in_turn(reply(status="403 Forbidden"), reply(b"b"))}))
    run("get", server.url, canary.dest)
    (canary.dest / "b").write_text("planted")
    taken = run("get", server.url, canary.dest, "--retry-failed")
    (canary.dest / "b").unlink()

    ended = run("get", server.url, canary.dest, "--retry-failed")

    assert (taken.code, ended.code) == (3, 0)
    assert stored(canary.dest) == {"a": b"a", "b": b"b"}
    assert (server.count("/get/a"), server.count("/get/b")) == (1, 3)
    assert_balanced(canary.dest)


def test_files_follow_umask(run: Run, raw: Raw, canary: Canary) -> None:
    """Objects follow the umask; only the owner can read the job's state."""
    ended = run("get", raw(mirror(["a", "b/c"])).url, canary.dest, umask=0o027)

    modes = {name: (canary.dest / name).stat().st_mode & 0o777 for name in ("a", "b", "b/c", ".fetchmill")}
    assert ended.code == 0
    assert modes == {"a": 0o640, "b": 0o750, "b/c": 0o640, ".fetchmill": 0o700}
