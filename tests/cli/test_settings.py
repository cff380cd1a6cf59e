"""`--set NAME=VALUE`: options that only experts change."""

from collections.abc import Callable
from pathlib import Path

import pytest

import fetchmill
from conftest import Ended
from fetchmill.testing import Server

Run = Callable[..., Ended]


@pytest.mark.parametrize(
    "written", [("--set", "durability=process"), ("--set=durability=process",), ("--durability", "process")]
)
def test_set_option_has_effect_in_each_spelling(
    written: tuple[str, ...], server: Callable[..., Server], run: Run, dest: Path
) -> None:
    """All spellings have the same effect, and the value is checked in the same way."""
    source = server(synthetic=5).url

    assert run("get", source, dest, *written, "--set", "commit-window=200ms").code == 0

    assert fetchmill.status(dest).fetched == 5
    wrong = run("get", source, dest.parent / "other", *(each.replace("process", "p") for each in written))
    assert (wrong.code, "'p' is not one of 'power', 'process'" in wrong.err) == (2, True), wrong.err


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("durabilty=process", "--set durabilty: no such setting; choose seal-after or commit-window"),
        ("threads=2", "--set threads: no such setting"),
        ("durability", "--set durability: write --set NAME=VALUE"),
        ("", "write --set NAME=VALUE"),
    ],
)
def test_wrong_setting_is_refused(written: str, message: str, run: Run, dest: Path) -> None:
    """The error lists the settings."""
    ended = run("get", "http://127.0.0.1:9", dest, "--set", written)

    assert (ended.code, message in ended.err) == (2, True), ended.err


def test_help_lists_settings_instead_of_their_options(run: Run) -> None:
    """The options are accepted, but help does not show them."""
    text = run("get", "--help").out

    assert "--set NAME=VALUE" in text
    assert "--commit-window" not in text
    assert "commit-window: " in text
