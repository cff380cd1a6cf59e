"""The reference of the Python interface: each public name with its signature and its docstring."""

import __future__

import ast
import inspect
import re
from collections.abc import Iterator, Sequence
from dataclasses import is_dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, get_origin, is_typeddict

import fetchmill
from docs_site.docstrings import as_markdown
from fetchmill import _native

_FOLDER = "reference/python"
_STUB = Path(fetchmill.__file__).with_name("_native.pyi")


class _NamesPage(NamedTuple):
    """A page with some names of `fetchmill`.

    Attributes:
        file: its name, without an ending.
        title: its title.
        about: its first sentence.
        names: what is on it, in order, with spaces between.
    """

    file: str
    title: str
    about: str
    names: str


# By what a program does with them.
_PAGES = (
    _NamesPage(
        "fetch",
        "Fetch",
        "Functions that run a job: fetch, resume, sync, check, list or plan.",
        "get resume sync check list plan load_config",
    ),
    _NamesPage(
        "stream",
        "Stream",
        "Replies in a loop, and what a request and a reply are.",
        "stream astream stream_batches Client Request Reply Headers Timings FetchedReply",
    ),
    _NamesPage(
        "results",
        "Read results",
        "What a job has stored: read it, export it, verify it.",
        "open Objects Object export verify VerifyReport Finding",
    ),
    _NamesPage(
        "inspect",
        "Inspect jobs",
        "The state, the failures and the history of jobs, and differences between checks.",
        "status Status failures Failure skipped Skipped history JobHistory Snapshot JobProgress Latency OriginLatency "
        "LimitedBy Wait diff DiffReport Change",
    ),
    _NamesPage(
        "reports",
        "Reports",
        "What the functions of jobs return.",
        "Report CheckReport ListReport ListedTarget SyncReport SyncPlan Plan FormatPlan Estimate",
    ),
    _NamesPage(
        "options",
        "Options",
        "The options of each function, with types, units and defaults.",
        "GetOptions SyncOptions CheckOptions ListOptions PlanOptions StreamOptions Ray",
    ),
    _NamesPage(
        "errors",
        "Errors",
        "What fetchmill raises on purpose, each with its exit code of the command line.",
        "FetchmillError UsageError ListingError TemporaryError SecurityError StorageError BusyError "
        "JournalError DeleteLimitError AccessError InternalError ReplyError StatusError StrayReplyError",
    ),
)
# Modules with public names of their own.
_MODULES = (
    *("bounded", "bounded.threads", "bounded.processes", "shared_jobs", "ray", "file_system"),
    *("testing", "world", "s3_store"),
)
# Names that are on no page: a text, and modules that have pages.
_ELSEWHERE = {"__version__", "bounded"}
# What only the package calls.
_INTERNAL = ("from_native",)
_WIDTH = 88
_STARS: dict[object, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}


def python_pages() -> dict[str, str]:
    """The pages, by their paths in the site.

    Raises:
        ValueError: a public name is on no page, or on two.
    """
    named = [name for page in _PAGES for name in page.names.split()]
    if sorted([*named, *_ELSEWHERE]) != sorted(fetchmill.__all__):
        raise ValueError(f"pages must have each public name once: {set(named) ^ set(fetchmill.__all__)}")
    pages = {}
    for page in _PAGES:
        pages[f"{_FOLDER}/{page.file}.md"] = _page(page.title, fetchmill, page.names.split(), page.about)
    for module in _MODULES:
        found = import_module(f"fetchmill.{module}")
        doc = as_markdown(_doc(found))
        names = [name for name in found.__all__ if not isinstance(getattr(found, name), ModuleType)]
        pages[f"{_FOLDER}/{module}.md"] = _page(f"fetchmill.{module}", found, names, doc)
    return pages | {f"{_FOLDER}/index.md": _index()}


def _index() -> str:
    """The page of all names."""
    lines = ["# Python", "", "`import fetchmill` has these names. Modules are loaded when a name is first used."]
    for page in _PAGES:
        lines += ["", f"## [{page.title}]({page.file}.md)", "", page.about, "", "| name | what it is |", "|---|---|"]
        for name in page.names.split():
            lines.append(f"| [`fetchmill.{name}`]({page.file}.md#{name}) | {_summary(getattr(fetchmill, name))} |")
    lines += ["", "## Modules", "", "| module | what it is |", "|---|---|"]
    for module in _MODULES:
        lines.append(f"| [`fetchmill.{module}`]({module}.md) | {_summary(import_module(f'fetchmill.{module}'))} |")
    return "\n".join(lines) + "\n"


def _summary(value: object) -> str:
    """The first sentence of a docstring, in a cell of a table."""
    return " ".join(_doc(value).partition("\n\n")[0].split()).replace("|", "\\|")


def _page(title: str, module: ModuleType, names: Sequence[str], doc: str) -> str:
    """A page of some names of a module."""
    lines = [f"# {title}", "", doc]
    for name in names:
        lines += ["", *_entry(f"{module.__name__}.{name}", name, getattr(module, name))]
    return "\n".join(lines) + "\n"


def _entry(full_name: str, name: str, value: Any) -> Iterator[str]:  # noqa: ANN401 - any public name
    """A function or a class, with the methods of the latter."""
    yield f"## `{full_name}` {{ #{name} data-toc-label='{name}' }}"
    yield ""
    if get_origin(value) is not None or not (inspect.isclass(value) or inspect.isroutine(value)):
        yield from _code(_constant(name, value))
        return
    if inspect.isclass(value) and issubclass(value, BaseException):
        yield from _code(f"class {name}({', '.join(base.__name__ for base in value.__bases__)})")
    else:
        yield from _code(_signature(full_name, value))
    yield from ("", as_markdown(_doc(value), parameters="Fields" if is_dataclass(value) else "Parameters"))
    if inspect.isclass(value):
        for method, found in _members(value):
            yield from _method(name, method, found, value)


def _constant(name: str, value: Any) -> str:  # noqa: ANN401 - any value
    """A type or a value; of a long one only what it is."""
    shown = f"{name} = {_type(value) if get_origin(value) else repr(value)}"
    return shown if len(shown) <= _WIDTH else f"{name}: {type(value).__name__}  # {len(value)} items"


def _members(of_class: type) -> Iterator[tuple[str, Any]]:
    """Public methods and properties that a class has itself, or from a class of ours, with a docstring."""
    if of_class.__name__.endswith("Options"):
        return  # its fields are all that a program needs
    seen: set[str] = {*_INTERNAL, *getattr(of_class, "_fields", ())}
    for base in of_class.__mro__:
        if base.__module__.startswith("fetchmill"):
            for name, value in _in_order(base):
                is_member = inspect.isroutine(value) or inspect.isdatadescriptor(value)
                if is_member and not name.startswith("_") and _doc(value) and name not in seen:
                    seen.add(name)
                    yield name, value


def _in_order(of_class: type) -> list[tuple[str, Any]]:
    """What a class has; of one in Rust in the order of the stub, as it has none itself."""
    found = vars(of_class)
    if not _is_native(of_class):
        return [*found.items()]
    names = (key.partition(".")[2] for key in _stub() if key.startswith(f"{of_class.__name__}."))
    return [(name, found[name]) for name in names if name in found]


def _doc(value: object) -> str:
    """A docstring without its indentation."""
    return inspect.getdoc(value) or ""


def _method(class_name: str, name: str, value: Any, of_class: type) -> Iterator[str]:  # noqa: ANN401 - any member
    """A method or property of a class."""
    yield ""
    yield f"### `{class_name}.{name}` {{ #{class_name}.{name} data-toc-label='{name}' }}"
    yield ""
    if not inspect.isdatadescriptor(value):
        yield from _code(_signature(f"{class_name}.{name}", getattr(of_class, name)))
        yield ""
    yield as_markdown(_doc(value))


def _code(text: str) -> list[str]:
    return ["```python", *text.splitlines(), "```"]


def _signature(full_name: str, value: Any) -> str:  # noqa: ANN401 - any callable
    """How it is called, one parameter a line if it does not fit into one."""
    is_class = inspect.isclass(value)
    name = full_name.rpartition(".")[2] if is_class else full_name
    signature = _signature_of(value)
    if signature is None:
        return f"class {name}"
    parameters = [*_parameters(signature)]
    returns = "" if is_class else _type(signature.return_annotation)
    end = f" -> {returns}" if returns else ""
    line = f"{name}({', '.join(parameters)}){end}"
    if len(line) <= _WIDTH:
        return line
    return "\n".join([f"{name}(", *(f"    {parameter}," for parameter in parameters), f"){end}"])


def _signature_of(value: Any) -> inspect.Signature | None:  # noqa: ANN401 - any callable
    """Parameters and result; None for a class that is not made by calling it."""
    if is_typeddict(value):
        keyword = inspect.Parameter.KEYWORD_ONLY
        of_keys = [inspect.Parameter(key, keyword, annotation=type) for key, type in value.__annotations__.items()]
        return inspect.Signature(of_keys)
    return _native_signature(value) if _is_native(value) else inspect.signature(value)


def _parameters(signature: inspect.Signature) -> Iterator[str]:
    """The parameters as they are written, without `self`."""
    is_marked = False
    for parameter in signature.parameters.values():
        if parameter.name in ("self", "cls"):
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not is_marked:
            yield "*"
        is_marked = is_marked or parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL)
        stars = _STARS.get(parameter.kind, "")
        type = _type(parameter.annotation)
        written = f"{stars}{parameter.name}: {type}" if type else f"{stars}{parameter.name}"
        if parameter.default is not parameter.empty:
            default = repr(parameter.default)
            default = "..." if default.startswith("<") else default
            written += f" = {default}" if type else f"={default}"
        yield written


def _type(annotation: Any) -> str:  # noqa: ANN401 - any annotation
    """A type as a person writes it: without modules."""
    if annotation is inspect.Parameter.empty:
        return ""
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    text = re.sub(r"\*<class '([\w.]+)'>", r"Unpack[\1]", text)
    return re.sub(r"\b(?:[a-z_]\w*\.)+(?=\w)", "", text)


def _is_native(value: Any) -> bool:  # noqa: ANN401 - any callable
    """Whether it is written in Rust: its types are in the stub alone."""
    if inspect.isclass(value):
        return value in vars(_native).values()
    return not inspect.isfunction(inspect.unwrap(value)) and not inspect.ismethod(value)


def _native_signature(value: Any) -> inspect.Signature | None:  # noqa: ANN401 - any callable
    """What the stub says; None for a class that is not made by calling it."""
    owner, _, method = value.__qualname__.rpartition(".")
    node = _stub().get(f"{owner}.{method}" if owner else f"{method}.__new__")
    if node is None:
        return None
    bare = ast.FunctionDef(name="of_stub", args=node.args, body=[ast.Pass()], decorator_list=[], returns=node.returns)
    found: dict[str, Any] = {}
    module = ast.fix_missing_locations(ast.Module([bare], []))
    exec(compile(module, _STUB, "exec", __future__.annotations.compiler_flag), found)  # noqa: S102 - a signature of our own
    return inspect.signature(found["of_stub"])


@cache
def _stub() -> dict[str, ast.FunctionDef]:
    """The methods of the stub of the native module, by `Class.method`."""
    found = {}
    for node in ast.parse(_STUB.read_text()).body:
        if isinstance(node, ast.ClassDef):
            for member in node.body:
                if isinstance(member, ast.FunctionDef):
                    found[f"{node.name}.{member.name}"] = member
    return found
