"""`fetchmill help`: documentation pages from the package."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]


def test_help_lists_every_page_of_the_guide_and_the_reference(run: Run, root: Path) -> None:
    """Each page has its title; a new page needs a link in `python/fetchmill/_docs`."""
    shown = run("help")

    assert (shown.code, shown.err) == (0, "")
    listed = dict(line.split(maxsplit=1) for line in shown.out.split("\n\n")[0].splitlines())
    pages = [*(root / "docs/guide").rglob("*.md"), *(root / "docs/reference").rglob("*.md")]
    assert sorted(listed) == sorted(page.stem for page in pages)
    assert listed["exit-codes"] == "Exit codes"
    links = root / "python/fetchmill/_docs"
    assert sorted(link.resolve() for link in links.iterdir()) == sorted(page.resolve() for page in pages)


def test_help_shows_a_page_unchanged_when_it_is_no_terminal(run: Run, root: Path) -> None:
    """A page is printed unchanged if the output is not a terminal, so that it can be searched."""
    shown = run("help", "stopping")

    assert (shown.code, shown.err) == (0, "")
    assert shown.out == (root / "docs/guide/stopping.md").read_text()


def test_help_of_a_command_is_its_options(run: Run) -> None:
    """`help COMMAND` shows the options unless a page has the command's name."""
    assert run("help", "join").out == run("join", "--help").out
    assert run("help", "check").out.startswith("# Checking")


@pytest.mark.parametrize(
    ("topic", "hint"),
    [("listingz", "did you mean `fetchmill help listings`?"), ("qqqqq", "list the topics: fetchmill help")],
)
def test_an_unknown_topic_suggests(run: Run, topic: str, hint: str) -> None:
    """The error names the closest topic, or else lists all topics."""
    refused = run("help", topic)

    assert (refused.code, refused.out) == (2, "")
    assert refused.err == f"fetchmill: error: {topic} is not a help topic\nhint: {hint}\n"


def test_every_topic_that_help_names_exists(root: Path) -> None:
    """The help texts of all commands name only existing topics."""
    topics = {page.stem for page in (root / "python/fetchmill/_docs").iterdir()}
    texts = [re.sub(r"\s+", " ", page.read_text()) for page in (root / "tests/cli/help").glob("*.txt")]
    named = {name for text in texts for name in re.findall(r"`fetchmill help ([a-z0-9-]+)`", text)}

    assert len(named) > 5
    assert named <= topics
    assert [text for text in texts if "docs/" in text] == []
