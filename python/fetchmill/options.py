"""The options of `fetchmill.get` and of the command `fetchmill get`: one table for both.

A field is an option: its name (dashes on the command line), its default, and in its metadata the kind of value and
the help text. The bounds behind the defaults are the core's, in limits.rs; a test compares the two.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import date
from typing import Any, Literal, TypedDict, get_args

from fetchmill.credentials import origin_of, proxy_of, request_fields
from fetchmill.dates import seconds_of
from fetchmill.errors import UsageError
from fetchmill.fetched import Function
from fetchmill.sources import SourceKind, check_source, kind_of
from fetchmill.units import format_bytes
from fetchmill.values import Kind, check_path, check_text, check_value

Format = Literal["files", "tar", "parquet", "warc", "jsonl", "null"]
Listing = Literal["api", "autoindex"]
Durability = Literal["power", "process"]
ListFormat = Literal["txt", "csv", "tsv", "jsonl", "parquet"]
CsvHeader = Literal["auto", "yes", "no"]
Names = Literal["source", "seq"]
EngineName = Literal["native", "sync", "threads", "processes", "asyncio", "combo"]
AddressingStyle = Literal["auto", "path", "virtual"]

# Requests in flight unless somebody says so; the core has it too.
LIMIT_DEFAULT = 64

# Arguments that are paths.
_PATHS = ("dest", "manifest", "results")
# What is made into fields of requests before the core sees it.
_CREDENTIALS = ("headers", "auth", "bearer", "netrc")
# What the core is told in another way, or not at all.
_OF_PYTHON = ("engine",)


def _option(kind: Kind, default: Any, help_text: str, choices: tuple[str, ...] = (), heading: str = "Options") -> Any:  # noqa: ANN401
    """A field that is an option; help shows it under a heading."""
    return field(default=default, metadata={"kind": kind, "help": help_text, "choices": choices, "heading": heading})


@dataclass(frozen=True, kw_only=True)
class GetOptions:
    """What a job is asked to do: validated, immutable.

    `source`, `listing`, the options that shape requests and names, and `format` identify a job, so they cannot
    change when it is resumed; the others may.

    Args:
        source: where targets come from: `http://host:port[/path]` or the same with https for a server that lists its
            objects, `s3://bucket[/prefix]` for a bucket, else the path of a list of URLs, or `-` for one on standard
            input.
        dest: the destination: a folder that is missing, empty or the same job's; or `s3://BUCKET/PREFIX/`.

    Raises:
        UsageError: a value that cannot be used.

    The other options:
    """

    source: str | os.PathLike[str]
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
    list_format: ListFormat | None = _option(
        "choice", None, "What a list is; told from its name if not given, else txt.", get_args(ListFormat)
    )
    column: str | None = _option(
        "text",
        None,
        "Column of a list with the URL: its name, or its number from 1; the first, or `url`, if not given.",
    )
    template: str | None = _option(
        "text", None, "URL that is made of a column, as in 'https://www.{}'; {name} is another column."
    )
    csv_header: CsvHeader = _option(
        "choice", "auto", "Whether the first row of a csv or tsv list has the columns' names.", get_args(CsvHeader)
    )
    key_column: str | None = _option(
        "text", None, "Column of a list with the names of objects; their URLs if not given."
    )
    keep_columns: Sequence[str] | None = _option(
        "texts", None, "Columns of a list that go into the rows of parquet and jsonl, with commas between them."
    )
    names: Names = _option(
        "choice",
        "source",
        "What objects of a list are called: `source` is key or URL (for `files` host/path?query), `seq` their number.",
        get_args(Names),
    )
    include: Sequence[str] | None = _option(
        "patterns", None, "Fetch only what matches: a glob, or re:REGEX; may be repeated."
    )
    exclude: Sequence[str] | None = _option("patterns", None, "Leave out what matches; may be repeated.")
    sample: int | None = _option("count", None, "Fetch only so many targets of a list, chosen evenly at random.")
    engine: EngineName = _option(
        "choice",
        "native",
        "What makes the requests: `native` is the fastest; the others are Python's ways, with requests (`sync`, "
        "`threads`, `processes`) and aiohttp (`asyncio`, `combo`: processes x asyncio).",
        get_args(EngineName),
    )
    limit: int | None = _option(
        "count",
        None,
        f"Requests in flight at most; {LIMIT_DEFAULT} if not given, and with engine processes one for each processor.",
    )
    rate: float | None = _option("number", None, "Requests a second at most, of the whole job.")
    rate_per_host: float | None = _option(
        "rate",
        None,
        "Requests a second at most, to each host; 50 for a list of many hosts if not given, 0: no limit.",
    )
    limit_per_host: int | None = _option(
        "whole",
        None,
        "Requests in flight at most, to each host; 4 for a list of many hosts if not given, 0: no limit.",
    )
    redirects: int | None = _option(
        "whole", None, "Redirects to follow one after the other; 5 for a list and 0 for a server if not given."
    )
    headers: Mapping[str, str] | None = _option(
        "headers", None, "Field of requests to the source's origin, as in 'Name: value'; may be repeated."
    )
    auth: str | tuple[str, str] | None = _option("auth", None, "Basic authentication, USER:PASSWORD.")
    bearer: str | None = _option("text", None, "Token for bearer authentication.")
    netrc: bool = _option("flag", False, "Take user and password from ~/.netrc.")
    credentials_for: str | None = _option(
        "text", None, "Origin that gets headers and credentials, https://HOST[:PORT]; a list needs it."
    )
    ca_file: str | os.PathLike[str] | None = _option(
        "path", None, "Certificates to trust instead of the system's, in PEM."
    )
    insecure_host: Sequence[str] | None = _option(
        "patterns", None, "Host whose certificate is not checked; may be repeated."
    )
    resolver: Sequence[str] | None = _option(
        "patterns",
        None,
        "Name server to ask, ADDRESS[:PORT], or `system` for the machine's own look-up; may be repeated.",
    )
    allow_private: bool = _option("flag", False, "Let the targets of a list lead to private addresses.")
    public_only: bool = _option(
        "flag", False, "Let no target lead to a private address, also those of servers and programs."
    )
    http2: bool = _option("flag", True, "Use HTTP/2 where a server of https offers it; engine native only.")
    proxy: str | None = _option(
        "text", None, "Proxy for all requests, http://[USER:PASSWORD@]HOST:PORT; `env` takes it from the environment."
    )
    threads: int | None = _option(
        "count", None, "Threads that fetch, with engine combo processes; one for each processor if not given."
    )
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
        "path",
        None,
        "Folder of the journal, on a local file system; DEST/.fetchmill if not given, for a bucket ./NAME.fetchmill.",
    )
    preflight: bool = _option(
        "flag",
        True,
        "Stop at the start, or as soon as it is known, when `files` would need more inodes or bytes than are free.",
    )
    transform: Function | str | None = _option(
        "function",
        None,
        "Function that makes of fetched replies what is stored, as MODULE:FUNCTION (docs/transform.md).",
    )
    transform_columns: Sequence[str] | None = _option(
        "texts", None, "Columns of parquet and jsonl that the function fills, with commas between them."
    )
    transform_batch: int = _option("count", 256, "Replies that the function is given at once, at most.")
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
    endpoint_url: str | None = _option(
        "url", None, "Store to ask instead of AWS, http://HOST[:PORT] or https://HOST[:PORT].", heading="S3"
    )
    region: str | None = _option(
        "name", None, "Region of the bucket; found out if neither environment nor profile says it.", heading="S3"
    )
    profile: str | None = _option(
        "name", None, "Profile of ~/.aws/config and ~/.aws/credentials with the credentials.", heading="S3"
    )
    no_sign_request: bool = _option(
        "flag", False, "Sign no requests and look for no credentials: for public buckets.", heading="S3"
    )
    addressing_style: AddressingStyle | None = _option(
        "choice",
        None,
        "Where the bucket stands in a request: `virtual` is in the host, `path` in the path; `auto`, if not given, is "
        "in the host at AWS and in the path elsewhere.",
        get_args(AddressingStyle),
        heading="S3",
    )
    size_from: int | None = _option("size", None, "Fetch only objects of so many bytes or more.", heading="S3")
    size_to: int | None = _option("size", None, "Fetch only objects of fewer bytes.", heading="S3")
    modified_from: str | date | None = _option(
        "date",
        None,
        "Fetch only objects written then or later: 2026-11-22 (00:00 UTC), 2026-11-22T08:30:00Z.",
        heading="S3",
    )
    modified_to: str | date | None = _option("date", None, "Fetch only objects written before.", heading="S3")

    def __post_init__(self) -> None:
        check_options(self)
        check_source(self)
        if self.transform_columns and self.transform is None:
            raise UsageError("transform_columns needs a transform, which fills them")

    @property
    def source_kind(self) -> SourceKind:
        """What the source is, from its text."""
        return kind_of(str(self.source))

    def to_json(self, kind: SourceKind | None = None) -> str:
        """For the native module: what is None is left out, which means the core's default.

        Args:
            kind: what the source is when its text does not say it.

        Raises:
            UsageError: credentials that have no origin, or no entry in ~/.netrc; or a transform that other processes
                cannot import.
        """
        values = {name: value for name, value in vars(self).items() if name not in (*_CREDENTIALS, *_OF_PYTHON)}
        transform = values.pop("transform"), values.pop("transform_columns") or (), values.pop("transform_batch")
        if transform[0] is not None:
            from fetchmill.transforming import native_transform

            values["transform"] = native_transform(*transform)
        values |= asked_of(self)
        return native_json(values, kind or self.source_kind)


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
    list_format: ListFormat | None
    column: str | None
    template: str | None
    csv_header: CsvHeader
    key_column: str | None
    keep_columns: Sequence[str] | None
    names: Names
    include: Sequence[str] | None
    exclude: Sequence[str] | None
    sample: int | None
    engine: EngineName
    limit: int | None
    rate: float | None
    rate_per_host: float | None
    limit_per_host: int | None
    redirects: int | None
    headers: Mapping[str, str] | None
    auth: str | tuple[str, str] | None
    bearer: str | None
    netrc: bool
    credentials_for: str | None
    ca_file: str | os.PathLike[str] | None
    insecure_host: Sequence[str] | None
    resolver: Sequence[str] | None
    allow_private: bool
    public_only: bool
    http2: bool
    proxy: str | None
    threads: int | None
    commit_window: float
    durability: Durability
    state: str | os.PathLike[str] | None
    preflight: bool
    transform: Function | str | None
    transform_columns: Sequence[str] | None
    transform_batch: int
    retry_failed: bool
    attempts: int
    connect_timeout: float
    head_timeout: float
    idle_timeout: float
    total_timeout: float
    max_size: int
    allow_eof_bodies: bool
    give_up_after: float
    endpoint_url: str | None
    region: str | None
    profile: str | None
    no_sign_request: bool
    addressing_style: AddressingStyle | None
    size_from: int | None
    size_to: int | None
    modified_from: str | date | None
    modified_to: str | date | None


def asked_of(options: Any) -> dict[str, Any]:  # noqa: ANN401 - a dataclass
    """What the core is told in another form: who asks, and which times are meant.

    Raises:
        UsageError: credentials that have no origin, or no entry in ~/.netrc.
    """
    source = str(options.source)
    origin = options.credentials_for or (origin_of(source) if kind_of(source) == "server" else None)
    if options.netrc and origin is None:
        raise UsageError("netrc needs credentials_for: a list may lead anywhere")
    times = {name: getattr(options, name) for name in ("modified_from", "modified_to")}
    return {
        "headers": request_fields(options.headers, options.auth, options.bearer, origin if options.netrc else None),
        "no_sign_request": options.no_sign_request or None,
        **{name: None if time is None else seconds_of(time) for name, time in times.items()},
    }


def native_json(values: Mapping[str, Any], kind: SourceKind) -> str:
    """The options of a job for the native module: what is None is left out, which means the core's default."""
    asked = values.get("endpoint_url") if kind == "s3" else None
    proxy, no_proxy = proxy_of(values["proxy"], asked or str(values["source"]))
    complete = {**values, "proxy": proxy, "no_proxy": no_proxy, "source_kind": kind}
    return json.dumps({name: value for name, value in complete.items() if value is not None})


def shared(name: str, **changes: Any) -> Any:  # noqa: ANN401 - a field
    """An option of `GetOptions` in another table; `default` and `help` may be other ones there."""
    found = next(option for option in fields(GetOptions) if option.name == name)
    default = changes.pop("default", found.default)
    return field(default=default, metadata={**found.metadata, **changes})


def own(kind: Kind, default: Any, help_text: str, choices: tuple[str, ...] = ()) -> Any:  # noqa: ANN401 - a field
    """An option of another table, that `GetOptions` has not."""
    return _option(kind, default, help_text, choices)


def check_options(options: Any) -> None:  # noqa: ANN401 - a dataclass
    """Paths become text, and every value is one of its option's kind.

    Raises:
        UsageError: a value cannot be used.
    """
    if isinstance(options.source, os.PathLike):
        object.__setattr__(options, "source", check_path("source", options.source))
    check_text("source", options.source)
    for option in fields(options):
        value = getattr(options, option.name)
        if option.metadata.get("kind") == "path" or option.name in _PATHS:
            object.__setattr__(options, option.name, None if value is None else check_path(option.name, value))
        elif option.metadata:
            check_value(option.name, value, option.metadata)


def default_text(kind: Kind, default: object) -> str | None:
    """A default with its unit, for help; None when there is none to show."""
    if default is None or kind == "flag":
        return None
    if kind == "seconds":
        return f"{default:g} s"
    if kind == "bytes" and isinstance(default, int):
        return format_bytes(default)
    return str(default)


def describe_options(table: Any) -> str:  # noqa: ANN401 - a dataclass
    """A table as text, so that `help(fetchmill.GetOptions)` shows what the command line shows."""
    lines = []
    for option in fields(table):
        if option.metadata:
            shown = default_text(option.metadata["kind"], option.default)
            default = f" Default: {shown}." if shown else ""
            lines.append(f"        {option.name}: {option.metadata['help']}{default}")
    return "\n".join(lines)


GetOptions.__doc__ = f"{GetOptions.__doc__}\n{describe_options(GetOptions)}\n"
