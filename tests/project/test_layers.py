"""scripts/check-layers finds planted faults, and none in this project."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ENGINE = "engine/src/"
FETCH = "crate::fetch"
pytestmark = pytest.mark.of_files("scripts/check-layers", "scripts/check-words", "scripts/rust_modules.py")


def check(root: Path, checked: Path) -> tuple[int, str]:
    """Runs the tool on a folder."""
    ended = subprocess.run(
        [sys.executable, root / "scripts/check-layers", checked], capture_output=True, text=True, check=False
    )
    assert ended.stderr == ""
    return ended.returncode, ended.stdout


@pytest.fixture
def small(root: Path, tmp_path: Path) -> Path:
    """Creates the smallest project that the tool accepts, because that is faster."""
    (tmp_path / "crates/fetchmill-model/src").mkdir(parents=True)
    shutil.copy(root / "Cargo.lock", tmp_path)
    return tmp_path


@pytest.fixture
def copy(root: Path, tmp_path: Path) -> Path:
    """Copies the tool's input, so that faults can be planted."""
    for part in ("crates", "python/fetchmill"):
        shutil.copytree(root / part, tmp_path / part, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    shutil.copy(root / "Cargo.lock", tmp_path)
    (tmp_path / "docs/internals").mkdir(parents=True)
    shutil.copy(root / "docs/internals/architecture.md", tmp_path / "docs/internals")
    return tmp_path


def test_code_keeps_layers(root: Path) -> None:
    """The current code keeps the layers."""
    assert check(root, root) == (0, "layers kept\n")


@pytest.mark.parametrize(
    ("module", "code", "found"),
    [
        ("model/src/name/mod", "fn f() { std::fs::read(p); }", "`fetchmill-model` is without I/O, this is a file"),
        ("model/src/target/mod", "fn f() { Instant::now(); }", "`fetchmill-model` is without I/O, this is a clock"),
        ("model/src/outcome/mod", "use tokio::net::TcpStream;", "`fetchmill-model` is without I/O, this is tokio"),
        ("model/src/name/mod", "use std::net::TcpStream;", "`fetchmill-model` is without I/O, this is a socket"),
        (ENGINE + "event_queues", "fn f() { std::fs::remove_file(p); }", "only `durable` syncs, renames, truncates, "),
        (ENGINE + "fetch/worker/fetch", f"use {FETCH}::stream::Fetcher;", "`worker` must not use `stream` (Fetcher)"),
    ],
)
def test_planted_import_is_found(root: Path, copy: Path, module: str, code: str, found: str) -> None:
    """A planted import is reported with its file and line."""
    planted = copy / f"crates/fetchmill-{module}.rs"
    text = planted.read_text()
    planted.write_text(f"{text}\n{code}\n")

    code_number, said = check(root, copy)

    assert code_number == 1
    assert f"{module}.rs:{text.count(chr(10)) + 2}: {found}" in said


@pytest.mark.parametrize(
    "code",
    [
        "// use crate::engine::Job;",
        "/* std::fs::read */",
        'const TEXT: &str = "use crate::engine; // Instant::now()";',
        'const RAW: &str = r#"a " crate::engine"#;',
        "const QUOTE: char = '\"';",
        "fn f<'a>(text: &'a str) -> &'a str { text }",
        "use std::net::{IpAddr, SocketAddr};",
    ],
)
def test_text_resembling_import_is_ignored(root: Path, copy: Path, code: str) -> None:
    """Comments, literals, and plain values of the standard library are not imports."""
    planted = copy / "crates/fetchmill-model/src/name/mod.rs"
    planted.write_text(f"{planted.read_text()}\n{code}\n")

    assert check(root, copy) == (0, "layers kept\n")


HANDS_ON = "mod a; mod b; pub use a::A; pub use b::B;"


@pytest.mark.parametrize(
    ("files", "found"),
    [
        (
            {
                "mod": "mod a; mod b;",
                "a": "use super::b::B; struct A;",
                "b": "fn f(a: crate::planted::a::A) {} struct B;",
            },
            "a cycle: a -> b (B); b -> a (A)",
        ),
        (
            {"mod": HANDS_ON, "a": "use super::{B}; pub struct A;", "b": "use super::A as C; pub struct B;"},
            "a cycle: a -> b (B); b -> a (A)",
        ),
        (
            {"mod": "mod a; pub struct P; fn f() { a::g(); }", "a": "use super::P; pub fn g() {}"},
            "a cycle: a -> mod (P); mod -> a (g)",
        ),
        (
            {"mod": "mod a; pub use a::A; pub struct P(A);", "a": "pub struct A; impl super::P {} use super::P;"},
            "a cycle: a -> mod (P); mod -> a (A)",
        ),
        (
            {
                "mod": "mod a; mod b;",
                "a": "pub struct A;\nimpl A {\n    fn one(&self) { self.two(); }\n}",
                "b": "use super::a::A;\nimpl A {\n    pub fn two(&self) {}\n}",
            },
            "a cycle: a -> b (two); b -> a (A)",
        ),
    ],
)
def test_planted_cycle_is_found(root: Path, small: Path, files: dict[str, str], found: str) -> None:
    """A cycle is found if it is direct, through re-exports, with a parent, or through methods."""
    plant(small, files)

    assert check(root, small) == (1, f"crates/fetchmill-server/src/planted: {found}\n")


@pytest.mark.parametrize(
    "files",
    [
        {"mod": HANDS_ON, "a": "pub struct A;", "b": "use super::A; pub struct B;"},
        {"mod": "mod a; pub struct P;", "a": "use super::P;"},
        {"mod": "mod a; fn f() { a::g(); }", "a": "pub fn g() {}"},
        {
            "mod": "mod a; mod b;",
            "a": "use super::b::B;",
            "b": "struct B;\n#[cfg(test)]\nmod tests { use super::super::a::A; }",
        },
    ],
)
def test_harmless_references_are_not_cycles(root: Path, small: Path, files: dict[str, str]) -> None:
    """A parent may re-export its children, use them, or be used by them. Tests may use everything."""
    plant(small, files)

    assert check(root, small) == (0, "layers kept\n")


def plant(small: Path, files: dict[str, str]) -> None:
    """Creates modules in a separate folder."""
    folder = small / "crates/fetchmill-server/src/planted"
    folder.mkdir(parents=True)
    for name, code in files.items():
        (folder / f"{name}.rs").write_text(code)


def test_outdated_layer_diagram_is_found_and_redrawn(root: Path, copy: Path) -> None:
    """A diagram that does not match the code is reported, and can be redrawn."""
    page = copy / "docs/internals/architecture.md"
    drawn = page.read_text()
    page.write_text(drawn.replace("    planner --> ", "    planner --> name\n    planner --> "))

    assert "run scripts/check-layers --picture" in check(root, copy)[1]
    subprocess.run([sys.executable, root / "scripts/check-layers", "--picture", copy], check=True, capture_output=True)
    assert page.read_text() == drawn


def test_module_table_must_match_modules(root: Path, copy: Path) -> None:
    """A module missing from the table, and a row without a module, are reported."""
    page = copy / "docs/internals/architecture.md"
    page.write_text(page.read_text().replace("| `cookies` |", "| `biscuits` |"))

    said = check(root, copy)[1]

    assert "the table of fetchmill-model: biscuits is not a module of it" in said
    assert "the table of fetchmill-model: cookies is missing" in said


def test_planted_crate_dependency_is_found(root: Path, copy: Path) -> None:
    """A planted dependency is found in every crate that depends on it indirectly."""
    lock = copy / "Cargo.lock"
    lock.write_text(
        lock.read_text().replace('name = "memchr"\n', 'name = "memchr"\ndependencies = [\n "pyo3",\n]\n', 1)
    )

    code, said = check(root, copy)

    assert code == 1
    assert "`fetchmill-model` must not depend on `pyo3`" in said
    assert "`fetchmill-server` must not depend on `pyo3`" in said


def test_planted_import_of_native_module_is_found(root: Path, copy: Path) -> None:
    """A planted import of the native module is found, because only the binding may use it."""
    planted = copy / "python/fetchmill/_options/units.py"
    planted.write_text(f"{planted.read_text()}\nfrom fetchmill._native import Job\n")

    assert "units.py" in check(root, copy)[1]
