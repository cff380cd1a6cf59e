"""The options of the function `fetchmill.list` and the command `fetchmill list`."""

import json
import os
from typing import TYPE_CHECKING, Unpack

from fetchmill._options.get import source_values
from fetchmill._options.rows import Options, option_class
from fetchmill._options.sources import SourceKind, check_source, kind_of
from fetchmill._options.table import LIST

if TYPE_CHECKING:
    from fetchmill._options.keywords import ListKeywords


@option_class(LIST)
class ListOptions(Options):
    """The validated, immutable options of a listing.

    `source`, `manifest` and the options for listing and reading identify a listing, so they cannot change when the
    listing is resumed. All other options can change.

    Args:
        source: `http://host:port[/path]` or `https://...` for a server that lists its objects, `s3://bucket[/prefix]`
            for a bucket, or the path of a list of URLs. `-` reads a list from standard input.
        manifest: the output file for the rows, which must not exist or must belong to the same listing. If None, rows
            are passed to the caller.

    Raises:
        UsageError: a value is invalid.

    The other options:
    """

    source: str | os.PathLike[str]
    manifest: str | os.PathLike[str] | None = None

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            source: str | os.PathLike[str],
            manifest: str | os.PathLike[str] | None = None,
            **options: Unpack[ListKeywords],
        ) -> None: ...

    def __post_init__(self) -> None:
        super().__post_init__()
        check_source(self)

    @property
    def source_kind(self) -> SourceKind:
        """The kind of source, derived from its text."""
        return kind_of(str(self.source))

    def to_json(self, temporary: str | None = None) -> str:
        """Return the options for the native module.

        Args:
            temporary: the state folder of a listing that cannot be resumed because it has no manifest.

        Raises:
            UsageError: the origin for the credentials is unknown, or ~/.netrc does not contain it.
        """
        values = source_values(self, self.source_kind)
        if temporary:
            values |= {"state": temporary, "durability": "process"}
        values["dest"] = self.manifest or values["state"]
        is_given = self.manifest is None
        values["rows"] = {"kind": "targets", "results": self.manifest, "format": self.format, "is_given": is_given}
        return json.dumps(values)
