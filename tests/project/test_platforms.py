"""Errors on platforms where fetchmill cannot run, and the contents of its packages."""

import os
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path

import pytest

from fetchmill._platform import explain
from project_scripts import load_script


@pytest.fixture
def without_native(root: Path, tmp_path: Path) -> Path:
    """Creates a folder with the package but without its native module, as on another platform."""
    package = tmp_path / "fetchmill"
    package.mkdir()
    for path in (root / "python/fetchmill").iterdir():
        if not path.name.startswith("_native.") or path.suffix == ".pyi":
            (package / path.name).symlink_to(path)
    return tmp_path


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs this Python with the package in a folder instead of the installed one."""
    command = [sys.executable, "-P", *arguments]
    return subprocess.run(
        command, env=os.environ | {"PYTHONPATH": str(folder)}, capture_output=True, text=True, check=False
    )


def test_missing_native_module_gets_one_line_error(without_native: Path) -> None:
    """The command line prints a one-line error with the loader's reason."""
    ended = run(without_native, "-m", "fetchmill", "--version")

    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.startswith("fetchmill: error: cannot load fetchmill's native module on this machine (")
    assert ended.stderr.endswith("or build fetchmill here (fetchmill help platforms)\n")
    assert ended.stderr.count("\n") == 1


def test_missing_native_module_raises_import_error(without_native: Path) -> None:
    """In Python, importing the package raises an ImportError."""
    ended = run(without_native, "-c", "import fetchmill; fetchmill.get")

    assert ended.returncode == 1
    assert "ImportError: cannot load fetchmill's native module" in ended.stderr


@pytest.mark.parametrize(("system", "name"), [("darwin", "Darwin"), ("win32", "Windows")])
def test_unsupported_system_error_names_solution(monkeypatch: pytest.MonkeyPatch, system: str, name: str) -> None:
    """The error names the system, and what to use there."""
    monkeypatch.setattr("sys.platform", system)
    monkeypatch.setattr("platform.system", lambda: name)

    error = explain(ImportError("no such file", name="fetchmill._native"))

    assert str(error) == f"fetchmill runs on Linux only, not on {name}; use a container, or WSL on Windows"


def test_other_import_errors_are_unchanged() -> None:
    """Other import errors, such as a missing dependency, are not changed."""
    error = ImportError("No module named 'click'", name="click")

    assert explain(error) is error


def test_installing_on_unknown_platform_is_refused(root: Path) -> None:
    """The error comes before anything is installed."""
    ended = subprocess.run(
        [sys.executable, root / "scripts/build-wheels", "sparc"], capture_output=True, text=True, check=False
    )

    assert ended.returncode == 2
    assert "unknown platform: sparc; there are x86_64, aarch64, musl" in ended.stderr


def test_notices_have_text_for_each_crate(root: Path) -> None:
    """Each crate that the native module links has a licence text. Crates without a licence file are named."""
    script = load_script("make-notices")
    crates = script.linked_crates()

    written = script.notices(crates)

    assert {"rustls", "aws-lc-sys", "parquet", "pyo3"} <= {crate["name"] for crate in crates}
    assert not any(crate["name"].startswith("fetchmill") for crate in crates)
    for crate in crates:
        assert f"  {crate['name']} {crate['version']} ({crate['license']})\n" in written
    assert "Permission is hereby granted, free of charge" in written
    assert (root / "THIRD-PARTY-NOTICES").read_text() == written


def test_source_distribution_is_complete(root: Path, tmp_path: Path) -> None:
    """The archive has each crate and module, with files in place of symlinks. Cargo resolves with the lock file."""
    subprocess.run(["make", "--silent", "sdist", f"DIST={tmp_path}", "ENV="], cwd=root, capture_output=True, check=True)
    (archive,) = tmp_path.glob("fetchmill-*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path, filter="data")
    unpacked = archive.with_name(archive.name.removesuffix(".tar.gz"))

    workspace = tomllib.loads((unpacked / "Cargo.toml").read_text())
    for member in workspace["workspace"]["members"]:
        assert (unpacked / member / "Cargo.toml").is_file(), member
    for file in ("LICENSE", "THIRD-PARTY-NOTICES", "python/fetchmill/py.typed", "python/fetchmill/_docs/platforms.md"):
        assert (unpacked / file).is_file(), file
    subprocess.run(
        ["cargo", "metadata", "--offline", "--locked", "--format-version", "1", "--no-deps"],
        cwd=unpacked,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    modules = {path.relative_to(root) for path in (root / "python/fetchmill").rglob("*.py")}
    assert not [path for path in modules if not (unpacked / path).is_file()]
