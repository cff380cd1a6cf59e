"""The test suite itself: which tests `make test` runs, and how it handles failures."""

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from itertools import product
from pathlib import Path
from types import ModuleType

import pytest

import changes
from project_scripts import load_script
from selection import sample

ENGINES = ("native", "sync", "threads", "processes", "asyncio", "combo")
FORMATS = ("files", "parquet", "tar", "warc", "jsonl", "null")
MOMENTS = ("first", "middle", "last")

# One test for each kind of failure that a second run may or may not excuse.
PROGRAM = """
import os, subprocess, time
from collections import Counter
import pytest
from faults import note_end, note_problems

def test_passes(): pass
def test_counts_requests(): assert 41 == 40
def test_reads_other_bytes(): assert {"a": b"x"} == {"a": b"y"}
def test_reads_other_names(): assert {"a", "b"} == {"a"}
def test_counts_names(): assert Counter("aab") == Counter("ab")
def test_reads_a_ledger(): assert "2 listed = 2 fetched" in "3 listed = 2 fetched"
def test_reads_many_other_bytes(): assert {n: b"x" for n in range(5000)} == {n: b"xy"[n % 2:][:1] for n in range(5000)}
def test_finds_problems(): assert note_problems(["a is lost"]) == []
def test_expects_a_crash(): note_end(-6, "")
def test_sees_a_crash():
    note_end(-11, "")
    assert 1 == 2
def test_sees_a_panic():
    note_end(1, "thread 'fetch-0' panicked at worker.rs:1")
    assert 1 == 2
class InternalError(Exception): pass
def test_raises_an_internal_error(): raise InternalError
def test_waits_too_long(): subprocess.run(["sleep", "5"], timeout=0.05)
@pytest.mark.timeout(0.2)
def test_hangs(): time.sleep(5)
def test_crashes(): os.abort()
"""
CONFTEST = 'pytest_plugins = ("selection", "failures")\n'


@pytest.fixture(scope="module")
def script() -> ModuleType:
    """Returns `scripts/judge-tests` as a module."""
    return load_script("judge-tests")


@pytest.fixture
def suite(tmp_path: Path, root: Path) -> Callable[..., str]:
    """Runs pytest with a program in its own folder. Returns the output."""

    def run(program: str, *options: str) -> str:
        (tmp_path / "conftest.py").write_text(CONFTEST)
        (tmp_path / "test_program.py").write_text(program)
        markers = "markers =\n    sampled: x\n    thorough: x\n    of_files: x\n    one_in: x\n"
        (tmp_path / "pytest.ini").write_text(f"[pytest]\npythonpath = {root / 'tests/support'}\n{markers}")
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120).stdout

    return run


@pytest.mark.parametrize("seed", range(20))
def test_sample_has_every_value_of_each_parameter(seed: int) -> None:
    """A sample as large as the longest parameter has every value.

    A sample as large as the number of pairs has nearly all pairs.
    """
    cases = list(product(ENGINES, FORMATS, MOMENTS))

    small = [cases[index] for index in sample(cases, 6, random.Random(seed))]
    large = [cases[index] for index in sample(cases, 42, random.Random(seed))]

    assert [len(set(values)) for values in zip(*small, strict=True)] == [6, 6, 3]
    assert (
        len({case[:2] for case in large} | {case[1:] for case in large} | {case[::2] for case in large}) >= 36 + 17 + 17
    )


def test_sample_differs_by_seed() -> None:
    """Samples differ by seed, so that several runs cover every case."""
    cases = list(product(ENGINES, FORMATS))

    seen = {index for seed in range(60) for index in sample(cases, 6, random.Random(seed))}

    assert seen == set(range(len(cases)))
    assert sample(cases, 6, random.Random(1)) == sample(cases, 6, random.Random(1))


def test_fast_and_rest_suites_have_each_test_once(suite: Callable[..., str]) -> None:
    """Each test is in exactly one of the two suites. Without a suite, all tests run."""
    program = """
import pytest
@pytest.mark.sampled(2)
@pytest.mark.parametrize("x", range(5))
def test_sampled(x): pass
@pytest.mark.thorough
def test_thorough(): pass
@pytest.mark.of_files("no/such/folder")
def test_of_others(): pass
def test_plain(): pass
"""

    def names(*options: str) -> set[str]:
        lines = suite(program, "--collect-only", *options).splitlines()
        return {line for line in lines if "::" in line}

    fast, rest, everything = names("--suite", "fast"), names("--suite", "rest"), names()

    assert fast | rest == everything
    assert len(fast) + len(rest) == len(everything) == 8
    assert {name.partition("::")[2] for name in fast if "sampled" not in name} == {"test_plain"}
    assert sum("sampled" in name for name in fast) == 2


def test_one_test_in_three_is_chosen_by_seed(suite: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    """With each seed, about a third of these tests run, with all of their cases. The rest suite has the others."""
    program = """
import pytest
for number in range(60):
    @pytest.mark.one_in(3)
    @pytest.mark.parametrize("x", range(2))
    def heavy(x): pass
    globals()[f"test_{number}"] = heavy
"""

    def names(kind: str, seed: str) -> list[str]:
        monkeypatch.setenv("FETCHMILL_SEED", seed)
        lines = suite(program, "--collect-only", "--suite", kind).splitlines()
        return [line.partition("[")[0] for line in lines if "::" in line]

    fast = names("fast", "1")

    assert all(fast.count(name) == 2 for name in fast)
    assert 8 <= len(set(fast)) <= 32
    assert len(fast) + len(names("rest", "1")) == 120
    assert set(fast) != set(names("fast", "2"))


def test_slice_starts_no_test_after_time_limit(suite: Callable[..., str]) -> None:
    """A slice starts no test after its time limit, and lets the running test finish."""
    program = """
import time, pytest
@pytest.mark.thorough
@pytest.mark.parametrize("x", range(50))
def test_slow(x): time.sleep(0.2)
"""
    printed = suite(program, "--suite", "rest", "--seconds", "1")

    assert 1 <= printed.count(".") < 25, printed


def test_failures_are_classified_as_faults_or_flakes(suite: Callable[..., str], tmp_path: Path) -> None:
    """Wrong bytes, lost or duplicate objects, crashes and hangs are faults. A wrong count or time is not."""
    suite(PROGRAM, "-n", "2", "--failures", str(tmp_path / "failures.jsonl"))

    rows = [json.loads(line) for line in (tmp_path / "failures.jsonl").read_text().splitlines()]
    assert {row["test"].partition("::test_")[2]: row["fault"] for row in rows} == {
        "counts_requests": None,
        "reads_other_bytes": "wrong bytes",
        "reads_other_names": "lost or doubled object",
        "counts_names": "lost or doubled object",
        "reads_a_ledger": "lost or doubled object",
        "reads_many_other_bytes": "wrong bytes",
        "finds_problems": "wrong, lost or doubled object",
        "sees_a_crash": "crash",
        "sees_a_panic": "crash",
        "raises_an_internal_error": "crash",
        "waits_too_long": "hang",
        "hangs": "hang",
        "crashes": "crash",
    }
    logs = {row["test"].partition("::test_")[2]: row["log"] for row in rows}
    assert "mappings of 5000 and 5000 entries differ in 2500" in logs["reads_many_other_bytes"]


@pytest.mark.parametrize(
    ("code", "written", "expected"), [(0, "", 0), (1, "{}\n", 0), (1, "", 1), (2, "{}\n", 2), (5, "", 5)]
)
def test_unrecorded_failures_fail_run(root: Path, tmp_path: Path, code: int, written: str, expected: int) -> None:
    """A failed test may be judged later only if `judge-tests` can see it. Failures of an earlier part do not count."""
    failures = tmp_path / "failures.jsonl"
    failures.write_text("{}\n")
    program = f"import sys; open(sys.argv[-1], 'a').write({written!r}); sys.exit({code})"
    command: list[str | Path] = [root / "scripts/run-tests", failures, sys.executable, "-c", program]

    assert subprocess.run(command, check=False).returncode == expected


def test_failures_of_all_parts_are_judged(script: ModuleType, tmp_path: Path) -> None:
    """Each part of the run has its own file; without failures, there is none."""
    assert script.read_failures(tmp_path / "failures") == []
    (tmp_path / "failures").mkdir()
    for part in ("test-python", "test-slice"):
        row = {"test": f"tests/test_a.py::{part}", "fault": None, "log": "a\nb"}
        (tmp_path / f"failures/{part}.jsonl").write_text(json.dumps(row) + "\n")

    tests = [failure.test for failure in script.read_failures(tmp_path / "failures")]

    assert tests == ["tests/test_a.py::test-python", "tests/test_a.py::test-slice"]


@pytest.mark.of_files("scripts/rustc-with-clippy", "Makefile")
@pytest.mark.parametrize(("argument", "passes"), [("&[u8]", True), ("&Vec<u8>", False)])
def test_compiling_applies_lints(root: Path, tmp_path: Path, argument: str, passes: bool) -> None:
    """A lint warning fails the build, because `make test` has no separate Clippy pass."""
    (tmp_path / "src").mkdir()
    (tmp_path / "Cargo.toml").write_text('[package]\nname = "linted"\nedition = "2024"\n[workspace]\n')
    (tmp_path / "src/lib.rs").write_text(f"pub fn count(bytes: {argument}) -> usize {{ bytes.len() }}\n")
    env = os.environ | {"RUSTC_WORKSPACE_WRAPPER": str(root / "scripts/rustc-with-clippy")}
    command = ("cargo", "build", "--offline")

    ended = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)

    assert (ended.returncode == 0) is passes, ended.stderr
    assert ("clippy" in ended.stderr) is not passes


def test_only_unchanged_test_without_fault_may_rerun(script: ModuleType) -> None:
    """A failed test may run again only if it saw no fault and the change does not touch it."""
    failures = [
        script.Failure("tests/test_a.py::test_flaky", None, ""),
        script.Failure("tests/test_a.py::test_fails_again", None, ""),
        script.Failure("tests/test_a.py::test_sees_a_fault", "wrong bytes", ""),
        script.Failure("tests/test_b.py::test_of_the_change", None, ""),
    ]
    again: list[str] = []

    def run_again(test: str) -> bool:
        again.append(test)
        return "flaky" in test

    judgement = script.judge(failures, lambda test: test.endswith("test_of_the_change"), run_again)

    assert judgement.flaky == ["tests/test_a.py::test_flaky"]
    assert judgement.failed == {
        "tests/test_a.py::test_fails_again": "failed again alone",
        "tests/test_a.py::test_sees_a_fault": "wrong bytes",
        "tests/test_b.py::test_of_the_change": "the change touches the test",
    }
    assert again == ["tests/test_a.py::test_flaky", "tests/test_a.py::test_fails_again"]
    assert not judgement.passes


@pytest.mark.parametrize(("count", "passes"), [(0, True), (1, True), (5, True), (6, False), (21, False)])
def test_more_than_five_flaky_tests_fail_run(script: ModuleType, count: int, passes: bool) -> None:
    """A few flaky tests may fail by chance, but not more than five."""
    failures = [script.Failure(f"tests/test_a.py::test_{number}", None, "") for number in range(count)]

    assert script.judge(failures, lambda _: False, lambda _: True).passes is passes


class Repository:
    """A git repository.

    Args:
        folder: its folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._git("init", "-b", "main")

    def commit(self, name: str, text: str, day: str) -> None:
        """Writes a file and commits it at noon."""
        (self.folder / name).parent.mkdir(exist_ok=True)
        (self.folder / name).write_text(text)
        self._git("add", "-A")
        self._git("commit", "-m", name, day=day)

    def move(self, name: str, to: str, day: str) -> None:
        """Moves a file and commits the change."""
        (self.folder / to).parent.mkdir(exist_ok=True)
        (self.folder / name).rename(self.folder / to)
        self._git("add", "-A")
        self._git("commit", "-m", to, day=day)

    def _git(self, *words: str, day: str = "2026-01-01") -> None:
        when = f"{day}T12:00:00Z"
        env = {"PATH": "/usr/bin:/bin", "HOME": "/", "GIT_COMMITTER_DATE": when, "GIT_AUTHOR_DATE": when}
        identity = ("-c", "user.name=n", "-c", "user.email=e@localhost")
        subprocess.run(["git", *identity, "-C", str(self.folder), *words], check=True, env=env, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """Creates a repository without commits."""
    monkeypatch.delenv("FETCHMILL_BASE", raising=False)
    for cached in (changes.changed_files, changes.rewrites, changes.rewrites_test, changes._base, changes._moves):
        cached.cache_clear()
    return Repository(tmp_path)


def test_change_includes_unpushed_and_uncommitted_lines(repository: Repository) -> None:
    """A change includes recent commits, edits and new files, but nothing older."""
    for name, day in (("old", "2026-01-01"), ("crates/new", "2026-01-05"), ("newest", "2026-01-05")):
        repository.commit(name, "1", day)
    folder = repository.folder
    (folder / "old").write_text("2")

    assert changes.changed_files(folder) == {"crates/new", "newest", "old"}
    assert changes.touches("crates", root=folder)
    assert not changes.touches("crate", "docs", root=folder)


def test_changed_selection_marker_does_not_change_test(repository: Repository) -> None:
    """A line of a test that only gets another selection marker is not a change of the test; any other line is."""
    before = "def test_a(): pass\n"
    repository.commit("test_a.py", before, day="2026-01-01")
    repository.commit("test_b.py", before, day="2026-01-01")
    repository.commit("test_a.py", "@pytest.mark.sampled(2)\n" + before, day="2026-01-05")
    repository.commit("test_b.py", "@pytest.mark.thorough\n" + before + "assert 1\n", day="2026-01-05")
    repository.commit("test_c.py", before, day="2026-01-05")

    found = [name for name in ("test_a.py", "test_b.py", "test_c.py") if changes.rewrites(name, repository.folder)]

    assert found == ["test_b.py", "test_c.py"]


def test_changed_docstring_does_not_change_test(repository: Repository) -> None:
    """Edited docstrings and comments are not a change of a test. Edited code is, even in a line with a comment."""
    before = '"""One."""\n\ndef test_a():\n    async def f():\n        """Two."""\n    assert 1  # three\n'
    for name in ("test_a.py", "test_b.py"):
        repository.commit(name, before, day="2026-01-01")
    other = before.replace("One", "1").replace("Two", "2").replace("three", "3")
    repository.commit("test_a.py", other, day="2026-01-05")
    repository.commit("test_b.py", other.replace("assert 1", "assert 2"), day="2026-01-05")

    found = [name for name in ("test_a.py", "test_b.py") if changes.rewrites(name, repository.folder)]

    assert found == ["test_b.py"]


def test_changed_neighbour_does_not_change_test(repository: Repository) -> None:
    """A test changes with its own code and with code that its file shares, not with other tests."""
    before = "A = 1\ndef test_a(): assert A\ndef test_b(): assert A\n"
    for name in ("test_one.py", "test_two.py"):
        repository.commit(name, before, day="2026-01-01")
    repository.commit("test_one.py", before.replace("test_b(): assert A", "test_b(): assert 2"), day="2026-01-05")
    repository.commit("test_two.py", before.replace("A = 1", "A = 2"), day="2026-01-05")

    tests = [f"test_{file}.py::{name}" for file in ("one", "two") for name in ("test_a", "test_b[1-x]")]
    found = [test for test in tests if changes.rewrites_test(test, repository.folder)]

    assert found == ["test_one.py::test_b[1-x]", "test_two.py::test_a", "test_two.py::test_b[1-x]"]


def test_renamed_test_counts_as_unchanged(repository: Repository) -> None:
    """A renamed test behaves as before, unless its code changes as well."""
    before = "A = 1\ndef test_a(): assert A\ndef test_b(): assert 2\n"
    for name in ("test_one.py", "test_two.py"):
        repository.commit(name, before, day="2026-01-01")
    repository.commit("test_one.py", before.replace("test_b", "test_c"), day="2026-01-05")
    repository.commit("test_two.py", before.replace("test_b(): assert 2", "test_c(): assert 3"), day="2026-01-05")

    tests = [f"test_{file}.py::{name}" for file in ("one", "two") for name in ("test_a", "test_c")]
    found = [test for test in tests if changes.rewrites_test(test, repository.folder)]

    assert found == ["test_two.py::test_c"]
    assert not changes.rewrites("test_one.py", repository.folder)
    assert changes.rewrites("test_two.py", repository.folder)


def test_moved_file_does_not_change_test(repository: Repository) -> None:
    """Moving a file is not a change of its tests. Changing the moved file is."""
    text = "".join(f"def test_{number}(): pass\n" for number in range(20))
    repository.commit("test_a.py", text, day="2026-01-01")
    repository.commit("test_b.py", text.replace("pass", "assert 1"), day="2026-01-01")
    repository.move("test_a.py", "http/test_a.py", day="2026-01-05")
    repository.move("test_b.py", "http/test_b.py", day="2026-01-05")
    repository.commit("http/test_b.py", text.replace("pass", "assert 1") + "assert 2\n", day="2026-01-05")

    found = [name for name in ("http/test_a.py", "http/test_b.py") if changes.rewrites(name, repository.folder)]

    assert found == ["http/test_b.py"]
