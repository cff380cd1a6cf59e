"""The examples and the programs of docs/guide/transform.md run unchanged against a local server."""

import io
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from PIL import Image

import fetchmill
from fetchmill.testing import Server

Serve = Callable[..., Server]


def image(width: int, height: int, format: str) -> bytes:
    """Returns an image of one colour."""
    made = io.BytesIO()
    Image.new("RGB", (width, height), (200, 30, 30)).save(made, format)
    return made.getvalue()


def test_resize_example_resizes_images_and_skips_others(server: Serve, served: Path, dest: Path, root: Path) -> None:
    """The example resizes images and skips all other objects."""
    (served / "wide.png").write_bytes(image(800, 200, "PNG"))
    (served / "small.jpg").write_bytes(image(40, 30, "JPEG"))
    (served / "broken.png").write_bytes(image(800, 200, "PNG")[:100])
    (served / "notes.txt").write_text("no image")

    ended = subprocess.run(
        [sys.executable, root / "examples" / "resize_images.py", server(served).url, dest, "100"],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )

    assert (ended.returncode, ended.stdout) == (0, "2 images stored, 2 left out, 0 failed\n"), ended.stderr
    with fetchmill.open(dest) as objects:
        sizes = {name: Image.open(io.BytesIO(body)).size for name, body in objects.items()}
    assert sizes == {"wide.png": (100, 25), "small.jpg": (40, 30)}


def test_transforms_page_program_runs(server: Serve, served: Path, tmp_path: Path, root: Path) -> None:
    """The program on the page runs; only the server's address is replaced."""
    (served / "a.html").write_text("<html><title>A page</title></html>")
    (served / "b.txt").write_text("no page")
    (program,) = re.findall(
        r"^```python\n(.*?)^```", (root / "docs/guide/transform.md").read_text(), re.DOTALL | re.MULTILINE
    )
    (tmp_path / "program.py").write_text(program.replace("http://127.0.0.1:8080", server(served).url))

    subprocess.run([sys.executable, "program.py"], cwd=tmp_path, check=True, timeout=120)

    with fetchmill.open(tmp_path / "titles") as objects:
        assert list(objects) == ["a.html"]
        assert objects.record("a.html").columns == {"title": "A page", "size": "34"}
