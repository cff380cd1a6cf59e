"""The page of a notebook: its texts, its code, and what that printed."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def notebook_page(path: Path) -> str:
    """A notebook as Markdown, with a link to the file."""
    cells = json.loads(path.read_text())["cells"]
    title, *rest = [block for cell in cells for block in _blocks(cell)]
    link = f"The notebook is [{path.name}]({path.name})."
    return "\n\n".join([title, link, *rest]) + "\n"


def _blocks(cell: dict[str, Any]) -> Iterator[str]:
    """A cell, and what it printed."""
    source = _joined(cell["source"])
    yield source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```"
    printed = "".join(_joined(output["text"]) for output in cell.get("outputs", ()) if "text" in output)
    if printed:
        yield f"```text\n{printed.rstrip()}\n```"


def _joined(text: str | list[str]) -> str:
    """A text, which a file may have as lines."""
    return text if isinstance(text, str) else "".join(text)
