"""Checks that no linter has: leftovers, meaningless names, traces of a machine."""

import ast
import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# Written so that this file does not match itself.
LEFTOVERS = re.compile(
    r"\b(?:FIX" + r"ME|XX" + r"X|HA" + r"CK)\b|\bbreakpoint\(\)|\bdbg!\(|^(?:<{7}|>{7}) ", re.MULTILINE
)
MACHINE = re.compile(r"(?<![\w.])/(?:ro" + r"ot|wo" + r"rk|ho" + r"me/\w+)/")
EMPTY_NAMES = {"utils", "util", "helpers", "helper", "common", "misc", "manager", "stuff"}
FUNCTION_LINES_MAX = 60
TEXT = {".py", ".pyi", ".rs", ".md", ".toml", ".txt", ".sh", ".yml", ".json", ""}


@cache
def project_files() -> tuple[Path, ...]:
    """Returns files that are in the repository, or about to be added."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    found = (ROOT / line for line in listed.stdout.splitlines())
    return tuple(path for path in found if path.is_file() and path.suffix in TEXT)


def offences(pattern: re.Pattern[str]) -> list[str]:
    """Returns the places where a pattern matches."""
    found = []
    for path in project_files():
        text = path.read_text(errors="replace")
        found += [f"{path.relative_to(ROOT)}: {match[0]!r}" for match in pattern.finditer(text)]
    return found


def test_files_have_no_leftovers_of_development() -> None:
    """No file has notes for later, debugging aids, or conflict markers."""
    assert offences(LEFTOVERS) == []


def test_files_mention_no_machine_paths() -> None:
    """No file has a path of the author's machine."""
    assert offences(MACHINE) == []


def test_file_names_are_meaningful() -> None:
    """No file has a meaningless name."""
    assert [path for path in project_files() if path.stem in EMPTY_NAMES] == []


@pytest.mark.sampled(1)
@pytest.mark.parametrize("suffix", [".py", ".rs"])
def test_every_file_has_docstring(suffix: str) -> None:
    """Every file has a docstring, or `//!` at its top."""
    silent = []
    for path in project_files():
        if path.suffix == suffix:
            text = path.read_text()
            said = ast.get_docstring(ast.parse(text)) if suffix == ".py" else text.startswith(("//!", "#![cfg"))
            if not said:
                silent.append(str(path.relative_to(ROOT)))

    assert silent == []


def test_functions_fit_on_screen() -> None:
    """Functions have at most as many lines as fit on a screen. Docstrings do not count, because they are not logic."""
    long = []
    for path in project_files():
        if path.suffix == ".py" and ROOT / "tests" not in path.parents:
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    first = node.body[1 if len(node.body) > 1 and ast.get_docstring(node) else 0].lineno
                    if (node.end_lineno or first) - first >= FUNCTION_LINES_MAX:
                        long.append(f"{path.relative_to(ROOT)}: {node.name}")

    assert long == []


def test_class_names_are_unique() -> None:
    """Class names are unique, even private ones. The stub of the native module repeats some that the package wraps."""
    found: dict[str, list[str]] = {}
    for path in project_files():
        # Each module of `own_bench` is a separate program that is not installed.
        is_installed = path.relative_to(ROOT).parts[0] in ("packages", "python") and "own_bench" not in path.parts
        if path.suffix == ".py" and is_installed:
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.ClassDef):
                    found.setdefault(node.name.lstrip("_"), []).append(str(path.relative_to(ROOT)))

    assert found
    assert {name: paths for name, paths in found.items() if len(paths) > 1} == {}


def test_scripts_are_executable() -> None:
    """Scripts without a suffix are executable."""
    scripts = [path for path in project_files() if path.parent == ROOT / "scripts" and not path.suffix]

    assert scripts
    assert [path.name for path in scripts if not path.stat().st_mode & 0o100] == []
