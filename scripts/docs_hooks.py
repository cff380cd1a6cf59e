"""What MkDocs calls while it builds the site: adds the generated pages, and moves links that lead out of docs/."""

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.nav import Navigation
from mkdocs.structure.pages import Page

from docs_site import links, pages
from docs_site.plain_texts import PlainTexts

ROOT = Path(__file__).resolve().parents[1]
# The index for readers on a repository host: the site has its navigation instead.
REPOSITORY_INDEX = "README.md"
# Code in a line: blocks of it have elements inside.
_CODE = re.compile(r"<code>[^<]*</code>")
_TEXTS = PlainTexts()
# Users come first in the results of the search.
_BOOST_OF_INTERNALS = 0.3
_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds what is generated, and files outside of docs/ that pages link to."""
    index = files.get_file_from_path(REPOSITORY_INDEX)
    if index is not None:
        files.remove(index)
    for path, content in pages.generated(ROOT).items():
        files.append(File.generated(config, path, content=content))
    for source in links.outside(ROOT):
        files.append(File.generated(config, links.published(source), content=(ROOT / source).read_bytes()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Moves links; generated pages have them right already."""
    del config, files
    path = page.file.src_uri
    placed = markdown if page.file.generated_by else links.moved(markdown, f"docs/{path}", path, ROOT)
    _TEXTS.add(path, placed)
    if path.startswith("internals/"):
        page.meta["search"] = {"boost": _BOOST_OF_INTERNALS}
    return placed


def on_nav(nav: Navigation, config: MkDocsConfig, files: Files) -> Navigation:
    """Keeps the navigation, which the last step needs."""
    del files
    config.extra["navigation"] = nav
    return nav


def on_post_build(config: MkDocsConfig) -> None:
    """Writes what language models read."""
    navigation = config.extra["navigation"]
    _TEXTS.write(Path(config.site_dir), navigation, config.site_name, config.site_description or "")


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Marks options in the text, so that no line ends within one."""
    del page, config, files
    return _CODE.sub(lambda found: _OPTION.sub(r'<span class="option">\g<0></span>', found[0]), html)
