"""The files that a change touches: their tests run in `make test`, and failures in them are not retried.

The change is everything that is not committed, and every commit since `FETCHMILL_BASE`. Without that variable, it is
every commit that the upstream branch lacks. If upstream has them all, it is those of the last six hours before the
newest one.
"""

import ast
import functools
import os
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_SECONDS_OF_A_CHANGE = 6 * 3600
# A line that adds or removes a selection marker, or is empty.
_MARK = re.compile(
    r"[+-](\s*$|@pytest\.mark\.(thorough|sampled|one_in|of_files|entry_point|timing|alone)\b"
    r"|pytestmark = pytest\.mark\.)"
)
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
# Git's name for an empty tree: everything has changed since then.
_NOTHING = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"


@functools.cache
def changed_files(root: Path = ROOT) -> frozenset[str]:
    """Returns paths below the root."""
    base = os.environ.get("FETCHMILL_BASE") or _base(root)
    committed = _git(root, "diff", "--name-only", "-z", base, "HEAD")
    uncommitted = _git(root, "diff", "--name-only", "-z", "HEAD")
    new = _git(root, "ls-files", "--others", "--exclude-standard", "-z")
    return frozenset(path for path in (committed + uncommitted + new).split("\0") if path)


def touches(*paths: str, root: Path = ROOT) -> bool:
    """Returns whether the change touches one of these files, or a file in one of these folders."""
    return any(file == path or file.startswith(f"{path}/") for file in changed_files(root) for path in paths)


@functools.cache
def rewrites(test: str, root: Path = ROOT) -> bool:
    """Returns whether the change affects the behaviour of a test file.

    Selection markers only decide when a test runs, and comments and docstrings do nothing. A moved file behaves as
    before, and so does a renamed test.
    """
    if not touches(test, root=root):
        return False
    since = os.environ.get("FETCHMILL_BASE") or _base(root)
    moved_from = _moves(root, since).get(test)
    paths = [test] if moved_from is None else [test, moved_from]
    lines = _git(root, "diff", "--find-renames", "--unified=0", since, "--", *paths).splitlines()
    changed = [line for line in lines if line.startswith(("+", "-")) and not line.startswith(("+++", "---"))]
    if not changed:
        return moved_from is None
    before = _git(root, "show", f"{since}:{moved_from or test}", check=False)
    if test.endswith(".py") and before and _code(before) == _code((root / test).read_text()):
        return False
    return any(not _MARK.match(line) for line in changed)


@functools.cache
def rewrites_test(test: str, root: Path = ROOT) -> bool:
    """Returns whether the change affects the behaviour of a test.

    The test's own code counts, and all code of its file outside of tests, such as fixtures and constants.

    Args:
        test: the node id of the test.
        root: the root of the repository.
    """
    file, _, name = test.partition("::")
    if not rewrites(file, root):
        return False
    since = os.environ.get("FETCHMILL_BASE") or _base(root)
    before = _git(root, "show", f"{since}:{_moves(root, since).get(file, file)}", check=False)
    if not before:
        return True
    before_of_all, before_of_tests = _divide(before)
    of_all, of_tests = _divide((root / file).read_text())
    return before_of_all != of_all or of_tests.get(name.partition("[")[0]) not in before_of_tests.values()


def _code(source: str) -> str:
    """Returns the code of a module without comments, docstrings and names of tests."""
    of_all, of_tests = _divide(source)
    return "\n".join([of_all, *of_tests.values()])


def _divide(source: str) -> tuple[str, dict[str, str]]:
    """Returns the code that all tests share, and the code of each test by its name, which the code leaves out."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node):
            node.body[:1] = [ast.Pass()]
    tests = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]
    tree.body = [node for node in tree.body if node not in tests]
    by_name = {node.name: node for node in tests}
    for node in tests:
        node.name = ""
    return ast.dump(tree), {name: ast.dump(node) for name, node in by_name.items()}


@functools.cache
def _moves(root: Path, since: str) -> dict[str, str]:
    """Returns the former path of each moved file, by its new path."""
    fields = _git(root, "diff", "--find-renames", "--diff-filter=R", "--name-status", "-z", since).split("\0")
    return dict(zip(fields[2::3], fields[1::3], strict=False))


@functools.cache
def _base(root: Path) -> str:
    newest = _git(root, "rev-parse", "HEAD").strip()
    shared = _git(root, "merge-base", "HEAD", "@{upstream}", check=False).strip()
    if shared and shared != newest:
        return shared
    until = int(_git(root, "log", "-1", "--format=%ct")) - _SECONDS_OF_A_CHANGE
    return _git(root, "rev-list", "-1", f"--before={until}", "HEAD").strip() or _NOTHING


def _git(root: Path, *arguments: str, check: bool = True) -> str:
    ended = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=False)
    if check and ended.returncode:
        raise RuntimeError(f"git {arguments[0]}: {ended.stderr.strip()}")
    return ended.stdout
