"""Links of pages that lead out of docs/, which the site has to have as well."""

import posixpath
import re
from pathlib import Path

# Where pages of the project are in the site; others have the place that they have in docs/.
_PAGES = {
    "README.md": "index.md",
    "docs": "index.md",
    "docs/README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "docs/guide/notebook.ipynb": "guide/notebook.md",
    "docs/internals/decisions": "internals/decisions/index.md",
}
_LINK = re.compile(r"(\]\()([^)\s]+)(?=\))")
# Code has no links: fenced, or between backticks.
_CODE = re.compile(r"(^```.*?^```|`[^`\n]*`)", re.DOTALL | re.MULTILINE)


def moved(markdown: str, source: str, page: str, root: Path) -> str:
    """A text with links for its place in the site.

    Args:
        markdown: the text.
        source: the file that it comes from, in the project.
        page: the page that it becomes, in the site.
        root: the folder of the project.
    """

    def move(found: re.Match[str]) -> str:
        path, hash, fragment = found[2].partition("#")
        if not path or ":" in path:
            return found[0]
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        if not (root / target).exists():
            return found[0]  # the strict build names it
        return f"{found[1]}{_relative(_place(target), page)}{hash}{fragment}"

    parts = _CODE.split(markdown)
    parts[::2] = [_LINK.sub(move, part) for part in parts[::2]]
    return "".join(parts)


def outside(root: Path) -> set[str]:
    """The files outside of docs/ that its pages, and those next to it, link to."""
    found = set()
    for source in [*(root / "docs").rglob("*.md"), root / "CONTRIBUTING.md", root / "CHANGELOG.md"]:
        for part in _CODE.split(source.read_text())[::2]:
            for _, link in _LINK.findall(part):
                path = posixpath.normpath(source.parent.relative_to(root).as_posix() + "/" + link.partition("#")[0])
                if ":" not in link and _place(path) == published(path) and (root / path).is_file():
                    found.add(path)
    return found


def published(source: str) -> str:
    """Where the site has a file of the project as text: with an ending that browsers show."""
    return f"source/{source}.txt"


def _place(target: str) -> str:
    """Where the site has a path of the project."""
    if target in _PAGES:
        return _PAGES[target]
    return target.removeprefix("docs/") if target.startswith("docs/") else published(target)


def _relative(target: str, page: str) -> str:
    return posixpath.relpath(target, posixpath.dirname(page) or ".")
