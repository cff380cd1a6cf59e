"""The wheel: built once, installed where there is no compiler, used."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fetchmill.testing import Server


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_wheel_works_without_a_compiler(
    root: Path, tmp_path: Path, server: Callable[..., Server], tree: Callable[..., Any]
) -> None:
    """`make wheel`, a clean environment, and a job."""
    shutil.rmtree(root / "dist", ignore_errors=True)
    subprocess.run(["make", "--silent", "wheel"], cwd=root, check=True)
    (wheel,) = (root / "dist").glob("*.whl")
    binaries = tmp_path / "environment/bin"
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "environment"], check=True)
    # The interpreter's own folder, without cargo, cc and the like.
    bare = {"PATH": str(binaries), "HOME": str(tmp_path)}
    pip = {
        name: value for name, value in os.environ.items() if name.lower().startswith(("pip_", "http", "ssl_", "no_"))
    }
    subprocess.run(
        [binaries / "python", "-m", "pip", "install", "--quiet", "--only-binary", ":all:", wheel],
        env=bare | pip,
        check=True,
    )

    source = server(synthetic=100)
    ended = subprocess.run(
        [binaries / "fetchmill", "get", source.url, tmp_path / "out"],
        cwd=tmp_path,
        env=bare,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert "abi3" in wheel.name
    assert (ended.returncode, ended.stdout) == (0, ""), ended.stderr
    assert len(tree(tmp_path / "out")) == 100
