"""`fetchmill torture` disturbs a run before the drawn call, and finds lost, doubled and wrong objects."""

import errno
import json
import shutil
import socket
import sys
from collections import Counter
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import fetchmill
from fetchmill._torture.comparison import Expected, compare, contents
from fetchmill._torture.disturbances import Disturbance, draw
from fetchmill._torture.readers import FORMATS
from fetchmill._torture.supervisor import run as supervise
from fetchmill.testing import serve
from sabotage import FAULTS, environment_with

Run = Callable[..., Any]
SUFFIXES = {"tar": ".tar", "jsonl": ".jsonl", "parquet": ".parquet", "warc": ".warc.gz"}

MAKES_FOLDERS = """
import os, sys
for name in "abcd":
    os.mkdir(os.path.join(sys.argv[1], name))
"""
WRITES = """
import os, sys
inside, outside = (os.open(path, os.O_CREAT | os.O_WRONLY) for path in sys.argv[2:])
os.write(inside, b"before")
os.mkdir(os.path.join(sys.argv[1], "a"))
os.write(outside, b"after")
try:
    os.write(inside, b"after")
except OSError as error:
    sys.exit(error.errno)
"""
CONNECTS = """
import os, socket, sys, time
address = ("127.0.0.1", int(sys.argv[2]))
first = socket.create_connection(address)
os.mkdir(os.path.join(sys.argv[1], "a"))
assert first.recv(1) == b""
failed = None
for _ in range(1000):
    try:
        socket.create_connection(address)
        sys.exit(failed)
    except OSError as error:
        failed = error.errno
        time.sleep(0.02)
"""


def python(program: str, *arguments: object) -> list[str]:
    """Returns a command that runs Python code."""
    return [sys.executable, "-c", program, *map(str, arguments)]


@pytest.mark.parametrize("call", [1, 3])
def test_kill_happens_before_drawn_call(tmp_path: Path, call: int) -> None:
    """The call is never executed, but earlier calls are."""
    ended = supervise(python(MAKES_FOLDERS, tmp_path), tmp_path, Disturbance("kill", call))

    assert (ended.code, ended.calls, ended.was_disturbed) == (-9, call, True)
    assert sorted(path.name for path in tmp_path.iterdir()) == list("abcd"[: call - 1])


def test_undisturbed_run_is_counted(tmp_path: Path) -> None:
    """A run that ends before its call counts as undisturbed."""
    ended = supervise(python(MAKES_FOLDERS, tmp_path), tmp_path, Disturbance("kill", 5))

    assert (ended.code, ended.calls, ended.was_disturbed, ended.hung) == (0, 4, False, False)


def test_simulated_full_disk_affects_only_destination(tmp_path: Path) -> None:
    """From the drawn call on, only writes to the destination fail."""
    dest = tmp_path / "dest"
    dest.mkdir()
    command = python(WRITES, dest, dest / "inside", tmp_path / "outside")

    ended = supervise(command, dest, Disturbance("full-disk", 1))

    assert ended.code == errno.ENOSPC, ended.errors
    assert (dest / "inside").read_bytes() == b"before"
    assert (tmp_path / "outside").read_bytes() == b"after"


def test_network_cut_ends_connections_and_refuses_new_ones(tmp_path: Path) -> None:
    """The cut is temporary, and the program continues."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        command = python(CONNECTS, tmp_path, listening.getsockname()[1])

        ended = supervise(command, tmp_path, Disturbance("cut", 1, 2.0))

    assert ended.code == errno.ENETUNREACH, ended.errors


def test_seed_reproduces_disturbances() -> None:
    """Another seed draws other disturbances."""
    assert draw("7-1", 300) == draw("7-1", 300)
    kinds = [[each.kind for each in draw(f"7-{number}", calls)] for number in range(50) for calls in (300, 301)]
    assert kinds[::2] == kinds[1::2], "the kinds depend on the seed alone"
    assert not any(each.kind == "cut" for number in range(50) for each in draw(f"7-{number}", 300, can_cut=False))
    assert len({str(draw(f"7-{number}", 300)) for number in range(50)}) > 40
    assert all(1 <= each.call <= 300 for number in range(50) for each in draw(f"7-{number}", 300))


@pytest.fixture(params=FORMATS)
def stored(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, str, Expected]:
    """A destination, its format, and its contents."""
    dest = tmp_path / "out"
    with serve(synthetic=20) as server:
        fetchmill.get(server.url, dest, format=request.param, concurrency=1)
    return dest, request.param, contents(dest, request.param)


def test_damaged_destination_is_detected(stored: tuple[Path, str, Expected]) -> None:
    """Lost, wrong, unexpected and doubled objects are found."""
    dest, format, expected = stored
    one, other = list(expected)[:2]
    name = one[0]

    assert compare(dest, format, expected).is_clean
    lost = compare(dest, format, expected + Counter([("more", b"")]))
    wrong = compare(dest, format, expected - Counter([one]) + Counter([(name, b"")]))
    unknown = compare(dest, format, expected - Counter([other]))

    assert (lost.lost, lost.doubled, lost.wrong, lost.examples) == (1, 0, 0, ("lost: more",))
    assert (wrong.lost, wrong.doubled, wrong.wrong, wrong.examples) == (0, 0, 1, (f"wrong: {name}",))
    assert (unknown.lost, unknown.doubled, unknown.wrong) == (0, 0, 1)
    if format in SUFFIXES:
        shard = next(dest.glob(f"shard-*{SUFFIXES[format]}"))
        shutil.copy(shard, dest / f"shard-000099{SUFFIXES[format]}")
        assert compare(dest, format, expected).doubled == 20
        shard.write_bytes(shard.read_bytes()[: shard.stat().st_size // 2])
        assert not compare(dest, format, expected).is_clean


@pytest.mark.parametrize("format", ["files", pytest.param("parquet", marks=pytest.mark.sampled(1))])
def test_torture_round_finds_no_problems(run: Run, tmp_path: Path, format: str) -> None:
    """The server of the round is faulty, but no object is lost, doubled or wrong."""
    how = ("--format", format, "--seconds", 0, "--seed", 8, "--folder", tmp_path / "made", "--json")
    ended = run("torture", *how)

    assert ended.code == 0, ended.err + ended.out
    [a_round, report] = [json.loads(line) for line in ended.out.splitlines()]
    assert (a_round["event"], a_round["number"], a_round["format"], a_round["objects"]) == ("round", 1, format, 2000)
    assert (a_round["lost"], a_round["doubled"], a_round["wrong"], a_round["problems"]) == (0, 0, 0, [])
    assert a_round["server_faults"] > 20
    assert (report["rounds"], report["seed"], report["lost"], report["fetched_again"] > 0) == (1, 8, 0, True)
    assert list((tmp_path / "made").iterdir()) == []


@pytest.mark.sampled(3)
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("fault", FAULTS)
def test_sabotaged_fetchmill_is_detected(
    run: Run, environment: dict[str, str], tmp_path: Path, fault: str, format: str
) -> None:
    """The program's resumed runs leave a fault in the destination. A doubled file has another name, so it is wrong."""
    (tmp_path / "hook").mkdir()
    sabotaged = environment | environment_with(fault, tmp_path / "hook")
    number = next(each for each in count(1) if [drawn.kind for drawn in draw(f"8-{each}", 300)] == ["kill"])
    how = ("--format", format, "--seed", 8, "--round", number, "--folder", tmp_path / "made", "--json")

    ended = run("torture", *how, env=sabotaged)

    assert ended.code == 10, ended.err + ended.out
    [a_round, report] = [json.loads(line) for line in ended.out.splitlines()]
    expected = "wrong" if (fault, format) == ("doubled", "files") else fault
    assert [kind for kind in FAULTS if a_round[kind]] == [expected], a_round
    assert report[expected] == a_round[expected]
    assert a_round["again"] == f"fetchmill torture --seed 8 --round {number} --format {format}"
    assert Path(a_round["dest"]).is_dir()


def test_user_source_is_compared_with_undisturbed_job(run: Run, tmp_path: Path) -> None:
    """Options of `get` follow `--`."""
    listed = tmp_path / "list.csv"
    with serve(synthetic=300, delay=(0.0, 0.01)) as server:
        names = [f"file-{number:012}" for number in range(300)]
        listed.write_text("\n".join(["where", *(f"{server.url}/get/{name}" for name in names)]))

        how = ("--format", "jsonl", "--seconds", 0, "--seed", 3, "--folder", tmp_path / "made")
        ended = run("torture", listed, *how, "--", "--column", "where", "--allow-private")

    assert ended.code == 0, ended.err
    assert "1 round, 300 objects: " in ended.err
    assert "lost 0, duplicated 0, wrong 0" in ended.err
    assert "fetched again" not in ended.err


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        ("missing.txt", (), "the undisturbed job failed (exit code 2): fetchmill: error: "),
        ("refused.txt", (), "the undisturbed job stored nothing of "),
        ("-", (), "SOURCE cannot be standard input"),
        ("refused.txt", ("--state=/x",), "--state cannot be given after --, because torture sets this option"),
    ],
)
def test_source_without_comparable_objects_is_refused(
    run: Run, tmp_path: Path, source: str, options: tuple[str, ...], message: str
) -> None:
    """Such a source would prove nothing."""
    (tmp_path / "refused.txt").write_text("http://127.0.0.1:9/refused")
    where = source if source == "-" else tmp_path / source

    ended = run("torture", where, "--seconds", 0, "--folder", tmp_path / "made", "--format", "files", "--", *options)

    assert ended.code == 2
    assert message in ended.err
    assert list((tmp_path / "made").iterdir()) == []


def test_uncreatable_torture_folder_is_named_in_error(run: Run, tmp_path: Path) -> None:
    """The error is one line."""
    (tmp_path / "file").touch()

    ended = run("torture", "--folder", tmp_path / "file/below", "--seconds", 0)

    assert ended.code == 7
    assert "cannot create a folder for the destinations: " in ended.err
