"""The libraries of the Python engines: the tested versions, and the cost of untested ones."""

import ast
import importlib
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import requests

import fetchmill
from engines import engine_keywords
from fetchmill.engines.http.libraries import AIOHTTP, REQUESTS, URLLIB3, Library, untested_notices
from fetchmill.testing import Fault, Server, synthetic_body
from library_versions import FLOOR, LIBRARIES, OLDER, installed
from raw_server import Behaviour, Exchange, RawServer, get_target, mirror, reply
from stored import read_objects

Raw = Callable[..., RawServer]
Run = Callable[..., Any]
Serve = Callable[..., Server]

# The only module that may use private parts of a library.
INTERNALS = "aiohttp_internals.py"
# Library modules that are documented.
PUBLIC = {
    *("aiohttp", "aiohttp.abc", "requests", "requests.adapters", "yarl"),
    *("urllib3", "urllib3.connection", "urllib3.exceptions"),
    # Only the tests use this module, for one error.
    "certifi",
}
# `os._exit` is documented.
PUBLIC_NAMES = {"_exit"}
PARTS_OF_LIBRARIES = ("aiohttp", "certifi", "multidict", "requests", "urllib3", "yarl")
NAMES = [f"name-{number}" for number in range(20)]

with_libraries = pytest.mark.parametrize("engine", ["sync", "threads", "processes", "asyncio", "combo"])


# --- private names -----------------------------------------------------------------------------------------------


def private_uses(source: str) -> Iterator[str]:
    """Returns the places where a module uses private parts of a library or of the standard library."""
    tree = ast.parse(source)
    names: dict[str, Any] = {}
    for node in ast.walk(tree):
        modules = []
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
            names |= {alias.asname or alias.name.partition(".")[0]: _module(alias) for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            modules = [node.module]
            names |= {alias.asname or alias.name: _imported(node.module, alias.name) for alias in node.names}
        for module in modules:
            if module.partition(".")[0] in PARTS_OF_LIBRARIES and module not in PUBLIC:
                yield f"{module} is no public module"
        if isinstance(node, ast.Attribute) and _is_private(node.attr) and not _is_own(node.value):
            yield f"{node.attr} is another object's, in line {node.lineno}"
        if isinstance(node, ast.ImportFrom):
            yield from (f"{each.name} is private" for each in node.names if _is_private(each.name))
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            yield from _private_uses_of_class(node, names)


def _private_uses_of_class(node: ast.ClassDef, names: dict[str, Any]) -> Iterator[str]:
    """Returns the places where a class uses private names of classes that are not ours."""
    bases = [_value(base, names) for base in node.bases]
    classes = [each for base in bases if isinstance(base, type) for each in base.__mro__ if _is_foreign(each)]
    foreign = {name for each in classes for name in vars(each) if _is_private(name)}
    own = {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute) and _is_own(each.value)}
    stored = {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute) and not _is_loaded(each)}
    defined = {each.name for each in node.body if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef))}
    for name in sorted(filter(_is_private, own | stored | defined)):
        if name in foreign:
            yield f"class {node.name}: {name} is a base's"
        elif classes and name not in stored | defined:
            yield f"class {node.name}: {name} is not its own"


def _module(alias: ast.alias) -> Any:  # noqa: ANN401 - a module
    return importlib.import_module(alias.name if alias.asname else alias.name.partition(".")[0])


def _imported(module: str, name: str) -> Any:  # noqa: ANN401 - whatever is imported
    return getattr(importlib.import_module(module), name, None)


def _value(node: ast.expr, names: dict[str, Any]) -> Any:  # noqa: ANN401 - whatever it names
    if isinstance(node, ast.Attribute):
        return getattr(_value(node.value, names), node.attr, None)
    return names.get(node.id) if isinstance(node, ast.Name) else None


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in PUBLIC_NAMES


def _is_own(node: ast.expr) -> bool:
    """Returns whether an expression is `self` or `cls`, whose own names are not private to others."""
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def _is_loaded(node: ast.Attribute) -> bool:
    return isinstance(node.ctx, ast.Load)


def _is_foreign(each: type) -> bool:
    return not each.__module__.startswith(("fetchmill", "builtins", "typing", "enum", "abc"))


def test_only_one_module_uses_private_library_names(root: Path) -> None:
    """No other file of the engines uses library names that begin with an underscore, or internal modules."""
    folder = root / "python/fetchmill/engines"
    found = {path.name: list(private_uses(path.read_text())) for path in sorted(folder.rglob("*.py"))}

    assert {name: uses for name, uses in found.items() if uses and name != INTERNALS} == {}
    assert found[INTERNALS]


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("from aiohttp.client_proto import ResponseHandler", "aiohttp.client_proto is no public module"),
        ("from urllib3 import _version", "_version is private"),
        ("import urllib3.connectionpool", "urllib3.connectionpool is no public module"),
        ("def f(session):\n    session._connector = None", "_connector is another object's"),
        ("def f(reply):\n    return reply.raw._original_response", "_original_response is another object's"),
        ("import aiohttp\nclass A(aiohttp.TCPConnector):\n    def _release(self): ...", "_release is a base's"),
        ("from http import client\nclass A(client.HTTPResponse):\n    def _close_conn(self): ...", "is a base's"),
        ("import aiohttp\nclass A(aiohttp.TCPConnector):\n    def f(self): self._conns.clear()", "is not its own"),
    ],
)
def test_private_name_check_finds_planted_uses(source: str, found: str) -> None:
    """Uses of private names are found wherever they are planted."""
    assert [use for use in private_uses(source) if found in use]


# --- versions ----------------------------------------------------------------------------------------------------


def test_package_metadata_declares_tested_version_ranges(root: Path) -> None:
    """The extra `engines` and the module have the same ranges. The test environment has the newest tested versions."""
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    declared = project["optional-dependencies"]["engines"]
    pinned = (root / "requirements-dev.txt").read_text().splitlines()

    for library in LIBRARIES:
        assert f"{library.name}>={library.floor},<={library.newest}" in declared
        assert f"{library.name}=={library.newest}" in pinned
        assert library.load().__version__ in (library.floor, library.newest)


@pytest.mark.parametrize(
    ("version", "is_tested"),
    [
        *(("1.9.0", False), ("1.10.0", True), ("1.10.3", True), ("1.11.2", True), ("1.11.3", False), ("2.0.0", False)),
        *(("1.11.0rc1", False), ("1.11.0.dev0", False), ("1.11.0+mine", False), ("1.11.0.post1", False), ("", False)),
    ],
)
def test_version_counts_as_tested_only_within_range(version: str, is_tested: bool) -> None:
    """Versions are compared as numbers, and a version that is not a release counts as untested."""
    assert Library("name", "1.10.0", "1.11.2").is_tested(version) is is_tested


def test_untested_version_gets_one_line_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    """The warning has the version, the tested range, the cost and the remedy."""
    monkeypatch.setattr(aiohttp, "__version__", "99.0")

    (notice,) = untested_notices([AIOHTTP])

    assert notice.startswith(f"aiohttp 99.0: not a tested version ({AIOHTTP.floor} to {AIOHTTP.newest}), ")
    assert "uses its own connection" in notice
    assert "pip install 'fetchmill[engines]'" in notice
    assert untested_notices([REQUESTS, URLLIB3]) == ()


# --- other versions ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["threads", "asyncio"])
def test_untested_version_reuses_no_connection(
    raw: Raw, dest: Path, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each request asks the server to close, and no connection is reused, so no reply can belong to another request."""
    library = AIOHTTP if engine == "asyncio" else REQUESTS
    monkeypatch.setattr(aiohttp if engine == "asyncio" else requests, "__version__", "99.0")
    heads: list[str] = []
    turns: list[int] = []

    def behaviour(name: str) -> Behaviour:
        def behave(exchange: Exchange) -> None:
            heads.append(exchange.head.decode().lower())
            turns.append(exchange.turn)
            exchange.send(reply(name.encode()))

        return behave

    server = raw(mirror(NAMES, {name: behaviour(name) for name in NAMES}))

    with pytest.warns(UserWarning, match=f"{library.name} 99.0: not a tested version"):
        report = fetchmill.get(server.url, dest, format="jsonl", limit=3, **engine_keywords(engine))

    assert (report.listed, report.fetched) == (len(NAMES), len(NAMES))
    assert dict(read_objects(dest, "jsonl")) == {name: name.encode() for name in NAMES}
    assert sorted(server.asked()) == sorted(get_target(name) for name in NAMES)
    assert turns == [1] * len(NAMES)
    assert all(re.search(r"^connection: close\r?$", head, re.MULTILINE) for head in heads)


@pytest.mark.entry_point
@with_libraries
@pytest.mark.parametrize("versions", ["floor", "older"])
@pytest.mark.sampled(5)
def test_job_completes_with_other_library_versions(
    run: Run, server: Serve, dest: Path, environment: dict[str, str], versions: str, engine: str
) -> None:
    """The oldest tested versions work without a warning, and older ones with a warning. All bytes are correct."""
    count = 300
    faults = [Fault("truncate", rate=0.05, times=1), Fault("reset", rate=0.05, times=1)]
    source = server(synthetic=count, faults=faults)
    folder = installed(FLOOR if versions == "floor" else OLDER)
    limit = () if engine == "sync" else ("--concurrency", 4)

    ended = run(
        *("get", source.url, dest, "--format", "jsonl", "--engine", engine, *limit),
        env=environment | {"PYTHONPATH": str(folder)},
    )

    names = [f"file-{number:012}" for number in range(count)]
    assert ended.code == 0, ended.err
    assert dict(read_objects(dest, "jsonl")) == {name: synthetic_body(name, 100) for name in names}
    told = re.findall(r"^warning: (\S+) \S+: not a tested version", ended.err, re.MULTILINE)
    if versions == "floor":
        assert told == []
    else:
        assert told == (["aiohttp"] if engine in ("asyncio", "combo") else ["requests", "urllib3"])
        assert source.stats()["connections"] >= count


@pytest.mark.long
@pytest.mark.timeout(1500)
@pytest.mark.parametrize(
    ("versions", "arguments"),
    [
        (FLOOR, ("engines/test_engine_transports.py", "http/test_held_replies.py", "http/test_proxy.py")),
        # The seed chooses some cases of each test.
        (FLOOR, ("engines/test_engine_contract.py", "--suite", "fast")),
        (OLDER, ("engines/test_engine_transports.py", "-k", "untested")),
    ],
    ids=["transports", "contract", "older"],
)
def test_engine_test_suites_pass_with_other_library_versions(
    root: Path, versions: tuple[str, ...], arguments: tuple[str, ...]
) -> None:
    """The engines' test suites pass with other library versions.

    Versions below the tested range follow the rules for untested ones.
    """
    marked = ("-m", "not timing and not alone and not long")
    command = (sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", *marked)
    tests = [str(root / "tests" / each) if each.endswith(".py") else each for each in arguments]
    own = {"PYTHONPATH": str(installed(versions)), "FETCHMILL_ENGINES": "sync,threads,processes,asyncio,combo"}

    ended = subprocess.run(
        [*command, *tests], cwd=root, env=os.environ | own, capture_output=True, text=True, check=False
    )

    assert ended.returncode == 0, ended.stdout[-5000:]
