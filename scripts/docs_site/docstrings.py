"""Docstrings in the form of Google as Markdown."""

import inspect
import re
from collections.abc import Iterator

_SECTION = re.compile(r"^(Args|Attributes|Returns|Yields|Raises|Examples?):$")
_LISTS = ("Args", "Attributes", "Raises")
_TEXTS = ("Returns", "Yields")
_ITEM = re.compile(r"^(\*{0,2}`?[\w.]+`?(?:, `?[\w.]+`?)*):\s+(.*)$", re.DOTALL)


def as_markdown(text: str, *, parameters: str = "Parameters") -> str:
    """A cleaned docstring as Markdown: sections become lists, and examples code.

    Args:
        text: the docstring.
        parameters: what arguments are called.
    """
    lines: list[str] = []
    for section, block in _blocks(text.splitlines()):
        if section in _LISTS:
            lines += ["", f"**{parameters if section == 'Args' else section}**", "", *_items(block)]
        elif section in _TEXTS:
            lines += ["", f"**{section}**", "", *_text(block)]
        elif section:
            lines += ["", "```python", *(line.replace("  # doctest: +SKIP", "") for line in block), "```"]
        else:
            lines += _text(block)
    return "\n".join(lines).strip("\n")


def _blocks(lines: list[str]) -> Iterator[tuple[str, list[str]]]:
    """The sections with their lines, without indentation; the text before them has no name."""
    name = ""
    block: list[str] = []
    for line in lines:
        if found := _SECTION.match(line):
            yield name, _cleaned(block)
            name, block = found[1], []
        else:
            block.append(line)
    yield name, _cleaned(block)


def _cleaned(block: list[str]) -> list[str]:
    return inspect.cleandoc("\n" + "\n".join(block)).splitlines()


def _items(block: list[str]) -> Iterator[str]:
    """A list of names and what they are; an item begins where a line is not indented."""
    items: list[list[str]] = []
    for line in block:
        if line.startswith(" ") and items:
            items[-1].append(line.strip())
        elif line:
            items.append([line])
    for item in items:
        text = " ".join(item)
        found = _ITEM.match(text)
        yield f"- `{found[1].strip('`')}`: {_escaped(found[2])}" if found else f"- {_escaped(text)}"


def _text(block: list[str]) -> list[str]:
    """Paragraphs; indented lines are code."""
    return [line if line.startswith(("    ", "|")) else _escaped(line) for line in block]


def _escaped(line: str) -> str:
    """A line of prose: what Markdown would take for marks is written as it is."""
    parts = re.split(r"(`[^`]*`)", line)
    parts[::2] = [re.sub(r"([*_<>\[\]{}])", r"\\\1", part) for part in parts[::2]]
    return "".join(parts)
