"""The project's scripts as modules: their names have no extension that Python imports."""

import importlib.machinery
import importlib.util
import sys
from pathlib import Path
from types import ModuleType


def load_script(name: str) -> ModuleType:
    """Loads `scripts/NAME`."""
    path = Path(__file__).resolve().parents[2] / "scripts" / name
    loader = importlib.machinery.SourceFileLoader(name.replace("-", "_"), str(path))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    # `dataclasses` looks here for the module of a class.
    sys.modules[loader.name] = module
    loader.exec_module(module)
    return module
