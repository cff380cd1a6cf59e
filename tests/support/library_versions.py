"""Other versions of the libraries of the Python engines, each in its own folder below build/."""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from fetchmill.engines.http.libraries import AIOHTTP, REQUESTS, URLLIB3

LIBRARIES = (AIOHTTP, REQUESTS, URLLIB3)
FOLDER = Path(__file__).resolve().parents[2] / "build/libraries"
# The tests' environment has the newest tested version: `test_engine_libraries.py` checks this.
FLOOR = tuple(f"{library.name}=={library.floor}" for library in LIBRARIES)
# Versions below the range.
OLDER = ("aiohttp==3.13.5", "requests==2.32.5", "urllib3==2.6.3")


def installed(requirements: tuple[str, ...]) -> Path:
    """Returns the folder with these libraries and their dependencies for PYTHONPATH. It is created once."""
    folder = FOLDER / "-".join(each.replace("==", "-") for each in requirements)
    if not folder.exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(dir=FOLDER))
        uv = Path(sys.executable).with_name("uv")
        options = ("--quiet", "--python", sys.executable, "--target", made)
        subprocess.run([uv, "pip", "install", *options, *requirements], check=True, timeout=200)
        # Another test may have been faster.
        with contextlib.suppress(OSError):
            os.rename(made, folder)
        shutil.rmtree(made, ignore_errors=True)
    return folder
