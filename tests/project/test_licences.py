"""All dependencies have allowed licences, and a forbidden one would be reported."""

import json
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

from project_scripts import load_script

ALLOWED = {"MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception"}


@pytest.fixture(scope="module")
def script() -> ModuleType:
    """Returns `scripts/check-licences` as a module."""
    return load_script("check-licences")


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("MIT", True),
        ("MIT OR GPL-3.0-only", True),
        ("GPL-3.0-only/MIT", True),
        ("MIT AND GPL-3.0-only", False),
        ("(MIT OR GPL-3.0-only) AND Apache-2.0", True),
        ("MIT AND (GPL-3.0-only OR AGPL-3.0-only)", False),
        ("Apache-2.0 WITH LLVM-exception", True),
        ("Apache-2.0 WITH Other-exception", False),
        ("GPL-3.0-only", False),
        ("(MIT", False),
        ("", False),
    ],
)
def test_spdx_expressions_are_evaluated(script: ModuleType, expression: str, expected: bool) -> None:
    """Licence expressions are evaluated as SPDX defines them."""
    assert script.is_allowed(expression, ALLOWED) is expected


def test_all_dependencies_have_allowed_licences(root: Path) -> None:
    """The licences of all crates in the lock file, and of the installed distributions, are allowed."""
    ended = subprocess.run(
        [sys.executable, root / "scripts/check-licences"], capture_output=True, text=True, timeout=120, check=False
    )
    assert (ended.returncode, ended.stdout) == (0, "")


def test_forbidden_licence_is_reported_with_its_dependency(script: ModuleType) -> None:
    """Without MIT among the allowed licences, each error names its dependency."""
    found = script.crates({"Apache-2.0"}) + script.packages({"Apache-2.0"})

    assert any(line.startswith("crate tokio ") and line.endswith(": MIT") for line in found)
    assert any(line.startswith("package rich ") for line in found)


def test_vendored_copies_are_allowed_and_unchanged(script: ModuleType, root: Path, tmp_path: Path) -> None:
    """Vendored copies must have an allowed licence and be identical to their origin."""
    (origin,) = (root / "python").rglob("origin.json")
    shutil.copytree(origin.parent, tmp_path / "copy")
    assert script.copies(root / "python", ALLOWED) == script.copies(tmp_path, ALLOWED) == []

    (tmp_path / "copy/uPlot.min.css").write_text("")
    assert script.copies(tmp_path, {"Apache-2.0"}) == [
        "copy of uplot 1.6.32: MIT",
        "copy of uplot 1.6.32: uPlot.min.css is not what its origin.json says",
    ]


def test_cargo_deny_rules_are_complete(root: Path) -> None:
    """The rules of cargo-deny, which is not run here, have the required lists. All crates come from one registry."""
    rules = tomllib.loads((root / "deny.toml").read_text())
    assert set(rules) == {"graph", "advisories", "licenses", "bans", "sources"}
    command = ["cargo", "metadata", "--offline", "--locked", "--format-version", "1"]
    metadata = json.loads(subprocess.run(command, cwd=root, check=True, capture_output=True).stdout)
    names = {package["name"] for package in metadata["packages"]}
    sources = {package["source"] for package in metadata["packages"]} - {None}

    assert not names & {rule["name"] for rule in rules["bans"]["deny"]}
    assert sources == {f"registry+{url}" for url in rules["sources"]["allow-registry"]}
