"""The options of `fetchmill.list` and of the command `fetchmill list`: those of `get` that are about a source.

What both have is defined once, in `options`; here stands which of them there are, and which defaults differ.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Literal, TypedDict, get_args

from fetchmill.options import (
    AddressingStyle,
    CsvHeader,
    Durability,
    ListFormat,
    Listing,
    asked_of,
    check_options,
    describe_options,
    native_json,
    own,
    shared,
)
from fetchmill.sources import SourceKind, check_source, kind_of

ManifestFormat = Literal["parquet", "csv", "jsonl"]

# What only the tables here have: made into others before the core sees them.
_OWN = ("manifest", "format", "headers", "auth", "bearer", "netrc")


@dataclass(frozen=True, kw_only=True)
class ListOptions:
    """How a source is listed: validated, immutable.

    `source`, the options that say how it is listed or read, and `manifest` identify a list, so they cannot change when
    it is resumed; the others may.

    Args:
        source: where targets come from: `http://host:port[/path]` or the same with https for a server that lists its
            objects, `s3://bucket[/prefix]` for a bucket, else the path of a list of URLs, or `-` for one on standard
            input.
        manifest: the file for the rows: missing, or the same list's. None: they are given to whoever lists.

    Raises:
        UsageError: a value that cannot be used.

    The other options:
    """

    source: str | os.PathLike[str]
    manifest: str | os.PathLike[str] | None = None
    format: ManifestFormat | None = own(
        "choice",
        None,
        "How the manifest is written; told from the end of its name if not given (csv and jsonl also .gz or .zst).",
        get_args(ManifestFormat),
    )
    listing: Listing = shared("listing")
    list_path: str = shared("list_path")
    names_field: str = shared("names_field")
    marker_field: str = shared("marker_field")
    total_field: str = shared("total_field")
    marker_param: str = shared("marker_param")
    get_path: str = shared("get_path")
    list_format: ListFormat | None = shared("list_format")
    column: str | None = shared("column")
    template: str | None = shared("template")
    csv_header: CsvHeader = shared("csv_header")
    key_column: str | None = shared("key_column")
    keep_columns: Sequence[str] | None = shared(
        "keep_columns", help="Columns of a list that go into the rows, with commas between them."
    )
    include: Sequence[str] | None = shared("include", help="List only what matches: a glob, or re:REGEX; repeatable.")
    exclude: Sequence[str] | None = shared("exclude")
    sample: int | None = shared("sample", help="List only so many targets of a list, chosen evenly at random.")
    headers: Mapping[str, str] | None = shared("headers")
    auth: str | tuple[str, str] | None = shared("auth")
    bearer: str | None = shared("bearer")
    netrc: bool = shared("netrc")
    credentials_for: str | None = shared("credentials_for")
    ca_file: str | os.PathLike[str] | None = shared("ca_file")
    insecure_host: Sequence[str] | None = shared("insecure_host")
    proxy: str | None = shared("proxy")
    connect_timeout: float = shared("connect_timeout")
    head_timeout: float = shared("head_timeout")
    idle_timeout: float = shared("idle_timeout")
    give_up_after: float = shared("give_up_after")
    commit_window: float = shared("commit_window", help="Time between commits: what a crash costs at most, in rows.")
    durability: Durability = shared("durability")
    state: str | os.PathLike[str] | None = shared(
        "state", help="Folder of the journal, on a local file system; MANIFEST.fetchmill if not given."
    )

    endpoint_url: str | None = shared("endpoint_url")
    region: str | None = shared("region")
    profile: str | None = shared("profile")
    no_sign_request: bool = shared("no_sign_request")
    addressing_style: AddressingStyle | None = shared("addressing_style")
    size_from: int | None = shared("size_from", help="List only objects of so many bytes or more.")
    size_to: int | None = shared("size_to", help="List only objects of fewer bytes.")
    modified_from: str | date | None = shared(
        "modified_from", help="List only objects written then or later: 2026-11-22 (00:00 UTC), 2026-11-22T08:30:00Z."
    )
    modified_to: str | date | None = shared("modified_to", help="List only objects written before.")

    def __post_init__(self) -> None:
        check_options(self)
        check_source(self)

    @property
    def source_kind(self) -> SourceKind:
        """What the source is, from its text."""
        return kind_of(str(self.source))

    def to_json(self, temporary: str | None = None) -> str:
        """For the native module: what is None is left out, which means the core's default.

        Args:
            temporary: a folder for what the list knows when its rows are given away, and nobody could resume it.

        Raises:
            UsageError: credentials that have no origin, or no entry in ~/.netrc.
        """
        values: dict[str, Any] = {name: value for name, value in vars(self).items() if name not in _OWN}
        state = temporary or self.state
        values |= {
            "dest": self.manifest or state,
            "state": state,
            "durability": "process" if temporary else self.durability,
            **asked_of(self),
            "rows": {
                "kind": "targets",
                "results": self.manifest,
                "format": self.format,
                "is_given": self.manifest is None,
            },
        }
        return native_json(values, self.source_kind)


class ListKeywords(TypedDict, total=False):
    """The keyword arguments of `fetchmill.list`: the fields of ListOptions, for type checkers."""

    format: ManifestFormat | None
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
    include: Sequence[str] | None
    exclude: Sequence[str] | None
    sample: int | None
    headers: Mapping[str, str] | None
    auth: str | tuple[str, str] | None
    bearer: str | None
    netrc: bool
    credentials_for: str | None
    ca_file: str | os.PathLike[str] | None
    insecure_host: Sequence[str] | None
    proxy: str | None
    connect_timeout: float
    head_timeout: float
    idle_timeout: float
    give_up_after: float
    commit_window: float
    durability: Durability
    state: str | os.PathLike[str] | None
    endpoint_url: str | None
    region: str | None
    profile: str | None
    no_sign_request: bool
    addressing_style: AddressingStyle | None
    size_from: int | None
    size_to: int | None
    modified_from: str | date | None
    modified_to: str | date | None


ListOptions.__doc__ = f"{ListOptions.__doc__}\n{describe_options(ListOptions)}\n"
