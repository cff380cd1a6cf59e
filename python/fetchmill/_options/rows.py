"""The rows of the option table, and the option classes that are created from them.

The rows are defined in `table`, which is generated. An option class is a frozen dataclass with one field per row.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, field, fields
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from fetchmill._options.credentials import named_client, origin_of, proxy_of, request_fields
from fetchmill._options.dates import seconds_of
from fetchmill._options.sources import kind_of
from fetchmill._options.units import format_bytes
from fetchmill._options.values import Kind, check_path, check_text, check_value
from fetchmill._quick_dataclass import dataclass
from fetchmill.errors import UsageError

T = TypeVar("T")
# Arguments that are paths.
_PATHS = ("dest", "manifest", "results")


class Option:
    """A row of the option table, without the option's name.

    Args:
        kind: the kind of value.
        type: the Python type of the value.
        default: the value used if the option is not given.
        help: the help text.
        choices: the allowed words, for a choice.
        refused: words of the choice that the class refuses with a specific error; help omits them.
        heading: the section in the command's help.
        envvar: the environment variable read by the command, for values that must not appear in process lists.
        short: the one-letter name on the command line.
        alias_of: the aliased option.
        is_core: whether the core has an option with this name.
    """

    __slots__ = ("default", "metadata", "type")

    def __init__(  # noqa: PLR0913 - all fields of a row
        self,
        kind: Kind,
        type: Any,  # noqa: ANN401 - a type
        default: object,
        help: str,
        *,
        choices: tuple[str, ...] = (),
        refused: tuple[str, ...] = (),
        heading: str = "Other",
        envvar: str | None = None,
        short: str | None = None,
        alias_of: str | None = None,
        is_core: bool = True,
    ) -> None:
        self.type = type
        self.default = default
        self.metadata = {
            "kind": kind,
            "help": help,
            "choices": choices,
            "refused": refused,
            "heading": heading,
            "envvar": envvar,
            "short": short,
            "alias_of": alias_of,
            "is_core": is_core,
        }


class Options:
    """The base class of all option classes, whose instances are validated and immutable."""

    if TYPE_CHECKING:
        __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

        def __getattr__(self, name: str) -> Any: ...  # noqa: ANN401 - same type as the keyword

    _rows: ClassVar[Mapping[str, Option]]

    @classmethod
    def refuse_unknown(cls, name: str) -> None:
        """Raise an error for an option that this class does not accept.

        Raises:
            UsageError: another call accepts the option. The message names that call.
            TypeError: no call accepts the option.
        """
        # Imported here because the module loads the rows of all classes.
        from fetchmill._options.elsewhere import call_of, describe_elsewhere

        call = call_of(cls._rows)
        elsewhere = describe_elsewhere(call, name) if call else None
        if elsewhere:
            raise UsageError(f"{name}: not an option of {call}: {elsewhere}")
        if call:
            from difflib import get_close_matches

            close = get_close_matches(name, cls._rows, n=1)
            meant = f"; did you mean {close[0]}?" if close else ""
            raise TypeError(f"{call}() has no argument {name}{meant}")

    def __post_init__(self) -> None:
        if hasattr(self, "source"):
            if isinstance(self.source, os.PathLike):
                object.__setattr__(self, "source", check_path("source", self.source))
            check_text("source", self.source)
        for option in fields(self):
            value = getattr(self, option.name)
            if option.metadata.get("kind") == "path" or option.name in _PATHS:
                if value is None and option.default is MISSING:
                    raise UsageError(f"{option.name} must be a path, not None", options=[option.name])
                object.__setattr__(self, option.name, None if value is None else check_path(option.name, value))
            elif option.metadata:
                check_value(option.name, value, option.metadata)
        self._take_aliases()

    def _take_aliases(self) -> None:
        """Move the values of aliases to the aliased options."""
        for alias in fields(self):
            name, value = alias.metadata.get("alias_of"), getattr(self, alias.name)
            if name is None or value is None:
                continue
            (option,) = (option for option in fields(self) if option.name == name)
            if getattr(self, name) not in (option.default, value):
                raise UsageError(
                    f"{name} and {alias.name} are the same option; leave out one of them",
                    options=[name, alias.name],
                )
            object.__setattr__(self, name, value)
            object.__setattr__(self, alias.name, None)

    def core_values(self, asked: str) -> dict[str, Any]:
        """Return the options in the core's form, without options that have their default values.

        Args:
            asked: the URL of the first request, which selects the entry in ~/.netrc.

        Raises:
            UsageError: the origin for the credentials is unknown, or ~/.netrc does not contain it.
        """
        values = {
            option.name: _core_value(option.metadata["kind"], getattr(self, option.name))
            for option in fields(self)
            if option.metadata.get("is_core") and getattr(self, option.name) != option.default
        }
        auth, bearer, has_netrc = (getattr(self, name, None) for name in ("auth", "bearer", "netrc"))
        origin = None
        if has_netrc:
            origin = self.credentials_for or (origin_of(asked) if kind_of(asked) == "server" else None)
            if origin is None:
                raise UsageError(
                    "netrc needs credentials_for, because targets may be on any host; name the only origin that "
                    "receives the credentials",
                    options=["netrc", "credentials_for"],
                )
        has_command = getattr(self, "bearer_command", None) is not None
        headers = named_client(self.headers, getattr(self, "user_agent", None))
        values["headers"] = request_fields(headers, auth, bearer, origin, has_command=has_command)
        values["proxy"] = proxy_of(self.proxy)
        return {name: value for name, value in values.items() if value is not None}


def option_class(options: Mapping[str, Option]) -> Callable[[type[T]], type[T]]:
    """Return a decorator that makes a class a frozen dataclass and adds one field per row to the class's own fields.

    Args:
        options: the rows, by option name.
    """

    def make(made: type[T]) -> type[T]:
        annotations = dict(made.__annotations__)
        for name, option in options.items():
            annotations[name] = option.type
            setattr(made, name, field(default=option.default, metadata=option.metadata))
        made.__annotations__ = annotations
        finished: type[T] = dataclass(frozen=True, kw_only=True)(made)
        finished._rows = options  # type: ignore[attr-defined]  # noqa: SLF001 - see Options
        finished.__doc__ = f"{made.__doc__}\n{_described(finished)}\n"
        return finished

    return make


def _core_value(kind: Kind, value: Any) -> Any:  # noqa: ANN401 - a value of any option
    """Convert a value to the core's form."""
    if value is None:
        return None
    if kind == "share":
        return str(value)
    if kind == "statuses" or (kind == "answers" and not isinstance(value, bool)):
        return list(value)
    return seconds_of(value) if kind == "date" else value


def default_text(kind: Kind, default: object) -> str | None:
    """Return the default to show in help, with its unit, or None if there is none."""
    if default is None or kind in ("answers", "dashboard"):
        return None
    if kind == "seconds":
        return f"{default:g} s"
    if kind == "bytes" and isinstance(default, int):
        return format_bytes(default)
    return str(default)


def _described(table: Any) -> str:  # noqa: ANN401 - a dataclass
    """Return the help of all options as text, which `help(fetchmill.GetOptions)` shows."""
    lines = []
    for option in fields(table):
        if option.metadata:
            shown = default_text(option.metadata["kind"], option.default)
            default = f" Default: {shown}." if shown else ""
            lines.append(f"        {option.name}: {option.metadata['help']}{default}")
    return "\n".join(lines)
