"""The options of the function `fetchmill.check` and the command `fetchmill check`."""

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
    """The validated, immutable options of a check.

    `source`, `results` and the options for reading the list identify a check, so they cannot change when the check is
    resumed. All other options can change.

    Args:
        source: the path of a list of URLs. `-` reads a list from standard input.
        results: the output file for the rows, which must not exist or must belong to the same check. If None, rows are
            only counted.

    Raises:
        UsageError: a value is invalid.

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
                f"{self.source} is a URL, not a list; write it to a file, or "
                f"run `echo {self.source} | fetchmill check -`"
            )

    def to_json(self, temporary: str | None = None, *, is_iterable: bool = False) -> str:
        """Return the options for the native module.

        Args:
            temporary: the state folder of a check without a permanent one.
            is_iterable: whether the targets come from an iterable.
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
        """Whether the state is removed when the check ends."""
        return self.results is None and self.state is None
