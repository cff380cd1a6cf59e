"""The options of `fetchmill.list` and of the command `fetchmill list`."""

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
        """What the source is, from its text."""
        return kind_of(str(self.source))

    def to_json(self, temporary: str | None = None) -> str:
        """For the native module.

        Args:
            temporary: a folder for what the list knows when its rows are given away, and nobody could resume it.

        Raises:
            UsageError: credentials that have no origin, or no entry in ~/.netrc.
        """
        values = source_values(self, self.source_kind)
        if temporary:
            values |= {"state": temporary, "durability": "process"}
        values["dest"] = self.manifest or values["state"]
        is_given = self.manifest is None
        values["rows"] = {"kind": "targets", "results": self.manifest, "format": self.format, "is_given": is_given}
        return json.dumps(values)
