"""The manual pages of `make man`."""

import subprocess
import sys
from pathlib import Path

import click

from fetchmill.cli.main import COMMANDS
from fetchmill.cli.main import command as group


def test_manual_pages_contain_all_options(root: Path, tmp_path: Path) -> None:
    """The manual page of each command has all of its options."""
    subprocess.run([sys.executable, root / "scripts/make-man", tmp_path], check=True)

    expected = {"fetchmill.1", *(f"fetchmill-{name}.1" for name in COMMANDS)}
    assert {page.name for page in tmp_path.iterdir()} == expected
    for page in tmp_path.iterdir():
        name = page.stem.partition("-")[2]
        found = group.get_command(click.Context(group), name) if name else None
        options = [each for each in found.params if isinstance(each, click.Option) and not each.hidden] if found else []
        assert [each.name for each in options if each.opts[-1].replace("-", "\\-") not in page.read_text()] == []
