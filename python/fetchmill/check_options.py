"""The options of `fetchmill.check` and of the command `fetchmill check`: those of `get` that make sense, and some more.

What both have is defined once, in `options`; here stands which of them there are, and which defaults differ.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypedDict, get_args

from fetchmill.credentials import request_fields
from fetchmill.errors import UsageError
from fetchmill.options import (
    CsvHeader,
    Durability,
    ListFormat,
    check_options,
    describe_options,
    native_json,
    own,
    shared,
)

ResultsFormat = Literal["parquet", "csv", "jsonl"]

# What only the tables here have: made into others before the core sees them.
_OWN = ("results", "format", "timeout", "second_look", "headers")


@dataclass(frozen=True, kw_only=True)
class CheckOptions:
    """What a check is asked to do: validated, immutable.

    `source`, the options that say how the list is read, and `results` identify a check, so they cannot change when it
    is resumed; the others may.

    Args:
        source: the path of a list of URLs, or `-` for one on standard input.
        results: the file for the rows: missing, or the same check's. None: they are only counted.

    Raises:
        UsageError: a value that cannot be used.

    The other options:
    """

    source: str | os.PathLike[str]
    results: str | os.PathLike[str] | None = None
    format: ResultsFormat | None = own(
        "choice",
        None,
        "How results are written; told from the end of their name if not given (csv and jsonl also with .gz or .zst).",
        get_args(ResultsFormat),
    )
    list_format: ListFormat | None = shared("list_format")
    column: str | None = shared("column")
    template: str | None = shared("template")
    csv_header: CsvHeader = shared("csv_header")
    key_column: str | None = shared(
        "key_column", help="Column of a list with the names of its targets, by which `diff` knows them again."
    )
    keep_columns: Sequence[str] | None = shared(
        "keep_columns", help="Columns of a list that go into the rows, with commas between them."
    )
    include: Sequence[str] | None = shared("include", help="Check only what matches: a glob, or re:REGEX; repeatable.")
    exclude: Sequence[str] | None = shared("exclude")
    sample: int | None = shared("sample", help="Check only so many targets of a list, chosen evenly at random.")
    timeout: float = own("seconds", 10.0, "Time for an attempt, from the start of the connection to the end.")
    attempts: int = shared("attempts", default=1, help="Attempts at a target before its failure is its answer.")
    second_look: bool = own(
        "flag",
        False,
        "Look once more, at the end, at what failed for a reason that may pass, and keep the better answer.",
    )
    redirects: int | None = shared("redirects", help="Redirects to follow one after the other; 5 if not given.")
    limit: int | None = shared("limit", default=4000, help="Requests in flight at most.")
    limit_per_host: int | None = shared("limit_per_host")
    rate: float | None = shared("rate")
    rate_per_host: float | None = shared("rate_per_host")
    resolver: Sequence[str] | None = shared("resolver")
    allow_private: bool = shared("allow_private")
    public_only: bool = shared("public_only")
    headers: Mapping[str, str] | None = shared(
        "headers", help="Field of requests, as in 'Name: value'; may be repeated."
    )
    credentials_for: str | None = shared(
        "credentials_for", help="The only origin that gets headers that may be secrets, https://HOST[:PORT]."
    )
    ca_file: str | os.PathLike[str] | None = shared("ca_file")
    insecure_host: Sequence[str] | None = shared("insecure_host")
    http2: bool = shared("http2", help="Use HTTP/2 where a server of https offers it.")
    proxy: str | None = shared("proxy")
    threads: int | None = shared("threads", help="Threads that fetch; one for each processor if not given.")
    commit_window: float = shared("commit_window")
    durability: Durability = shared("durability")
    state: str | os.PathLike[str] | None = shared(
        "state",
        help="Folder of the journal, on a local file system; RESULTS.fetchmill if not given, and without RESULTS a "
        "temporary one.",
    )

    def __post_init__(self) -> None:
        check_options(self)
        if "://" in str(self.source):
            raise UsageError(
                f"{self.source} is a URL, not a list: write it into a file, or `echo {self.source} | fetchmill check -`"
            )

    def to_json(self, temporary: str | None = None, *, is_iterable: bool = False) -> str:
        """For the native module: what is None is left out, which means the core's default.

        Args:
            temporary: a folder for what the check knows when nobody has named one.
            is_iterable: whether the targets are a program's.
        """
        values: dict[str, Any] = {name: value for name, value in vars(self).items() if name not in _OWN}
        state = self.state or temporary
        values |= {f"{phase}_timeout": self.timeout for phase in ("attempt", "connect", "head", "idle", "total")}
        values |= {
            "dest": self.results or state,
            "state": state,
            "durability": "process" if temporary else self.durability,
            "headers": request_fields(self.headers, None, None, None),
            "rows": {"results": self.results, "format": self.format, "second_look": self.second_look},
        }
        return native_json(values, "iterable" if is_iterable else "list")

    @property
    def is_temporary(self) -> bool:
        """Whether what the check knows is removed at its end."""
        return self.results is None and self.state is None


class CheckKeywords(TypedDict, total=False):
    """The keyword arguments of `fetchmill.check`: the fields of CheckOptions, for type checkers."""

    format: ResultsFormat | None
    list_format: ListFormat | None
    column: str | None
    template: str | None
    csv_header: CsvHeader
    key_column: str | None
    keep_columns: Sequence[str] | None
    include: Sequence[str] | None
    exclude: Sequence[str] | None
    sample: int | None
    timeout: float
    attempts: int
    second_look: bool
    redirects: int | None
    limit: int | None
    limit_per_host: int | None
    rate: float | None
    rate_per_host: float | None
    resolver: Sequence[str] | None
    allow_private: bool
    public_only: bool
    headers: Mapping[str, str] | None
    credentials_for: str | None
    ca_file: str | os.PathLike[str] | None
    insecure_host: Sequence[str] | None
    http2: bool
    proxy: str | None
    threads: int | None
    commit_window: float
    durability: Durability
    state: str | os.PathLike[str] | None


CheckOptions.__doc__ = f"{CheckOptions.__doc__}\n{describe_options(CheckOptions)}\n"
