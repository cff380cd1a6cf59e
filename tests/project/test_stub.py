"""The stub of the native module has the module's names, signatures and docstrings."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

STUB = "python/fetchmill/_native.pyi"


def make(root: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Runs the generator."""
    command = [sys.executable, root / "scripts/make-stub", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.of_files(STUB, "crates/fetchmill-python/src")
def test_stub_has_names_and_signatures_of_module(root: Path, tmp_path: Path) -> None:
    """Names and signatures agree. Types are not compared, because the module has none."""
    (tmp_path / "allowed").write_text("fetchmill._native.__all__\n")  # private: nobody imports all of its names
    checked = subprocess.run(
        [
            *(sys.executable, "-m", "mypy.stubtest", "fetchmill._native", "--concise"),
            *("--mypy-config-file", "pyproject.toml", "--allowlist", tmp_path / "allowed"),
        ],
        cwd=root,
        env=os.environ | {"MYPYPATH": "python"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (checked.returncode, checked.stderr) == (0, ""), checked.stdout


def test_stub_has_docstrings_of_module(root: Path) -> None:
    """The stub has the docstrings of the module; `make generated` writes them."""
    checked = make(root, "--check")

    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


def test_stub_docstrings_are_regenerated(root: Path, tmp_path: Path) -> None:
    """Missing and wrong docstrings are replaced; `--check` only shows them."""
    true, stub = (root / STUB).read_text(), tmp_path / "_native.pyi"
    other = true.replace('"""Ends the job with this error, after a checkpoint."""', "...")
    other = other.replace('"""A target that was handed out."""', '"""A target\n\n    of another text.\n    """')
    other = other.replace('    """Times of a request in seconds."""\n\n', "")
    assert other.count("\n") == true.count("\n") + 1
    stub.write_text(other)

    checked = make(root, "--check", stub)
    assert (checked.returncode, checked.stderr) == (1, "not up to date: run `make generated`\n")
    assert '+    """A target that was handed out."""' in checked.stdout
    assert stub.read_text() == other

    assert make(root, stub).returncode == 0
    assert stub.read_text() == true


def test_native_name_without_comment_is_refused(root: Path, tmp_path: Path) -> None:
    """A name without a comment in Rust is refused, because it would have no docstring anywhere."""
    stub = tmp_path / "_native.pyi"
    stub.write_text((root / STUB).read_text() + "\ndef vanished() -> None: ...\n")

    refused = make(root, stub)

    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr == "vanished: no comment in Rust\n"
