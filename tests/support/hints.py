"""Finds the texts of all `hint:` lines in the source of the package, without running it.

A hint is the keyword `hint` of an error, its attribute `hint`, a value stored under `HINT` in a context, or a text that
begins with `hint: `. From there, names, calls and tables are followed to the texts that they may have. Expressions in a
text become placeholders: `add --format {suffix}`.
"""

import ast
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

_BEGINNING = "hint: "
# An expression that hands on a hint that was made elsewhere.
_PASSED_ON = ("error.hint", "ctx.meta.get(HINT)", "error.ctx.meta.get(HINT)")


@dataclass(frozen=True)
class Module:
    """A module of the package."""

    name: str
    tree: ast.Module

    @cached_property
    def functions(self) -> list[ast.FunctionDef]:
        """The functions, also those of classes."""
        return [node for node in ast.walk(self.tree) if isinstance(node, ast.FunctionDef)]

    def named(self, name: str) -> list[ast.FunctionDef]:
        """Returns the functions of a name."""
        return [each for each in self.functions if each.name == name]

    def function_of(self, line: int) -> ast.FunctionDef | None:
        """Returns the innermost function around a line."""
        around = (each for each in self.functions if each.lineno <= line <= (each.end_lineno or 0))
        return max(around, key=lambda each: each.lineno, default=None)


class HintFinder:
    """Finds the hints of a package.

    Args:
        package: the folder of the package.
    """

    def __init__(self, package: Path) -> None:
        files = sorted(package.rglob("*.py"))
        self._modules = [Module(file.relative_to(package).as_posix(), ast.parse(file.read_text())) for file in files]

    def lines(self) -> list[str]:
        """Returns a line for each hint: the module, and the text.

        Raises:
            ValueError: an expression has another form than those that can be followed.
        """
        return sorted({f"{module.name}: {text}" for module in self._modules for text in self._hints(module)})

    def _hints(self, module: Module) -> Iterator[str]:
        for node in ast.walk(module.tree):
            for value in _made_at(node):
                yield from (text.removeprefix(_BEGINNING) for text in self._texts(value, module))

    def _texts(self, node: ast.expr, module: Module, position: int | None = None) -> list[str]:
        """Returns the texts that an expression may have.

        Args:
            node: the expression.
            module: its module.
            position: the position in the tuple that is the expression; None if it is the text itself.
        """
        if ast.unparse(node) in _PASSED_ON:
            return []
        follow = self._forms.get(type(node))
        if follow is None:
            raise ValueError(f"{module.name}, line {node.lineno}: write the hint as a text, or teach hints.py its form")
        return follow(node, module, position)

    @cached_property
    def _forms(self) -> dict[type[ast.expr], Callable[[Any, Module, int | None], list[str]]]:
        return {
            ast.Tuple: lambda node, module, position: self._texts(node.elts[position], module),
            ast.Constant: lambda node, _module, _position: [] if node.value is None else [str(node.value)],
            ast.JoinedStr: lambda node, module, _position: self._joined(node, module),
            ast.BinOp: lambda node, module, _position: self._added(node, module),
            ast.IfExp: lambda node, module, position: self._any_of([node.body, node.orelse], module, position),
            ast.BoolOp: lambda node, module, position: self._any_of(node.values, module, position),
            ast.Subscript: lambda node, module, _position: self._of_table(node, module),
            ast.Name: lambda node, module, _position: self._of_name(node, module),
            ast.Call: self._of_call,
        }

    def _any_of(self, nodes: list[ast.expr], module: Module, position: int | None) -> list[str]:
        return [text for node in nodes for text in self._texts(node, module, position)]

    def _added(self, node: ast.BinOp, module: Module) -> list[str]:
        return [a + b for a in self._parts(node.left, module) for b in self._parts(node.right, module)]

    def _joined(self, node: ast.JoinedStr, module: Module) -> list[str]:
        pieces = node.values
        first = pieces[0]
        # `hint: {hint}` hands on a hint.
        if len(pieces) > 1 and isinstance(first, ast.Constant) and first.value == _BEGINNING:
            assert isinstance(pieces[1], ast.FormattedValue)
            return self._texts(pieces[1].value, module)
        return ["".join(str(each.value) if isinstance(each, ast.Constant) else _placeholder(each) for each in pieces)]

    def _parts(self, node: ast.expr, module: Module) -> list[str]:
        """Returns the texts of a part of a text, or its placeholder."""
        try:
            return self._texts(node, module)
        except ValueError:
            return [_placeholder(node)]

    def _of_name(self, node: ast.Name, module: Module) -> list[str]:
        function = module.function_of(node.lineno)
        of_function = [] if function is None else _assigned(ast.walk(function), node.id)
        values = of_function or _assigned(module.tree.body, node.id)
        is_parameter = function is not None and any(each.arg == node.id for each in _parameters(function))
        if not values and not is_parameter:
            raise ValueError(f"{module.name}, line {node.lineno}: {node.id} has no value in this module")
        return [text for value, position in values for text in self._texts(value, module, position)]

    def _of_call(self, node: ast.Call, module: Module, position: int | None) -> list[str]:
        name = ast.unparse(node.func)
        known = [(each, function) for each in (module, *self._modules) for function in each.named(name)]
        if not known:
            raise ValueError(f"{module.name}, line {node.lineno}: {name} is not a function of the package")
        place, function = known[0]
        returns = (each.value for each in ast.walk(function) if isinstance(each, ast.Return))
        return [text for value in returns if value is not None for text in self._texts(value, place, position)]

    def _of_table(self, node: ast.Subscript, module: Module) -> list[str]:
        """Returns the texts of `TABLE[key][1]`, for all keys."""
        assert isinstance(node.value, ast.Subscript)
        assert isinstance(node.slice, ast.Constant)
        [(table, _)] = _assigned(module.tree.body, ast.unparse(node.value.value))
        assert isinstance(table, ast.Dict)
        # A value of `**dict.fromkeys(keys, value)` has no key of its own.
        values = (each.args[1] if isinstance(each, ast.Call) else each for each in table.values)
        tuples = (_assigned(module.tree.body, each.id)[0][0] if isinstance(each, ast.Name) else each for each in values)
        return [text for each in tuples for text in self._texts(each, module, int(str(node.slice.value)))]


def _made_at(node: ast.AST) -> Iterator[ast.expr]:
    """Yields the hints that a node makes or shows."""
    if isinstance(node, ast.keyword) and node.arg == "hint":
        yield node.value
    if isinstance(node, ast.Assign):
        for target in node.targets:
            is_attribute = isinstance(target, ast.Attribute) and target.attr == "hint"
            if is_attribute or (isinstance(target, ast.Subscript) and ast.unparse(target.slice) == "HINT"):
                yield node.value
    if isinstance(node, ast.Call):
        for argument in node.args:
            first = argument.values[0] if isinstance(argument, ast.JoinedStr) else argument
            if isinstance(first, ast.Constant) and str(first.value).startswith(_BEGINNING):
                yield argument


def _assigned(nodes: Iterable[ast.AST], name: str) -> list[tuple[ast.expr, int | None]]:
    """Returns the values that a name gets, with the position if the value is a tuple."""
    found: list[tuple[ast.expr, int | None]] = []
    for node in nodes:
        if isinstance(node, ast.AnnAssign) and node.value is not None and ast.unparse(node.target) == name:
            found.append((node.value, None))
        for target in node.targets if isinstance(node, ast.Assign) else []:
            assert isinstance(node, ast.Assign)
            names = [ast.unparse(each) for each in target.elts] if isinstance(target, ast.Tuple) else []
            if name in names:
                found.append((node.value, names.index(name)))
            elif ast.unparse(target) == name:
                found.append((node.value, None))
    return found


def _parameters(function: ast.FunctionDef) -> list[ast.arg]:
    return [*function.args.args, *function.args.kwonlyargs]


def _placeholder(node: ast.expr) -> str:
    """Returns the name of a value in braces. Other expressions are dots, because Python versions write them apart."""
    inner = node.value if isinstance(node, ast.FormattedValue) else node
    if isinstance(inner, ast.Call) and len(inner.args) == 1:
        inner = inner.args[0]
    return f"{{{ast.unparse(inner)}}}" if isinstance(inner, ast.Name | ast.Attribute) else "{...}"
