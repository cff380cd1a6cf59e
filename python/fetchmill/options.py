"""The options of `fetchmill.get` and of the command `fetchmill get`: one table for both.

A field is an option: its name (dashes on the command line), its default, and in its metadata the kind of value and
the help text. The bounds behind the defaults are the core's, in limits.rs; a test compares the two.
"""

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, TypedDict, get_args

from fetchmill.errors import UsageError
from fetchmill.units import format_bytes

Format = Literal["files", "tar", "parquet", "warc", "jsonl", "null"]
Listing = Literal["api", "autoindex"]
Durability = Literal["power", "process"]
Kind = Literal["text", "path", "choice", "count", "seconds", "bytes", "flag"]

_SPACE, _DELETE = 0x20, 0x7F
_API_ONLY = ("list_path", "names_field", "marker_field", "total_field", "marker_param", "get_path")


def _option(kind: Kind, default: Any, help_text: str, choices: tuple[str, ...] = ()) -> Any:  # noqa: ANN401
    """A field that is an option."""
    return field(default=default, metadata={"kind": kind, "help": help_text, "choices": choices})


@dataclass(frozen=True, kw_only=True)
class GetOptions:
    """What a job is asked to do: validated, immutable.

    `source`, `listing`, the options that shape requests and names, and `format` identify a job, so they cannot
    change when it is resumed; the others may.

    Args:
        source: where targets come from, `http://host:port[/path]`.
        dest: the destination: a folder that is missing, empty or the same job's.

    Raises:
        UsageError: a value that cannot be used.

    The other options:
    """

    source: str
    dest: str | os.PathLike[str]
    format: Format = _option(
        "choice",
        "files",
        "How objects are stored: `files` is a file for each object; `parquet`, `tar`, `warc` and `jsonl` put many into "
        "one; `null` counts and discards them.",
        get_args(Format),
    )
    shard_size: int | None = _option(
        "bytes", None, "Size of a shard of tar, warc and jsonl (1 GiB if not given) or parquet (128 MiB)."
    )
    seal_after: float = _option(
        "seconds", 15.0, "Age at which a shard of parquet is complete: what a crash costs at most."
    )
    listing: Listing = _option(
        "choice",
        "api",
        "How the source is listed: `api` is GET /list in pages, `autoindex` walks a web server's folders "
        "(nginx with autoindex_format json).",
        get_args(Listing),
    )
    list_path: str = _option("text", "/list", "Path of a page of the listing, behind the path of SOURCE.")
    names_field: str = _option("text", "FileNames", "Field of a page with the names; may be dotted.")
    marker_field: str = _option("text", "NextMarker", "Field of a page with the marker of the next one; may be dotted.")
    total_field: str = _option(
        "text", "Total", "Field of a page with the number of all objects, if the server tells it; may be dotted."
    )
    marker_param: str = _option("text", "next-marker", "Query parameter that carries the marker.")
    get_path: str = _option("text", "/get/{name}", "Path of an object, behind the path of SOURCE.")
    limit: int | None = _option("count", 64, "Requests in flight at most.")
    threads: int | None = _option("count", None, "Threads that fetch; one for each processor if not given.")
    commit_window: float = _option(
        "seconds", 1.0, "Time between commits: what a crash costs at most, in fetched targets."
    )
    durability: Durability = _option(
        "choice",
        "power",
        "What a commit survives: `power` is a power cut, `process` is the death of the process only (no syncs).",
        get_args(Durability),
    )
    state: str | os.PathLike[str] | None = _option(
        "path", None, "Folder of the journal, on a local file system; DEST/.fetchmill if not given."
    )
    preflight: bool = _option(
        "flag",
        True,
        "Stop at the start, or as soon as it is known, when `files` would need more inodes or bytes than are free.",
    )
    retry_failed: bool = _option("flag", False, "Fetch again what failed or was absent in this job, and nothing else.")
    attempts: int = _option("count", 5, "Attempts at a target before it is failed.")
    connect_timeout: float = _option("seconds", 5.0, "Time for a connection.")
    head_timeout: float = _option("seconds", 15.0, "Time from a request to the end of the reply's head.")
    idle_timeout: float = _option("seconds", 15.0, "Time without a byte of a body.")
    total_timeout: float = _option("seconds", 60.0, "Time for an attempt, plus a second for each 64 KiB of its body.")
    max_size: int = _option("bytes", 64 << 20, "Largest body; a larger one is failed.")
    allow_eof_bodies: bool = _option(
        "flag", False, "Accept bodies that end with the connection: whether they are whole cannot be known."
    )
    give_up_after: float = _option("seconds", 900.0, "Time without any success after which the job ends (exit code 5).")

    def __post_init__(self) -> None:
        _check_text("source", self.source)
        object.__setattr__(self, "dest", _checked_path("dest", self.dest))
        if self.state is not None:
            object.__setattr__(self, "state", _checked_path("state", self.state))
        for option in fields(self):
            if option.metadata:
                _check(option.name, getattr(self, option.name), option.metadata)
        _check_request_paths(self)

    def to_json(self) -> str:
        """For the native module: what is None is left out, which means the core's default."""
        return json.dumps({name: value for name, value in vars(self).items() if value is not None})


class GetKeywords(TypedDict, total=False):
    """The keyword arguments of `fetchmill.get`: the fields of GetOptions, for type checkers."""

    format: Format
    shard_size: int | None
    seal_after: float
    listing: Listing
    list_path: str
    names_field: str
    marker_field: str
    total_field: str
    marker_param: str
    get_path: str
    limit: int | None
    threads: int | None
    commit_window: float
    durability: Durability
    state: str | os.PathLike[str] | None
    preflight: bool
    retry_failed: bool
    attempts: int
    connect_timeout: float
    head_timeout: float
    idle_timeout: float
    total_timeout: float
    max_size: int
    allow_eof_bodies: bool
    give_up_after: float


def default_text(kind: Kind, default: object) -> str | None:
    """A default with its unit, for help; None when there is none to show."""
    if default is None or kind == "flag":
        return None
    if kind == "seconds":
        return f"{default:g} s"
    if kind == "bytes" and isinstance(default, int):
        return format_bytes(default)
    return str(default)


def _check(name: str, value: object, metadata: Mapping[str, Any]) -> None:
    """One option against its kind. None is always allowed: it means the default."""
    if value is None:
        return
    kind: Kind = metadata["kind"]
    if kind == "text":
        _check_text(name, value)
    elif kind == "flag":
        _require(isinstance(value, bool), name, "True or False", value)
    elif kind == "choice":
        _require(value in metadata["choices"], name, "one of " + ", ".join(metadata["choices"]), value)
    elif kind == "seconds":
        number = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < math.inf
        _require(number, name, "a number of seconds above 0", value)
    elif kind in ("count", "bytes"):
        whole = isinstance(value, int) and not isinstance(value, bool) and 1 <= value < 2**63
        _require(whole, name, "a whole number of at least 1", value)


def _require(met: bool, name: str, expected: str, value: object) -> None:
    if not met:
        raise UsageError(f"{name} must be {expected}, not {value!r}")


def _check_text(name: str, value: object) -> None:
    """Text that can stand in a request."""
    _require(isinstance(value, str) and value != "", name, "a text that is not empty", value)
    text = str(value)
    _require(
        not any(ord(char) < _SPACE or ord(char) == _DELETE for char in text),
        name,
        "without control characters",
        value,
    )
    _require_utf8(name, text)


def _checked_path(name: str, value: object) -> str:
    """A path as text."""
    _require(isinstance(value, (str, os.PathLike)) and value != "", name, "a path that is not empty", value)
    path = os.fsdecode(value)  # type: ignore[arg-type]
    _require("\0" not in path, name, "a path without NUL", path)
    _require_utf8(name, path)
    return path


def _require_utf8(name: str, text: str) -> None:
    """Text that JSON can carry."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UsageError(f"{name} must be UTF-8, not {text!r}") from None


def _check_request_paths(options: GetOptions) -> None:
    """The options that shape requests, against one another."""
    if options.listing != "api":
        defaults = {option.name: option.default for option in fields(options)}
        for name in _API_ONLY:
            if getattr(options, name) != defaults[name]:
                raise UsageError(f"{name} is for listing api, not for listing {options.listing}")
    _require(options.list_path.startswith("/"), "list_path", "a path that starts with /", options.list_path)
    _require(options.get_path.startswith("/"), "get_path", "a path that starts with /", options.get_path)
    _require(options.get_path.count("{name}") == 1, "get_path", "a path with one {name}", options.get_path)


def _describe_options() -> str:
    """The table as text, so that `help(fetchmill.GetOptions)` shows what the command line shows."""
    lines = []
    for option in fields(GetOptions):
        if option.metadata:
            shown = default_text(option.metadata["kind"], option.default)
            default = f" Default: {shown}." if shown else ""
            lines.append(f"        {option.name}: {option.metadata['help']}{default}")
    return "\n".join(lines)


GetOptions.__doc__ = f"{GetOptions.__doc__}\n{_describe_options()}\n"
