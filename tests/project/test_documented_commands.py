"""The command line accepts each fetchmill command on a page."""

import re
import shlex
from pathlib import Path

import click
import pytest

from conftest import ROOT
from fetchmill.cli.main import COMMANDS
from fetchmill.cli.main import command as group
from fetchmill.errors import FetchmillError

PAGES = [ROOT / "README.md", *(ROOT / "docs/guide").rglob("*.md"), *(ROOT / "docs/reference").rglob("*.md")]
# Indented code blocks, and fenced ones with a shell language or none.
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
_SHELLS = ("", "bash", "console", "sh")
_CODE = re.compile(r"`(fetchmill [a-z][^`]*)`")
# A comment follows a command after two spaces, or starts with a hash.
_REMARK = re.compile(r"(?<=\S)\s{2,}(?=[a-z0-9]).*$|\s#\s.*$")
# Files that are read while options are parsed.
FILES = ("fetchmill.toml", "token.txt")
# Ends of a command in a shell line, and separators before a command.
_END = ("|", "&", "&&", ";", "||", ">", ">>", "2>", "<")


def commands(page: Path) -> list[str]:
    """Returns the fetchmill commands in the code blocks of a page; a backslash continues a line."""
    text = page.read_text()
    blocks = [body for language, body in _FENCE.findall(text) if language in _SHELLS]
    blocks += re.findall(r"^    (.*)$", _FENCE.sub("", text), re.MULTILINE)
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    found = (re.search(r"(?:^|[|;&(] |\bKILL \d )(fetchmill .*)", line) for line in lines)
    return [_REMARK.sub("", match[1]) for match in found if match]


def mentions(page: Path) -> list[str]:
    """Returns the commands in the text and tables of a page, which may lack arguments and values."""
    return _CODE.findall(re.sub(r"^    .*$", "", _FENCE.sub("", page.read_text()), flags=re.MULTILINE))


def arguments(line: str) -> list[str]:
    """Returns the arguments after the program, up to the end of the command."""
    words = shlex.split(line, comments=False)[1:]
    ends = [at for at, word in enumerate(words) if word in _END]
    return words[: ends[0]] if ends else words


def refusal(line: str, *, is_mention: bool = False) -> str | None:
    """Returns the error of the command line for a command, or None if it is accepted. Nothing is run.

    Args:
        line: the command.
        is_mention: whether only the names of the command and its options are checked.
    """
    name, *rest = arguments(line)
    if name.startswith("-"):
        return None if name in ("--version", "--help", "-h") else f"no option {name}"
    if name not in COMMANDS:
        return f"no command {name}"
    parent = click.Context(group, info_name="fetchmill")
    found = group.get_command(parent, name)
    assert found is not None
    try:
        with found.make_context(name, rest, parent=parent):
            return None
    except click.exceptions.Exit:
        return None  # help
    except (click.MissingParameter, click.BadParameter, click.BadOptionUsage) as error:
        return None if is_mention else error.format_message()
    except (click.ClickException, FetchmillError) as error:
        return str(error)


def test_commands_in_pages_are_found() -> None:
    """Commands are found in indented blocks, in tables, after a pipe, and across several lines."""
    found = {page.stem: [*commands(page), *mentions(page)] for page in PAGES}

    assert sum(map(len, found.values())) > 280
    assert "fetchmill get http://127.0.0.1:8080 out/ --format parquet" in found["README"]
    assert "fetchmill sync https://example.org/data/ mirror/" in found["wget"]
    assert all(len(found[name]) >= 3 for name in ("wget", "aria2", "s5cmd", "rclone", "img2dataset", "daft"))


@pytest.mark.parametrize("line", ["fetchmill get a b --concurency 3", "fetchmill gett a b", "fetchmill get a"])
def test_wrong_documented_command_is_refused(line: str) -> None:
    """An unknown option, an unknown command, and a missing argument are refused."""
    assert refusal(line) is not None


def test_commands_in_pages_are_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command line's parser accepts the names, options and values of all commands."""
    for name in FILES:
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)
    wrong = []
    for page in PAGES:
        refused = [(line, refusal(line)) for line in commands(page)]
        refused += [(line, refusal(line, is_mention=True)) for line in mentions(page)]
        wrong += [f"{page.relative_to(ROOT)}: {line}: {reason}" for line, reason in refused if reason is not None]

    assert wrong == []
