"""The options of `fetchmill.stream`, `astream`, `stream_batches` and `Client`."""

import json
from typing import TYPE_CHECKING, Unpack

from fetchmill._options.rows import Options, option_class
from fetchmill._options.table import STREAM

if TYPE_CHECKING:
    from fetchmill._options.keywords import StreamKeywords


@option_class(STREAM)
class StreamOptions(Options):
    """The validated, immutable options of a stream or client.

    Raises:
        UsageError: a value is invalid.

    The options:
    """

    if TYPE_CHECKING:

        def __init__(self, **options: Unpack[StreamKeywords]) -> None: ...

    def to_json(self) -> str:
        """Return the options for the native module.

        Raises:
            UsageError: the origin for the credentials is unknown, or ~/.netrc does not contain it.
        """
        return json.dumps(self.core_values(self.credentials_for or ""))
