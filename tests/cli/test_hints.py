"""All texts of `hint:` lines in one file, so that a new or a changed hint is read by a person."""

from pathlib import Path

import pytest

from hints import HintFinder

SNAPSHOT = Path(__file__).parent / "hints.txt"


def test_committed_file_contains_all_hints(root: Path, request: pytest.FixtureRequest) -> None:
    """After a change, run `make help-texts`, review the difference and commit it."""
    found = "".join(f"{line}\n" for line in HintFinder(root / "python/fetchmill").lines())
    if request.config.getoption("--update-help"):
        SNAPSHOT.write_text(found)

    assert found == SNAPSHOT.read_text(), "run `make help-texts`, read the difference of tests/cli/hints.txt, commit it"


def test_only_command_line_writes_hints(root: Path) -> None:
    """Errors of the native module have no hints, so the committed file is complete."""
    sources = [path for path in (root / "crates").rglob("*.rs") if "target" not in path.parts]
    writers = [path for path in (root / "python/fetchmill").rglob("*.py") if '"hint: ' in path.read_text()]

    assert len(sources) > 100
    assert [path for path in sources if '"hint' in path.read_text()] == []
    assert {path.parent.name for path in writers} == {"cli"}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("raise Error('x', hint='a' if y else 'b')", ["m.py: a", "m.py: b"]),
        ("error.hint = f'add {name.x}' + more()", ["m.py: add {name.x}{...}"]),
        ("def f(x):\n    return 0, g(x)\ndef g(x):\n    return 'two'\n_, y = f(1)\nsay(f'hint: {y}')", ["m.py: two"]),
        (
            "T = {**dict.fromkeys('ab', P), 'c': ('x', 'own')}\nP = ('y', 'pair')\nctx.meta[HINT] = T[k][1]",
            ["m.py: own", "m.py: pair"],
        ),
        ("error.hint = made.elsewhere()", None),
    ],
)
def test_hint_finder_resolves_hint_text(source: str, expected: list[str] | None, tmp_path: Path) -> None:
    """A form that cannot be followed is an error instead of a missing line."""
    (tmp_path / "m.py").write_text(source)
    finder = HintFinder(tmp_path)

    if expected is None:
        with pytest.raises(ValueError, match=r"m\.py"):
            finder.lines()
    else:
        assert finder.lines() == expected
