"""`python -m fetchmill.bench.serving OPTIONS`: the file server of a contender, in a process of its own.

One line of JSON says where it is, then one for each line of its standard input, with its counters; it ends with that.
"""

import json
import sys
from typing import Any

from fetchmill.server import ServeOptions, Server


def main() -> None:
    """Serves until standard input ends."""
    with Server(ServeOptions(**json.loads(sys.argv[1]))) as server:
        _say({"url": server.url})
        for _ in sys.stdin:
            _say(server.stats())


def _say(value: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
