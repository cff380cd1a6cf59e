"""Links between pages are valid, and paths mentioned in pages and comments exist."""

import re
import subprocess
from pathlib import Path

import pytest

from conftest import ROOT

LINK = re.compile(r"\]\(([^)\s]+)\)")
# Paths in these folders are written in full.
PATH = re.compile(r"(?<![\w/.<{-])((?:docs|tests|scripts|packages|crates)/[\w./-]+\.(?:md|py|rs|json|svg|toml))\b")
# These describe the past, or plant files that do not exist.
IGNORED = ("CHANGELOG.md", "tests/project/")


def _files(*suffixes: str) -> list[Path]:
    """Returns files under version control with one of these suffixes."""
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], capture_output=True, text=True, check=True).stdout
    found = (ROOT / name for name in listed.split("\0") if name)
    return [path for path in found if path.suffix in suffixes and path.is_file() and not path.is_symlink()]


def _anchors(page: Path) -> set[str]:
    """Returns the fragments of a page's headings, as GitHub creates them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    found: set[str] = set()
    for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        anchor = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        same = sum(each == anchor or re.fullmatch(rf"{re.escape(anchor)}-\d+", each) is not None for each in found)
        found.add(f"{anchor}-{same}" if same else anchor)
    return found


def _broken(page: Path) -> list[str]:
    """Returns broken links of a page."""
    broken = []
    for link in LINK.findall(re.sub(r"^```.*?^```|`[^`\n]*`", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)):
        path, _, fragment = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if re.match(r"[a-z]+:", link):
            continue
        if not target.exists() or (fragment and target.suffix == ".md" and fragment not in _anchors(target)):
            broken.append(f"{page.relative_to(ROOT)}: {link}")
    return broken


def test_every_link_leads_to_page_and_heading() -> None:
    """Each link leads to an existing page and heading."""
    pages = _files(".md")

    assert len(pages) > 80
    assert [link for page in pages for link in _broken(page)] == []


@pytest.mark.parametrize("suffix", [".md", ".rs", ".py", ""])
def test_every_mentioned_path_exists(suffix: str) -> None:
    """Paths in pages, comments and scripts exist."""
    wrong = []
    for path in _files(suffix):
        name = path.relative_to(ROOT).as_posix()
        if name.startswith(IGNORED):
            continue
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        wrong += [f"{name}: {found}" for found in PATH.findall(text) if not (ROOT / found).exists()]

    assert wrong == []
