"""The wheels are built once, installed without a compiler, and used."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fetchmill.testing import Server

pytestmark = pytest.mark.of_files("pyproject.toml", "packages/fetchmill-bench/pyproject.toml")


# A release build takes 15 minutes, and longer while other tests run.
@pytest.mark.timeout(3600)
def test_wheels_work_without_compiler(
    root: Path, tmp_path: Path, server: Callable[..., Server], tree: Callable[..., Any]
) -> None:
    """The wheels run a job in a clean environment. `bench` says how to install it, and works once it is installed."""
    profile = "release" if "FETCHMILL_REAL_COMMANDS" in os.environ else "dev"
    subprocess.run(
        ["make", "--silent", "wheel", f"WHEEL_PROFILE={profile}", f"DIST={tmp_path / 'dist'}"], cwd=root, check=True
    )
    own, bench = sorted((tmp_path / "dist").glob("*.whl"))
    assert "abi3" in own.name
    binaries = tmp_path / "environment/bin"
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "environment"], check=True)
    # The folder of the interpreter only, without cargo, cc and other tools.
    bare = {"PATH": str(binaries), "HOME": str(tmp_path)}
    pip = {
        name: value for name, value in os.environ.items() if name.lower().startswith(("pip_", "http", "ssl_", "no_"))
    }

    def install(*what: str | Path) -> None:
        command = [binaries / "python", "-m", "pip", "install", "--quiet", "--only-binary", ":all:", *what]
        subprocess.run(command, env=bare | pip, check=True)

    def fetchmill(*arguments: str | Path) -> tuple[int, str, str]:
        command = [binaries / "fetchmill", *arguments]
        ended = subprocess.run(
            command, cwd=tmp_path, env=bare, capture_output=True, text=True, timeout=120, check=False
        )
        return ended.returncode, ended.stdout, ended.stderr

    install(own)
    assert fetchmill("get", server(synthetic=100).url, tmp_path / "out")[:2] == (0, "")
    assert len(tree(tmp_path / "out")) == 100
    code, out, told = fetchmill("bench", "slow", "--count", "10")
    assert (code, out, told.count("\n")) == (2, "", 1)
    assert "fetchmill: error: bench is a separate package, which is not installed; pip install" in told
    listed = fetchmill("--help")[1]
    assert re.search(r"bench +Compare ways to make requests on this machine\.", listed)
    assert fetchmill("help", "exit-codes")[:2] == (0, (root / "docs/reference/exit-codes.md").read_text())

    # The libraries that the bench compares are not installed: they are many, and the `native` engine needs none.
    install("--no-deps", bench)
    code, out, told = fetchmill("bench", "--only", "native,a_sync", "--count", "1000", "--seconds", "5")
    assert code == 0, told
    assert "native" in out
    assert "requests is missing: pip install requests" in out
    assert fetchmill("--help")[1] == listed
