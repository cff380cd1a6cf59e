"""The exit codes in docs/reference/exit-codes.md, `fetchmill --help` and the code agree."""

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from fetchmill import errors

Run = Callable[..., Any]

PAGE = "docs/reference/exit-codes.md"
# A signal ends a command with 128 and the signal's number.
SIGNALS = {130, 143}
# The base class has no row of its own.
WITHOUT_ROW = {"FetchmillError"}


def rows(root: Path) -> list[tuple[int, str]]:
    """Returns the codes of the page with their exceptions; an empty exception means none."""
    table = (root / PAGE).read_text().partition("| code | meaning | exception | what to do |\n|---|---|---|---|\n")[2]
    lines = table.partition("\n\n")[0].splitlines()
    found = [re.fullmatch(r"\| (\d+) \|.*\| (?:`(\w+)`)? ?\|[^|]*\|", line) for line in lines]
    assert lines
    assert all(found), "a row has another form"
    return [(int(each[1]), each[2] or "") for each in found if each]


def returned_codes(root: Path) -> set[int]:
    """Returns all integers that functions of the command line return, resolving constants of their modules."""
    folder = root / "python/fetchmill/cli"
    trees = {path.stem: ast.parse(path.read_text()) for path in folder.glob("*.py")}
    # Modules may use one name for different codes.
    constants: dict[str, set[int]] = {}
    for each in (statement for tree in trees.values() for statement in tree.body):
        if isinstance(each, ast.Assign) and isinstance(each.value, ast.Constant) and isinstance(each.value.value, int):
            for target in each.targets:
                constants.setdefault(ast.unparse(target), set()).add(each.value.value)
    found = set()
    for tree in trees.values():
        for function in ast.walk(tree):
            if isinstance(function, ast.FunctionDef) and ast.unparse(function.returns or ast.Constant(None)) == "int":
                for node in ast.walk(function):
                    if isinstance(node, ast.Return) and node.value is not None:
                        found |= set(_values(node.value, constants))
    return found


def _values(node: ast.expr, constants: dict[str, set[int]]) -> Iterator[int]:
    """Yields the integers that an expression may be. Calls, attributes and sums are ignored."""
    match node:
        case ast.Constant(int(value)):
            yield value
        case ast.Name(name) if name in constants:
            yield from constants[name]
        case ast.IfExp():
            yield from (value for part in (node.body, node.orelse) for value in _values(part, constants))
        case ast.BoolOp():
            yield from (value for part in node.values for value in _values(part, constants))


def test_exit_codes_page_has_exactly_defined_codes(root: Path) -> None:
    """The page has the codes of exceptions, of finished commands and of signals, and no others."""
    classes = {name: each.exit_code for name, each in vars(errors).items() if hasattr(each, "exit_code")}
    returned = returned_codes(root)

    assert {0, 3, 8, 10} <= returned
    assert {code for code, _ in rows(root)} == returned | set(classes.values()) | SIGNALS


def test_exit_codes_page_names_exceptions(root: Path) -> None:
    """Each exception that ends a command has a row. Exceptions of streams are named in the text."""
    classes = {name: each.exit_code for name, each in vars(errors).items() if hasattr(each, "exit_code")}
    named = {name: code for code, name in rows(root) if name}

    assert named.pop("KeyboardInterrupt") == 130
    assert named == {name: code for name, code in classes.items() if name not in WITHOUT_ROW and code != 3}
    text = (root / PAGE).read_text()
    assert all(f"`{name}`" in text for name, code in classes.items() if code == 3)


def test_help_lists_exit_codes(run: Run, root: Path) -> None:
    """The help lists the codes of the page; its last line has two of them."""
    shown = run("--help").out.partition("Exit codes:\n")[2]

    found = re.findall(r"^ +(\d+)  \w", shown, re.MULTILINE) + re.findall(r"\((\d+): SIGTERM\)", shown)

    assert {int(code) for code in found} == {code for code, _ in rows(root)}
