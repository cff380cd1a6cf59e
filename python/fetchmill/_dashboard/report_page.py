"""The dashboard page as a single self-contained file."""

import json
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

# Modules, ordered so that each one imports only earlier ones.
_MODULES = ("figures", "charts", "page", "report")
_EXPORT = re.compile(r"^export ((?:async )?(?:const|function|class) (\w+))", re.MULTILINE)
_IMPORT_ALL = re.compile(r'^import \* as (\w+) from "\./(\w+)\.js";$', re.MULTILINE)
_IMPORT_NAMES = re.compile(r'^import (\{[^}]*\}) from "\./(\w+)\.js";$', re.MULTILINE)
_PLACE = re.compile(r"\{\{(\w+)\}\}")


def report_page(snapshot: Mapping[str, Any], samples: Sequence[Mapping[str, Any]]) -> str:
    """Return a page with a job's figures and their history.

    Args:
        snapshot: the available fields of the job's snapshot, and facts about the job.
        samples: samples as returned by the job.
    """
    folder = files("fetchmill._dashboard") / "static"

    def read(name: str) -> str:
        return (folder / name).read_text(encoding="utf-8")

    # Inside a script, only the end tag must be escaped.
    data = json.dumps({"snapshot": snapshot, "samples": samples}, allow_nan=False).replace("<", "\\u003c")
    parts = {
        "styles": read("uplot/uPlot.min.css") + read("dashboard.css"),
        "uplot": read("uplot/uPlot.iife.min.js"),
        "script": _joined({name: read(f"{name}.js") for name in _MODULES}),
        "data": data,
    }
    return _PLACE.sub(lambda place: parts[place[1]], read("report.html"))


def _joined(modules: Mapping[str, str]) -> str:
    """Join modules into one script, because a page opened from a file cannot import them. Scopes stay separate."""
    scopes = [f"modules.{name} = (() => {{\n{_scope(text)}}})();" for name, text in modules.items()]
    return "\n".join(["const modules = {};", *scopes])


def _scope(text: str) -> str:
    names = [name for _, name in _EXPORT.findall(text)]
    body = _IMPORT_ALL.sub(r"const \1 = modules.\2;", text)
    body = _IMPORT_NAMES.sub(r"const \1 = modules.\2;", body)
    body = _EXPORT.sub(r"\1", body)
    return f"{body}return {{ {', '.join(names)} }};\n"
