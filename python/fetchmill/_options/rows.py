"""Options as rows: what one is called, what its values are, and what help says of it; and the classes made of rows.

A row is a key of one of the TypedDicts in `keywords`: its type, and an `Option` beside it. Defaults and bounds are the
core's. A class of options is a frozen dataclass with a field for each row of its TypedDict.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import Field, field, fields
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Final,
    Literal,
    NamedTuple,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

from fetchmill._native import options as core_options
from fetchmill._options.credentials import origin_of, proxy_of, request_fields
from fetchmill._options.dates import seconds_of
from fetchmill._options.sources import kind_of
from fetchmill._options.units import format_bytes
from fetchmill._options.values import Kind, check_path, check_text, check_value
from fetchmill._quick_dataclass import dataclass
from fetchmill.errors import UsageError

T = TypeVar("T")
# Whose rows of the core a class has: those of jobs, of checks or of streams.
Core = Literal["job", "check", "stream"]

# By class, then by the name of an option: type, unit, default, minimum and maximum.
CORE: Final[Mapping[str, Mapping[str, Mapping[str, Any]]]] = {
    core: {row["name"]: row for row in rows} for core, rows in core_options().items()
}
# The default is that of the core.
_CORE: Final = object()
# Arguments that are paths.
_PATHS = ("dest", "manifest", "results")


class Option(NamedTuple):
    """What a row says beside the name and the type.

    Args:
        kind: the kind of value.
        help: what help says of it.
        default: of an option that the core does not know by this name.
        heading: what it stands under in the help of a command.
        envvar: where the command takes it from if it is not given: for what others must not see in a list of processes.
        short: how a command writes it in one letter.
        alias_of: the option that it is another name of.
    """

    kind: Kind
    help: str
    default: Any = _CORE
    heading: str = "Options"
    envvar: str | None = None
    short: str | None = None
    alias_of: str | None = None


class Options:
    """A class of options: validated, immutable."""

    if TYPE_CHECKING:
        __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

        def __getattr__(self, name: str) -> Any: ...  # noqa: ANN401 - as its keyword

    def __post_init__(self) -> None:
        if hasattr(self, "source"):
            if isinstance(self.source, os.PathLike):
                object.__setattr__(self, "source", check_path("source", self.source))
            check_text("source", self.source)
        for option in fields(self):
            value = getattr(self, option.name)
            if option.metadata.get("kind") == "path" or option.name in _PATHS:
                object.__setattr__(self, option.name, None if value is None else check_path(option.name, value))
            elif option.metadata:
                check_value(option.name, value, option.metadata)
        self._take_aliases()

    def _take_aliases(self) -> None:
        """What is given by another name of an option is that option's value."""
        for alias in fields(self):
            name, value = alias.metadata.get("alias_of"), getattr(self, alias.name)
            if name is None or value is None:
                continue
            (option,) = (option for option in fields(self) if option.name == name)
            if getattr(self, name) not in (option.default, value):
                raise UsageError(f"{name} and {alias.name} are two names of one option: give one of them")
            object.__setattr__(self, name, value)
            object.__setattr__(self, alias.name, None)

    def core_values(self, asked: str) -> dict[str, Any]:
        """The options that the core knows, as it takes them; what is left out has its default.

        Args:
            asked: who is asked first, as a URL: what ~/.netrc is for.

        Raises:
            UsageError: credentials that have no origin, or no entry in ~/.netrc.
        """
        values = {
            option.name: _core_value(option.metadata["kind"], getattr(self, option.name))
            for option in fields(self)
            if option.metadata.get("is_core") and getattr(self, option.name) != option.default
        }
        auth, bearer, has_netrc = (getattr(self, name, None) for name in ("auth", "bearer", "netrc"))
        origin = self.credentials_for or (origin_of(asked) if kind_of(asked) == "server" else None)
        if has_netrc and origin is None:
            raise UsageError("netrc needs credentials_for: requests may lead anywhere")
        has_command = getattr(self, "bearer_command", None) is not None
        values["headers"] = request_fields(
            self.headers, auth, bearer, origin if has_netrc else None, has_command=has_command
        )
        values["proxy"] = proxy_of(self.proxy)
        return {name: value for name, value in values.items() if value is not None}


def option_class(
    keywords: type, core: Core, help: Mapping[str, str] | None = None, default: Mapping[str, Any] | None = None
) -> Callable[[type[T]], type[T]]:
    """Makes a frozen dataclass of a class: with the fields that it has, and one for each row of a TypedDict.

    Args:
        keywords: the TypedDict.
        core: whose defaults of the core its options have.
        help: what help says here of some options.
        default: other defaults.
    """

    def make(made: type[T]) -> type[T]:
        annotations = dict(made.__annotations__)
        for name, hint in get_type_hints(keywords, include_extras=True).items():
            option: Option = hint.__metadata__[0]
            is_core = option.default is _CORE and option.alias_of is None
            known = CORE[core][name]["default"] if is_core else None if option.alias_of else option.default
            metadata = {
                "kind": option.kind,
                "help": (help or {}).get(name, option.help),
                "choices": _choices(hint.__origin__),
                "heading": option.heading,
                "envvar": option.envvar,
                "short": option.short,
                "alias_of": option.alias_of,
                "is_core": is_core,
            }
            annotations[name] = hint.__origin__
            setattr(made, name, field(default=(default or {}).get(name, known), metadata=metadata))
        made.__annotations__ = annotations
        finished: type[T] = dataclass(frozen=True, kw_only=True)(made)
        finished.__doc__ = f"{made.__doc__}\n{_described(finished)}\n"
        return finished

    return make


def _core_value(kind: Kind, value: Any) -> Any:  # noqa: ANN401 - of any option
    """A value as the core takes it."""
    if value is None:
        return None
    if kind == "share":
        return str(value)
    if kind == "answers" and not isinstance(value, bool):
        return list(value)
    return seconds_of(value) if kind == "date" else value


def _choices(hint: Any) -> tuple[str, ...]:  # noqa: ANN401 - a type
    """The words of a Literal, or of one that may be None."""
    if get_origin(hint) is Literal:
        return get_args(hint)
    return tuple(word for part in get_args(hint) if get_origin(part) is Literal for word in get_args(part))


def default_text(kind: Kind, default: object) -> str | None:
    """A default with its unit, for help; None when there is none to show."""
    if default is None or kind in ("flag", "answers", "dashboard"):
        return None
    if kind == "seconds":
        return f"{default:g} s"
    if kind == "bytes" and isinstance(default, int):
        return format_bytes(default)
    return str(default)


def _described(table: Any) -> str:  # noqa: ANN401 - a dataclass
    """A table as text, so that `help(fetchmill.GetOptions)` shows what the command line shows."""
    lines = []
    for option in fields(table):
        if option.metadata:
            shown = default_text(option.metadata["kind"], option.default)
            default = f" Default: {shown}." if shown else ""
            lines.append(f"        {option.name}: {option.metadata['help']}{default}")
    return "\n".join(lines)
