"""scripts/check-words finds planted retired words in names, and none in this project."""

import subprocess
import sys
from pathlib import Path

import pytest


def check(root: Path, checked: Path) -> tuple[int, str]:
    """Runs the tool on a folder."""
    ended = subprocess.run(
        [sys.executable, root / "scripts/check-words", checked], capture_output=True, text=True, check=False
    )
    assert ended.stderr == ""
    return ended.returncode, ended.stdout


def test_code_has_no_retired_words(root: Path) -> None:
    """No name in the current code has a retired word."""
    assert check(root, root) == (0, "words kept\n")


@pytest.mark.parametrize(
    ("path", "code", "found"),
    [
        (
            "crates/fetchmill-model/src/a.rs",
            "struct SmallDesk;",
            ":1: a retired word in `SmallDesk`: `desk` is dispatcher",
        ),
        (
            "crates/fetchmill-model/src/a.rs",
            "fn f() {\n    let fast_lanes = 1;\n}",
            ":2: a retired word in `fast_lanes`",
        ),
        (
            "crates/fetchmill-model/src/tests/a.rs",
            "const PARCEL_BYTES: u8 = 1;",
            ":1: a retired word in `PARCEL_BYTES`",
        ),
        ("crates/fetchmill-model/src/target/a.rs", "struct Desk;", ":1: a retired word in `Desk`"),
        ("crates/fetchmill-model/src/shelf.rs", "", ": a retired word in the file's name: `shelf` is shard folder"),
        ("crates/fetchmill-model/src/told.rs", "", ": `told` does not say what is in it"),
        ("crates/fetchmill-model/src/a.rs", "pub(crate) enum Asked {}", ":1: `Asked` does not say what it is"),
        ("python/fetchmill/a.py", "class TaskCrew: ...", ":1: a retired word in `TaskCrew`: `crew` is worker pool"),
        ("packages/fetchmill-bench/fetchmill_bench/a.py", "x = take_desk()", ":1: a retired word in `take_desk`"),
    ],
)
def test_planted_word_is_found(root: Path, tmp_path: Path, path: str, code: str, found: str) -> None:
    """A planted word is reported with its file and line."""
    (tmp_path / path).parent.mkdir(parents=True)
    (tmp_path / path).write_text(code)
    status, said = check(root, tmp_path)
    assert status == 1
    assert said.startswith(f"{path}{found}")
    assert len(said.splitlines()) == 1


def test_prose_strings_and_other_words_are_allowed(root: Path, tmp_path: Path) -> None:
    """Text for users may have any word, and a variable may be a participle."""
    (tmp_path / "crates/fetchmill-model/src").mkdir(parents=True)
    (tmp_path / "crates/fetchmill-model/src/a.rs").write_text(
        '/// A desk, as it was called.\nfn f() {\n    let told = "a desk";\n    let planet = "\\"lane";\n}\n'
    )
    (tmp_path / "python/fetchmill").mkdir(parents=True)
    (tmp_path / "python/fetchmill/a.py").write_text('"""A crew."""\n\nplan = "desk"  # a lane\n')
    assert check(root, tmp_path) == (0, "words kept\n")


def test_one_name_is_for_one_type(root: Path, tmp_path: Path) -> None:
    """Two types may share a name only in tests, functions, implementations, and the server, which shares nothing."""
    model, server = tmp_path / "crates/fetchmill-model/src", tmp_path / "crates/fetchmill-server/src"
    binding = tmp_path / "crates/fetchmill-python/src"
    for folder in (model / "tests", server, binding):
        folder.mkdir(parents=True)
    (model / "a.rs").write_text("pub struct Page;\n\nimpl Iterator for Page {\n    type Item = u8;\n}\n")
    (model / "b.rs").write_text(
        "type Size = u8;\n\n#[cfg(test)]\nmod tests {\n    struct Page;\n    type Item = u8;\n}\n"
    )
    (model / "tests/c.rs").write_text("struct Page;\n")
    (server / "a.rs").write_text("struct Page;\n")
    (binding / "a.rs").write_text('#[pyclass(module = "a")]\npub(crate) struct Page;\n')
    assert check(root, tmp_path) == (0, "words kept\n")
    (binding / "b.rs").write_text("\nenum Size {}\n")
    assert check(root, tmp_path) == (
        1,
        "crates/fetchmill-model/src/b.rs:1: `Size` is also the name of crates/fetchmill-python/src/b.rs:2\n",
    )
