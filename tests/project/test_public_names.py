"""Public names as a type checker sees them."""

from pathlib import Path

import pytest

import fetchmill
from fetchmill import bounded, shared_jobs, testing

PROGRAM = Path(__file__).with_name("every_public_name.py").read_text()


@pytest.mark.parametrize("module", [fetchmill, bounded, shared_jobs, testing], ids=lambda module: module.__name__)
def test_type_checked_program_uses_every_public_name(module: object) -> None:
    """The program type-checks in strict mode, where a name without types is an error."""
    names = [name for name in vars(module)["__all__"] if name != "bounded"]
    prefix = str(vars(module)["__name__"]).removeprefix("fetchmill.")

    assert [name for name in names if f"{prefix}.{name}" not in PROGRAM] == []
