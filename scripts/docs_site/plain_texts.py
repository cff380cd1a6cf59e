"""The site for language models: llms.txt, llms-full.txt, and each page as the Markdown that it was made of."""

import re
from dataclasses import dataclass, field
from pathlib import Path

from mkdocs.structure.nav import Navigation, Section
from mkdocs.structure.pages import Page

# Attributes of headings and paragraphs, which only the site's own Markdown has.
_ATTRIBUTES = re.compile(r"^\{ \.\w+ \}\n| \{ #[^}\n]*\}$", re.MULTILINE)
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_SUMMARY_CHARACTERS_MAX = 200


@dataclass
class PlainTexts:
    """The texts of a site that is being built, by the paths of their pages."""

    _texts: dict[str, str] = field(default_factory=dict)

    def add(self, path: str, markdown: str) -> None:
        """Takes the text of a page, with links for its place in the site."""
        self._texts[path] = _ATTRIBUTES.sub("", markdown).strip() + "\n"

    def write(self, folder: Path, navigation: Navigation, title: str, description: str) -> None:
        """Writes all files into the folder of the site."""
        for path, text in self._texts.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text)
        lines = [f"# {title}", "", f"> {description}"]
        for item in navigation.items:
            if isinstance(item, Section):
                lines += ["", f"## {item.title}", "", *(self._entry(page) for page in _pages(item))]
            elif isinstance(item, Page):
                lines += ["", self._entry(item)] if item is navigation.items[0] else [self._entry(item)]
        (folder / "llms.txt").write_text("\n".join(lines) + "\n")
        whole = (self._texts[page.file.src_uri] for page in navigation.pages)
        (folder / "llms-full.txt").write_text("\n".join(whole))

    def _entry(self, page: Page) -> str:
        path = page.file.src_uri
        return f"- [{page.title}]({path}): {_summary(self._texts[path])}"


def _pages(section: Section) -> list[Page]:
    """The pages of a section and of those in it, in order."""
    found: list[Page] = []
    for item in section.children:
        if isinstance(item, Page):
            found.append(item)
        elif isinstance(item, Section):
            found += _pages(item)
    return found


def _summary(text: str) -> str:
    """The first sentence of a page; its title if it begins with something else."""
    paragraphs = text.split("\n\n")
    prose = [each for each in paragraphs if re.match(r"[A-Z\[]|`(?!``)", each)]
    sentence = _LINK.sub(r"\1", " ".join((prose or paragraphs)[0].split())).partition(". ")[0].rstrip(".:")
    return sentence[:_SUMMARY_CHARACTERS_MAX].lstrip("# ")
