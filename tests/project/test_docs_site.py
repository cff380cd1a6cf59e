"""The documentation site builds without warnings, is complete, and needs no network."""

import functools
import inspect
import json
import re
import shutil
import subprocess
import sys
import threading
import tomllib
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import click
import pytest
from jsonschema import Draft7Validator

import fetchmill
from browser_tab import open_tab
from conftest import ROOT
from fetchmill._options import table
from fetchmill.cli.config import keys_in_files, read_config
from fetchmill.cli.main import COMMANDS
from fetchmill.cli.main import command as group
from fetchmill.errors import UsageError

# Input of the build. With `--quiet`, warnings would not be counted.
SOURCES = ("mkdocs.yml", "docs", "scripts")
# Commands whose options are a class of the table; the other class is for streams.
TABLES = {name: getattr(table, name.upper()) for name in ("get", "plan", "check", "list", "sync")}
# Valid and invalid values for keys.
VALUES = (True, False, 3, 0, 403, 0.5, "3", "1%", "1MiB", "auto", "a:b", "http://a", "2026-11-01", "*.json")
VALUES_WITH_PARTS = (["*.json"], ["5xx", "dns*"], [403], [True], {"X-Team": "data"}, {"X": 3}, [["a"]])

# Invalid keys, tables and values.
WRONG: list[dict[str, Any]] = [
    {"get": {"concurency": 3}},
    {"gett": {}},
    {"get": {"format": "zip"}},
    {"get": {"http2": "yes"}},
]


class Html(HTMLParser):
    """A page of the site: its fragments, and the resources that it loads."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.loaded: list[str] = []
        self.text = ""
        self.feed(page.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Handles the start of an element."""
        found = {name: value or "" for name, value in attrs}
        if "id" in found:
            self.ids.add(found["id"])
        if tag == "link" and "canonical" not in found.get("rel", ""):
            self.loaded.append(found.get("href", ""))
        if tag in ("script", "img", "iframe", "source"):
            self.loaded.append(found.get("src", ""))

    def handle_data(self, data: str) -> None:
        """Handles text."""
        self.text += data


class QuietHandler(SimpleHTTPRequestHandler):
    """Serves files without logging."""

    def log_message(self, format: str, *args: object) -> None:
        """Logs nothing."""


def build(project: Path, site: Path) -> subprocess.CompletedProcess[str]:
    """Builds the site from the sources of a project."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(site)]
    return subprocess.run(command, cwd=project, capture_output=True, text=True, check=False, timeout=120)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the site, built without a warning.

    Broken links or fragments, and pages outside the navigation, are warnings.
    """
    folder = tmp_path_factory.mktemp("docs") / "site"
    built = build(ROOT, folder)
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


@pytest.fixture(scope="module")
def schema(site: Path) -> dict[str, Any]:
    """Returns the schema of configuration files."""
    found: dict[str, Any] = json.loads((site / "reference/fetchmill.schema.json").read_text())
    Draft7Validator.check_schema(found)
    return found


def commands() -> dict[str, click.Command]:
    """Returns the commands by name."""
    found = {name: group.get_command(click.Context(group), name) for name in COMMANDS}
    return {name: command for name, command in found.items() if command is not None}


def test_every_page_is_in_navigation(site: Path) -> None:
    """Every page of the guide and the reference is built and in the navigation."""
    pages = [*(ROOT / "docs/guide").rglob("*.md"), *(ROOT / "docs/reference").rglob("*.md")]
    paths = [path.relative_to(ROOT / "docs").as_posix() for path in pages]
    navigation = re.findall(r"(?:- |: )(\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)

    assert len(paths) > 30
    assert [path for path in paths if navigation.count(path) != 1] == []
    assert [path for path in paths if not (site / path.removesuffix(".md") / "index.html").is_file()] == []


def test_site_loads_nothing_from_elsewhere(site: Path) -> None:
    """Pages use no fonts, scripts or pictures of other hosts."""
    pages = list(site.rglob("*.html"))
    loaded = {(path.name, url) for path in pages for url in Html(path).loaded if re.match(r"\w+:|//", url)}

    assert len(pages) > 120
    assert loaded == set()
    assert "fonts.g" not in "".join(path.read_text() for path in site.rglob("*.css"))


def test_start_page_has_commands_recording_and_chart(site: Path) -> None:
    """The start page has the four commands, the recording and the chart of the README."""
    page = Html(site / "index.html")

    assert "fetchmill serve --synthetic 200000 --port 8080 &" in page.text
    assert {"plots/demo.svg", "plots/readme.svg"} <= set(page.loaded)


@pytest.mark.parametrize("name", COMMANDS)
def test_reference_has_every_command_and_option(site: Path, name: str) -> None:
    """Each option has a fragment, and each row of the options table is an option."""
    page = Html(site / "reference/commands" / name / "index.html")
    command = commands()[name]
    options = [option for option in command.params if isinstance(option, click.Option) and not option.hidden]
    rows = [row for row, of_row in TABLES.get(name, {}).items() if not of_row.metadata["alias_of"]]

    assert options
    assert [option.opts[-1] for option in options if option.opts[-1].lstrip("-") not in page.ids] == []
    # The page describes settings as part of `--set`.
    assert set(rows) <= {option.name for option in command.params if isinstance(option, click.Option)}
    assert f"{name}/" in (site / "reference/commands/index.html").read_text()


def test_reference_page_has_every_public_name(site: Path) -> None:
    """Each public name has its signature and the start of its docstring.

    Options of streams, which are not commands, are included.
    """
    pages = [Html(path) for path in (site / "reference/python").rglob("index.html")]
    fragments = [name for page in pages for name in page.ids]
    text = " ".join(" ".join(page.text for page in pages).split())
    names = [name for name in fetchmill.__all__ if name != "__version__"]
    documented = {name: inspect.getdoc(getattr(fetchmill, name)) or "" for name in names}
    signature = (
        "fetchmill.stream( items: Iterable[str | Request] | AsyncIterable[str | Request], *, ordered: bool = False,"
    )

    assert [name for name in documented if name not in fragments and name != "bounded"] == []
    assert [name for name, doc in documented.items() if re.sub(r"`.*", "", doc.partition(".")[0]) not in text] == []
    assert signature in text
    assert "Request( url: str, method: str | None = None," in text
    assert [row for row in table.STREAM if f"{row}:" not in text] == []


def test_llms_txt_names_every_page(site: Path) -> None:
    """llms.txt links to Markdown pages, and llms-full.txt contains them all."""
    index = (site / "llms.txt").read_text()
    whole = (site / "llms-full.txt").read_text()
    paths = re.findall(r"^- \[[^\]]+\]\(([^)]+)\): \S", index, re.MULTILINE)

    assert index.startswith("# fetchmill\n\n> Download millions")
    assert len(paths) > 80
    assert [path for path in paths if not (site / path).is_file() or (site / path).read_text() not in whole] == []
    assert {"guide/tutorial.md", "reference/commands/get.md", "reference/python/stream.md"} <= set(paths)


def test_search_index_has_option_sections(site: Path) -> None:
    """Each option is a section of the search index."""
    found = json.loads((site / "search/search_index.json").read_text())["docs"]

    assert "reference/commands/get/#max-failed" in {section["location"] for section in found}


@pytest.mark.of_files("mkdocs.yml", "scripts/docs_site", "requirements-dev.txt", "tests/project/test_docs_site.py")
def test_search_works_in_browser_without_network(site: Path, tmp_path: Path) -> None:
    """Search works with static files at loopback: no other host is contacted, and no script reports an error."""
    handler = functools.partial(QuietHandler, directory=str(site))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server, open_tab(tmp_path) as tab:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/"
        tab.open(address)
        tab.wait_until("document.readyState === 'complete'")
        tab.value("document.querySelector('[data-md-component=search-query]').focus()")
        tab.call("Input.insertText", text="--max-failed")
        tab.call("Input.dispatchKeyEvent", type="keyUp", key="d")
        found = "[...document.querySelectorAll('.md-search-result__link')].map(link => link.href).join(' ')"
        tab.wait_until(found, lambda links: "/reference/commands/get/" in links)
        asked = [url for url in tab.requests if not url.startswith((address, "data:", "blob:", "about:"))]
        server.shutdown()

    assert asked == []
    assert tab.console == []


def test_schema_accepts_configuration_examples(schema: dict[str, Any]) -> None:
    """The schema accepts the examples of the configuration page, and refuses wrong keys, tables and values."""
    page = (ROOT / "docs/reference/configuration.md").read_text()
    examples = re.findall(r"^```toml\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    validator = Draft7Validator(schema)

    assert examples
    assert [error.message for text in examples for error in validator.iter_errors(tomllib.loads(text))] == []
    assert [wrong for wrong in WRONG if validator.is_valid(wrong)] == []


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", COMMANDS)
def test_schema_accepts_all_values_of_command(schema: dict[str, Any], name: str, tmp_path: Path) -> None:
    """The schema accepts each value that the command accepts, and has no key that the command refuses."""
    command = commands()[name]
    validator = Draft7Validator(schema)
    wrong: list[tuple[str, object]] = []
    taken: set[str] = set()
    for key in keys_in_files(command):
        for value in (*VALUES, *VALUES_WITH_PARTS):
            path = tmp_path / "options.toml"
            path.write_text(f"[{name}]\n{key} = {toml(value)}\n")
            try:
                read_config(str(path), command, COMMANDS)
            except UsageError:
                continue
            taken.add(key)
            if not validator.is_valid({name: {key: value}}):
                wrong.append((key, value))

    assert wrong == []
    assert set(schema["properties"][name]["properties"]) >= taken
    assert {key.replace("-", "_") for key in schema["properties"][name]["properties"]} == set(keys_in_files(command))


def toml(value: object) -> str:
    """Formats a value as TOML."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {toml(each)}" for key, each in value.items()) + "}"
    return json.dumps(value)


@pytest.mark.of_files("mkdocs.yml", "scripts/docs_site", "scripts/docs_hooks.py")
@pytest.mark.parametrize("link", ["[x](no-such-page.md)", "[x](lists.md#no-such-heading)", "[x](../../no-such-file)"])
def test_broken_link_fails_docs_build(tmp_path: Path, link: str) -> None:
    """A broken link to a page, to a heading, or out of docs/ is a warning."""
    for path in ROOT.iterdir():
        if path.name not in SOURCES:
            (tmp_path / path.name).symlink_to(path)
    for name in SOURCES:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, tmp_path / name)
    page = tmp_path / "docs/guide/world.md"
    page.write_text(f"{page.read_text()}\n{link}\n")

    built = build(tmp_path, tmp_path / "site")

    assert built.returncode != 0
    assert "guide/world.md" in built.stdout + built.stderr
