"""Every example of docs/reference/formats.md runs against a destination of its format."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import COMMAND, ROOT
from fetchmill.testing import serve
from stored import FORMATS

pytestmark = pytest.mark.of_files("docs/reference/formats.md")

PAGE = ROOT / "docs" / "reference" / "formats.md"
ANY = "Any format from DuckDB, Polars, pandas and the shell"


def examples(section: str) -> list[str]:
    """Returns the commands below a heading."""
    found = re.search(rf"^### {re.escape(section)}\n(.*?)^##", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert found, section
    return re.findall(r"^    ((?:python|fetchmill|cat|zcat|mkdir|tar|warcio) .*)$", found[1], re.MULTILINE)


def cases() -> list[tuple[str, str]]:
    """Returns the formats and their commands."""
    own = [(name, command) for name in FORMATS if name != "files" for command in examples(f"`{name}`")]
    return own + [(name, command) for name in FORMATS for command in examples(ANY)]


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Creates a destination of each format, called `out`, in separate folders."""
    folder = tmp_path_factory.mktemp("formats")
    with serve(synthetic=40) as server:
        for name in FORMATS:
            command = (*COMMAND, "get", server.url, folder / name / "out", "--format", name, "--quiet")
            subprocess.run(command, check=True, timeout=120)
    return folder


def test_docs_have_examples_for_every_format() -> None:
    """Each format has at least three examples, and four examples fit any format."""
    assert {name: len(examples(f"`{name}`")) >= 3 for name in FORMATS if name != "files"} == dict.fromkeys(
        ("tar", "parquet", "warc", "jsonl"), True
    )
    assert len(examples(ANY)) == 4


@pytest.mark.parametrize(("format", "command"), cases())
def test_docs_example_runs(stored: Path, format: str, command: str) -> None:
    """Each example prints something, and no error."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    ended = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        cwd=stored / format,
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )

    assert ended.returncode == 0, ended.stderr
    assert "Error" not in ended.stderr
    assert ended.stdout or command.startswith(("mkdir", "warcio"))
