"""Many processes, each with a request at a time: the engine `processes`. Each has its own sink and shards."""

from fetchmill.engines import sync
from fetchmill.engines.crew_member import Member
from fetchmill.engines.transports import BlockingTransport

__all__ = ["member"]


def member(transport: BlockingTransport) -> Member:
    """What each process does."""
    return Member(sync.run, (transport,))
