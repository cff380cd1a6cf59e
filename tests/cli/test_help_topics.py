"""`fetchmill help`: documentation pages from the package."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]


def test_help_lists_all_guide_and_reference_pages(run: Run, root: Path) -> None:
    """Each page has its title; a new page needs a link in `python/fetchmill/_docs`."""
    shown = run("help")

    assert (shown.code, shown.err) == (0, "")
    listed = dict(line.split(maxsplit=1) for line in shown.out.split("\n\n")[0].splitlines())
    pages = [*(root / "docs/guide").rglob("*.md"), *(root / "docs/reference").rglob("*.md")]
    assert sorted(listed) == sorted(page.stem for page in pages)
    assert listed["exit-codes"] == "Exit codes"
    links = root / "python/fetchmill/_docs"
    assert sorted(link.resolve() for link in links.iterdir()) == sorted(page.resolve() for page in pages)


def test_help_prints_page_unchanged_when_piped(run: Run, root: Path) -> None:
    """Programs such as grep can search the Markdown text."""
    shown = run("help", "stopping")

    assert (shown.code, shown.err) == (0, "")
    assert shown.out == (root / "docs/guide/stopping.md").read_text()


def test_help_of_command_shows_its_options(run: Run) -> None:
    """If a page has the command's name, `help` shows the page instead."""
    assert run("help", "join").out == run("join", "--help").out
    assert run("help", "check").out.startswith("# Checking")


@pytest.mark.parametrize(
    ("topic", "hint"),
    [("listingz", "did you mean `fetchmill help listings`?"), ("qqqqq", "list the topics: fetchmill help")],
)
def test_unknown_help_topic_suggests_closest_topic(run: Run, topic: str, hint: str) -> None:
    """Without a close topic, the error says how to list all topics."""
    refused = run("help", topic)

    assert (refused.code, refused.out) == (2, "")
    assert refused.err == f"fetchmill: error: {topic} is not a help topic\nhint: {hint}\n"


def test_topics_named_in_help_exist(root: Path) -> None:
    """The help texts of all commands are searched for topics."""
    topics = {page.stem for page in (root / "python/fetchmill/_docs").iterdir()}
    texts = [re.sub(r"\s+", " ", page.read_text()) for page in (root / "tests/cli/help").glob("*.txt")]
    named = {name for text in texts for name in re.findall(r"`fetchmill help ([a-z0-9-]+)`", text)}

    assert len(named) > 5
    assert named <= topics
    assert [text for text in texts if "docs/" in text] == []
