"""The options of `fetchmill.check` and of the command `fetchmill check`."""

import json
import os
from typing import TYPE_CHECKING, Unpack

from fetchmill._options.rows import Options, option_class
from fetchmill._options.table import CHECK
from fetchmill.errors import UsageError

if TYPE_CHECKING:
    from fetchmill._options.keywords import CheckKeywords


@option_class(CHECK)
class CheckOptions(Options):
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

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            source: str | os.PathLike[str],
            results: str | os.PathLike[str] | None = None,
            **options: Unpack[CheckKeywords],
        ) -> None: ...

    def __post_init__(self) -> None:
        super().__post_init__()
        if "://" in str(self.source):
            raise UsageError(
                f"{self.source} is a URL, not a list: write it into a file, or `echo {self.source} | fetchmill check -`"
            )

    def to_json(self, temporary: str | None = None, *, is_iterable: bool = False) -> str:
        """For the native module.

        Args:
            temporary: a folder for what the check knows when nobody has named one.
            is_iterable: whether the targets are a program's.
        """
        source = str(self.source)
        values = self.core_values(source) | {"source": source, "source_kind": "iterable" if is_iterable else "list"}
        if temporary:
            values |= {"state": temporary, "durability": "process"}
        values["dest"] = self.results or values["state"]
        values["rows"] = {"results": self.results, "format": self.format}
        return json.dumps(values)

    @property
    def is_temporary(self) -> bool:
        """Whether what the check knows is removed at its end."""
        return self.results is None and self.state is None
