"""A replacement for `dataclass` that generates no code, for values that every command needs at startup.

The standard library compiles up to seven methods per class, which takes 0.7 ms of processor time. Here, all classes
share one set of methods, which costs an extra microsecond per value. Type checkers see the standard library's
decorator. `fields`, `asdict`, `replace`, comparison, hashing and pickling work as usual.
"""

import dataclasses
from functools import cache

__all__ = ["dataclass"]

# Replaces `typing.TYPE_CHECKING`, because some commands do not import `typing`.
TYPE_CHECKING = False
if TYPE_CHECKING:
    import inspect
    from collections.abc import Callable
    from dataclasses import dataclass
    from typing import Any, TypeVar

    T = TypeVar("T")
else:

    def dataclass(*, frozen: bool, kw_only: bool) -> "Callable[[type[T]], type[T]]":
        """Return a decorator that turns a class into an immutable dataclass with keyword-only fields."""
        if not (frozen and kw_only):
            raise TypeError("a quick dataclass must be frozen and keyword-only")

        def make(made: "type[T]") -> "type[T]":
            own = {"init": False, "repr": False, "eq": False, "match_args": False}
            finished = dataclasses.dataclass(kw_only=True, **own)(made)
            for name in _SHARED:
                # Keep a `__repr__` defined by the class or a base class.
                if name != "__repr__" or made.__repr__ is object.__repr__:
                    setattr(finished, name, vars(_Methods)[name])
            return finished

        return make


class _Signature:
    """The signature that `inspect.signature` shows, created on demand."""

    def __get__(self, _value: object, made: type) -> "inspect.Signature":
        import inspect

        parameters = []
        for each in _fields(made):
            has_factory = each.default_factory is not dataclasses.MISSING
            default = each.default if each.default is not dataclasses.MISSING else inspect.Parameter.empty
            shown = each.default_factory if has_factory else default
            parameters.append(
                inspect.Parameter(each.name, inspect.Parameter.KEYWORD_ONLY, default=shown, annotation=each.type)
            )
        return inspect.Signature(parameters)


class _Methods:
    """The methods that all quick dataclasses share."""

    __signature__ = _Signature()

    def __init__(self, **given: object) -> None:
        made = type(self)
        values = self.__dict__
        for each in _fields_of(self):
            if each.name in given:
                values[each.name] = given.pop(each.name)
            elif each.default is not dataclasses.MISSING:
                values[each.name] = each.default
            elif each.default_factory is not dataclasses.MISSING:
                values[each.name] = each.default_factory()
            else:
                raise TypeError(f"{made.__name__}.__init__() missing a required keyword-only argument: {each.name!r}")
        if given:
            # The class may explain why it does not have this field.
            refuse_unknown = getattr(made, "refuse_unknown", None)
            if refuse_unknown is not None:
                refuse_unknown(next(iter(given)))
            raise TypeError(f"{made.__name__}.__init__() got an unexpected keyword argument {next(iter(given))!r}")
        post_init = getattr(self, "__post_init__", None)
        if post_init is not None:
            post_init()

    def __repr__(self) -> str:
        values = ", ".join(f"{each.name}={getattr(self, each.name)!r}" for each in _fields_of(self) if each.repr)
        return f"{type(self).__qualname__}({values})"

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, each.name) == getattr(other, each.name) for each in _fields_of(self) if each.compare)

    def __hash__(self) -> int:
        hashed = (each for each in _fields_of(self) if (each.compare if each.hash is None else each.hash))
        return hash(tuple(getattr(self, each.name) for each in hashed))

    def __setattr__(self, name: str, value: object) -> None:
        raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> None:
        raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


_SHARED = ("__signature__", "__init__", "__repr__", "__eq__", "__hash__", "__setattr__", "__delattr__")


def _fields_of(value: object) -> "tuple[dataclasses.Field[Any], ...]":
    made: Any = type(value)
    return _fields(made)


@cache
def _fields(made: "Any") -> "tuple[dataclasses.Field[Any], ...]":  # noqa: ANN401 - a class
    return dataclasses.fields(made)
