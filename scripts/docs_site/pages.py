"""The generated pages of the site, by their paths in it."""

import re
from pathlib import Path

from docs_site import command_pages, links, python_pages
from docs_site.notebook_page import notebook_page

_HERE = Path(__file__).resolve().parent
DECISIONS = "docs/internals/decisions"


def generated(root: Path) -> dict[str, str]:
    """All of them, the style sheet and the script."""
    return {
        "index.md": start(root),
        "contributing.md": links.moved(
            (root / "CONTRIBUTING.md").read_text(), "CONTRIBUTING.md", "contributing.md", root
        ),
        "changelog.md": links.moved((root / "CHANGELOG.md").read_text(), "CHANGELOG.md", "changelog.md", root),
        "internals/decisions/index.md": decisions(root),
        **{name: (_HERE / name).read_text() for name in ("site.css", "site.js")},
        "guide/notebook.md": notebook_page(root / "docs/guide/notebook.ipynb"),
        **command_pages.command_pages(topics(root)),
        **python_pages.python_pages(),
    }


def topics(root: Path) -> dict[str, str]:
    """The pages that `fetchmill help` shows, by their topics."""
    docs = root / "docs"
    found = [*(docs / "guide").rglob("*.md"), *(docs / "reference").rglob("*.md")]
    return {path.stem: path.relative_to(docs).as_posix() for path in found}


def start(root: Path) -> str:
    """The start page: what the README begins with, and ways into the site."""
    readme = (root / "README.md").read_text()
    _, title, first = readme.partition("# fetchmill\n")
    described, _, rest = first.partition("\n## Try it\n")
    commands = rest.partition("Then try your own data:")[0].rstrip()
    chart = re.search(r"^!\[.*?\]\(docs/plots/readme\.svg\)$", readme, re.MULTILINE)
    if not (title and commands and chart):
        raise ValueError("README.md: needs a title, `## Try it` with `Then try your own data:`, and a chart")
    text = (_HERE / "start.md.template").read_text()
    for name, part in {"described": described, "commands": commands, "chart": chart[0]}.items():
        text = text.replace("{{ " + name + " }}", links.moved(part.strip("\n"), "README.md", "index.md", root))
    return text


def decisions(root: Path) -> str:
    """The index of decisions, the last one first."""
    lines = ["# Decisions", "", "Each page has one decision: what was chosen, why, and what was refused.", ""]
    for path in sorted((root / DECISIONS).glob("[0-9]*.md"), reverse=True):
        title = path.read_text().partition("\n")[0].removeprefix("# ")
        lines.append(f"- [{title}]({path.name})")
    return "\n".join(lines) + "\n"
