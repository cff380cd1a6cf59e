"""The options table and the keywords for type checkers agree with their source and with the core."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = "python/options.toml"
FOLDER = "python/fetchmill/_options"


def make(root: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Runs the generator."""
    command = [sys.executable, root / "scripts/make-options", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def copy(root: Path, tmp_path: Path) -> Path:
    """Creates a folder with the source, but without generated files."""
    (tmp_path / FOLDER).mkdir(parents=True)
    (tmp_path / SOURCE).write_text((root / SOURCE).read_text())
    return tmp_path


def test_generated_files_are_up_to_date(root: Path) -> None:
    """The generated files match their source; `make generated` writes them."""
    checked = make(root, "--check")

    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


def test_check_mode_writes_nothing(root: Path, copy: Path) -> None:
    """`--check` shows the differences and writes nothing. Without it, the same files are written."""
    checked = make(root, "--check", copy)
    assert (checked.returncode, checked.stderr) == (1, "not up to date: run `make generated`\n")
    assert list((copy / FOLDER).iterdir()) == []

    assert make(root, copy).returncode == 0
    for name in ("table.py", "keywords.py"):
        assert (copy / FOLDER / name).read_text() == (root / FOLDER / name).read_text()


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("[Storing.cdxj]", "[Storing.cdxi]", "cdxi: the core has no such option in classes.get; is it only_python?"),
        ("only_python = true\ndefault = 10.0", "", "probe_seconds: the core has no such option"),
        ('kind = "whole"', 'kind = "bytes"', "redirects: the core has Option<u32>, which is not a bytes of int | None"),
        ('type = "CsvHeader"', 'type = "Listing"', "csv_header: the core has CsvHeader"),
        ('kind = "rate"', 'kind = "bandwidth"', "rate_per_host: the core has the unit 'requests a second'"),
        (
            'kind = "whole"\ntype',
            'kind = "count"\ntype',
            "redirects: the core allows 0.0 and more, a count is at least",
        ),
        ('type = "bool"\nhelp', 'type = "bool"\nonly_python = true\nhelp', "keep_failed: the core has this option"),
        ('"OfRuns", ', "", "OfRuns: must be a group, and in a class"),
        (
            'help = "Maximum requests per second',
            'text = "Maximum requests per second',
            "OfRates.rate: unknown key text",
        ),
        ('alias_of = "concurrency"', 'alias_of = "rates"', "limit: alias_of must be an option, not rates"),
        ('["power", "process"]', '["process"]', "durability: type must be a list of words with 'power' in it"),
    ],
)
def test_options_source_unlike_core_is_refused(root: Path, copy: Path, before: str, after: str, message: str) -> None:
    """The error names the option, and nothing is written."""
    text = (copy / SOURCE).read_text()
    assert before in text
    (copy / SOURCE).write_text(text.replace(before, after))

    made = make(root, copy)

    assert (made.returncode, made.stdout) == (2, "")
    assert re.fullmatch(rf"{re.escape(SOURCE)}: [^\n]+\n", made.stderr)
    assert message in made.stderr
    assert list((copy / FOLDER).iterdir()) == []


def test_core_option_without_row_is_refused(root: Path, copy: Path) -> None:
    """An option of the core without a row in the source could not be used, so it is refused."""
    text = (copy / SOURCE).read_text()
    (copy / SOURCE).write_text(re.sub(r"\[Storing\.cdxj\][^[]*", "", text))

    assert "the core has an option cdxj, which no class has" in make(root, copy).stderr
