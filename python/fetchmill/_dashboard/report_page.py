"""The dashboard page as one self-contained file: nothing is loaded from elsewhere."""

import json
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

# In the order in which one imports the others.
_MODULES = ("figures", "charts", "page", "report")
_EXPORT = re.compile(r"^export ((?:async )?(?:const|function|class) (\w+))", re.MULTILINE)
_IMPORT_ALL = re.compile(r'^import \* as (\w+) from "\./(\w+)\.js";$', re.MULTILINE)
_IMPORT_NAMES = re.compile(r'^import (\{[^}]*\}) from "\./(\w+)\.js";$', re.MULTILINE)
_PLACE = re.compile(r"\{\{(\w+)\}\}")


def report_page(snapshot: Mapping[str, Any], samples: Sequence[Mapping[str, Any]]) -> str:
    """A page with a job's figures and what it did over time.

    Args:
        snapshot: the fields of a snapshot that are known of the job, and what is told of it.
        samples: as a job gives them.
    """
    folder = files("fetchmill._dashboard") / "static"

    def read(name: str) -> str:
        return (folder / name).read_text(encoding="utf-8")

    # Within a script nothing is escaped but what would end it.
    data = json.dumps({"snapshot": snapshot, "samples": samples}, allow_nan=False).replace("<", "\\u003c")
    parts = {
        "styles": read("uplot/uPlot.min.css") + read("dashboard.css"),
        "uplot": read("uplot/uPlot.iife.min.js"),
        "script": _joined({name: read(f"{name}.js") for name in _MODULES}),
        "data": data,
    }
    return _PLACE.sub(lambda place: parts[place[1]], read("report.html"))


def _joined(modules: Mapping[str, str]) -> str:
    """Modules as one script: a page that is a file may import none. Each has a scope of its own, as before."""
    scopes = [f"modules.{name} = (() => {{\n{_scope(text)}}})();" for name, text in modules.items()]
    return "\n".join(["const modules = {};", *scopes])


def _scope(text: str) -> str:
    names = [name for _, name in _EXPORT.findall(text)]
    body = _IMPORT_ALL.sub(r"const \1 = modules.\2;", text)
    body = _IMPORT_NAMES.sub(r"const \1 = modules.\2;", body)
    body = _EXPORT.sub(r"\1", body)
    return f"{body}return {{ {', '.join(names)} }};\n"
