"""The modules of a Rust crate and which uses which, read from its sources: nothing is compiled.

A module is a file. It uses another one when a path in its code, or in a `use`, leads to something defined there. What a
path leads to is followed through `use` and `pub use`, so a `mod.rs` that only hands names on is used by nobody and uses
nobody. When a type has methods in several files, `self.method()` is a use of the file that has the method. Tests are
left out.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

Name = tuple[str, ...]

NOT_CODE = re.compile(
    r"""//[^\n]* | /\*.*?\*/ | b?r(\#*)".*?"\1 | b?"(?:\\.|[^"\\])*" | b?'(?:\\.[^']*|[^'\\\n])'""",
    re.DOTALL | re.VERBOSE,
)
TEST_ITEM = re.compile(r"#\[cfg\(test\)\][^;{]*")
BRACE = re.compile(r"[{}]")
USE = re.compile(r"\b(pub(?:\([^)]*\))?\s+)?use\s+([^;]+);")
USE_PART = re.compile(r"\w+|::|[{},*]")
PATH = re.compile(r"(?<![\w:.])\w+(?:::\w+)+")
IMPL = re.compile(r"^impl(?:<[^{]*?>)?\s+(\w+)(?:<[^{]*?>)?\s*(?:where[^{]*)?\{", re.MULTILINE)
METHOD = re.compile(r"^ {4}(?:pub(?:\([^)]*\))?\s+)?(?:async\s+)?fn\s+(\w+)", re.MULTILINE)
# A name that is handed on more often than this is handed on in a circle.
HOPS_MAX = 8
METHOD_CALL = re.compile(r"(?<![\w.])self\s*\.(\w+)\(")


@dataclass(frozen=True)
class Use:
    """A module uses something of another one."""

    user: Name
    line: int
    used: Name
    item: str


@dataclass
class Module:
    """A file. `imports` says what the names mean that it brings in."""

    name: Name
    path: Path
    code: str
    imports: dict[str, Name] = field(default_factory=dict)
    handed_on: set[str] = field(default_factory=set)

    @cached_property
    def body(self) -> str:
        """Its code without `use`; lines keep their numbers."""
        return USE.sub(lambda match: "\n" * match[0].count("\n"), self.code)


def line_of(code: str, position: int) -> int:
    """Counted from one."""
    return code.count("\n", 0, position) + 1


def code_of(text: str) -> str:
    """A source without comments and literals; lines keep their numbers."""
    return NOT_CODE.sub(lambda match: " " + "\n" * match[0].count("\n"), text)


def block_end(code: str, start: int) -> int:
    """The position behind the block that opens at or behind `start`."""
    depth = 0
    for match in BRACE.finditer(code, start):
        depth += 1 if match[0] == "{" else -1
        if depth == 0:
            return match.end()
    return len(code)


def without_tests(code: str) -> str:
    """Without what is compiled for tests only; lines keep their numbers."""
    kept, done = [], 0
    for match in TEST_ITEM.finditer(code):
        if match.start() < done:
            continue
        is_block = code[match.end() : match.end() + 1] == "{"
        end = block_end(code, match.end()) if is_block else match.end() + 1
        kept += [code[done : match.start()], "\n" * code.count("\n", match.start(), end)]
        done = end
    return "".join([*kept, code[done:]])


def leaves(tree: str) -> Iterator[tuple[Name, str]]:
    """The paths of a `use`, each with the name that it gets."""
    stack: list[list[str]] = []
    head: list[str] = []
    alias = ""
    parts = [*USE_PART.findall(tree), ","]
    for at, part in enumerate(parts):
        if part == "{":
            stack.append(head)
            head = [*head]
        elif part in {",", "}"}:
            if len(head) > (len(stack[-1]) if stack else 0):
                yield leaf(head, alias)
            if part == "}":
                stack.pop()
            head, alias = [*(stack[-1] if stack else [])], ""
        elif part == "as":
            alias = parts[at + 1]
        elif part not in {"::", alias}:
            head.append(part)


def leaf(path: list[str], alias: str) -> tuple[Name, str]:
    """`self` at the end is the module itself."""
    own = path[:-1] if path[-1] == "self" and len(path) > 1 else path
    return tuple(own), alias or own[-1]


class Crate:
    """All modules of one crate."""

    def __init__(self, source: Path) -> None:
        self.source = source
        self.modules: dict[Name, Module] = {}
        for path in sorted(source.rglob("*.rs")):
            parts = path.relative_to(source).with_suffix("").parts
            if "tests" not in parts:
                name = parts[:-1] if parts[-1] in {"mod", "lib"} else parts
                self.modules[name] = Module(name, path, without_tests(code_of(path.read_text())))
        for module in self.modules.values():
            for match in USE.finditer(module.code):
                for path_used, called in leaves(match[2]):
                    module.imports[called] = path_used
                    if match[1]:
                        module.handed_on.add(called)

    def find(self, user: Name, path: Name, depth: int = 0) -> tuple[Name, str] | None:
        """The module that defines what a path leads to, and the name there; none outside of the crate."""
        start: Name = ()
        head, *rest = path
        if head == "crate":
            start = ()
        elif head in {"self", "super"}:
            start = user
            while head == "super":
                start = start[:-1]
                if not rest or rest[0] != "super":
                    break
                head, *rest = rest
        elif (*user, head) in self.modules:
            start = (*user, head)
        elif head in self.modules[user].imports and depth < HOPS_MAX:
            return self.find(user, (*self.modules[user].imports[head], *rest), depth + 1)
        else:
            return None
        return self.follow(start, tuple(rest), depth)

    def follow(self, start: Name, rest: Name, depth: int) -> tuple[Name, str] | None:
        """As `find`, from a module on."""
        while rest and (*start, rest[0]) in self.modules:
            start, rest = (*start, rest[0]), rest[1:]
        if not rest:
            return start, ""
        again = self.modules[start].imports.get(rest[0])
        if again is None or depth >= HOPS_MAX:
            return start, rest[0]
        return self.find(start, (*again, *rest[1:]), depth + 1)

    @cached_property
    def folders(self) -> list[Name]:
        """Those with modules in them, from the root on."""
        return sorted({name[:depth] for name in self.modules for depth in range(len(name))})

    @cached_property
    def uses(self) -> list[Use]:
        """All of them, ordered."""
        found = {use for module in self.modules.values() for use in (*self.path_uses(module), *self.calls(module))}
        return sorted(found, key=lambda use: (use.user, use.line, use.used, use.item))

    def path_uses(self, module: Module) -> Iterator[Use]:
        """What a module names."""
        for match in USE.finditer(module.code):
            for path, called in leaves(match[2]):
                is_used = called not in module.handed_on or (called != "*" and re.search(rf"\b{called}\b", module.body))
                if is_used:
                    yield from self.use(module, line_of(module.code, match.start()), path)
        for match in PATH.finditer(module.body):
            yield from self.use(module, line_of(module.body, match.start()), tuple(match[0].split("::")))

    def use(self, module: Module, line: int, path: Name) -> Iterator[Use]:
        """None, when it leads out of the crate, or to a module that this one is in."""
        found = self.find(module.name, path)
        if found and found[0] != module.name and (found[1] or module.name[: len(found[0])] != found[0]):
            yield Use(module.name, line, *found)

    @cached_property
    def methods(self) -> dict[tuple[Name, str], dict[str, Name]]:
        """Of each type, by the module that defines it and its name: its methods, and where they are."""
        found: dict[tuple[Name, str], dict[str, Name]] = {}
        for module in self.modules.values():
            for start, of in self.impls(module):
                block = module.code[start : block_end(module.code, start)]
                found.setdefault(of, {}).update(dict.fromkeys(METHOD.findall(block), module.name))
        return found

    def impls(self, module: Module) -> Iterator[tuple[int, tuple[Name, str]]]:
        """Where types get methods of their own, and which types."""
        for match in IMPL.finditer(module.code):
            yield match.start(), self.find(module.name, (match[1],)) or (module.name, match[1])

    def calls(self, module: Module) -> Iterator[Use]:
        """Calls of methods of `self` that are in another file."""
        for start, of in self.impls(module):
            block = module.code[start : block_end(module.code, start)]
            for match in METHOD_CALL.finditer(block):
                where = self.methods[of].get(match[1], module.name)
                if where != module.name:
                    yield Use(module.name, line_of(module.code, start + match.start()), where, match[1])


def contracted(uses: Iterable[Use], folder: Name) -> dict[tuple[str, str], list[Use]]:
    """Uses between what is directly in a folder; `mod` is the folder's own file."""
    edges: dict[tuple[str, str], list[Use]] = {}
    depth = len(folder)

    def part(name: Name) -> str:
        return name[depth] if len(name) > depth else "mod"

    for use in uses:
        if use.user[:depth] == folder and use.used[:depth] == folder and part(use.user) != part(use.used):
            edges.setdefault((part(use.user), part(use.used)), []).append(use)
    return edges


def cycles(edges: Iterable[tuple[str, str]]) -> list[set[str]]:
    """The groups of nodes that reach each other."""
    heads: dict[str, set[str]] = {}
    for user, used in edges:
        heads.setdefault(user, set()).add(used)
    reached = {node: reach(node, heads) for node in heads}
    groups: list[set[str]] = []
    for node in sorted(heads):
        if node in reached[node] and not any(node in group for group in groups):
            groups.append({other for other in reached[node] if node in reached.get(other, ())})
    return groups


def without_shortcuts(edges: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """The edges to which no longer way leads, of a graph without a cycle."""
    heads: dict[str, set[str]] = {}
    for user, used in edges:
        heads.setdefault(user, set()).add(used)
    behind = {node: set().union(*(reach(head, heads) for head in heads[node])) for node in heads}
    return sorted((user, used) for user, of_user in heads.items() for used in of_user - behind[user])


def reach(node: str, heads: dict[str, set[str]]) -> set[str]:
    """All that a node leads to."""
    found: set[str] = set()
    open_ones = [node]
    while open_ones:
        new = heads.get(open_ones.pop(), set()) - found
        found |= new
        open_ones += new
    return found
