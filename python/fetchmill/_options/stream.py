"""The options of `fetchmill.stream`, `astream`, `stream_batches` and `Client`."""

import json
from typing import TYPE_CHECKING, Unpack

from fetchmill._options.keywords import StreamKeywords
from fetchmill._options.rows import Options, option_class

_HELP = {
    "concurrency": "Requests in flight at most; `auto` finds out how many are useful while all go to one origin.",
    "concurrency_max": "Requests in flight that concurrency auto goes up to; if not given 64 for a public address, 256 "
    "for AWS's S3, else 16384.",
    "rate_per_host": "Requests a second at most, to each host; 0: no limit.",
    "redirects": "Redirects that are followed one after the other; with 0 they are replies.",
    "attempts": "Attempts at a request that may be made twice.",
    "public_only": "Let no request lead to a private address.",
    "headers": "Header fields of all requests. Those that may be secrets go to the origin `credentials_for` only; "
    "Accept, Accept-Language and User-Agent go everywhere.",
    "credentials_for": "The origin that gets headers and credentials, such as `https://host`.",
}


@option_class(StreamKeywords, "stream", help=_HELP)
class StreamOptions(Options):
    """How requests of a program are made: validated, immutable.

    Raises:
        UsageError: a value that cannot be used.

    The options:
    """

    if TYPE_CHECKING:

        def __init__(self, **options: Unpack[StreamKeywords]) -> None: ...

    def to_json(self) -> str:
        """For the native module.

        Raises:
            UsageError: credentials that have no origin, or no entry in ~/.netrc.
        """
        return json.dumps(self.core_values(self.credentials_for or ""))
