"""Processes x asyncio: the engine `combo`. In each process one thread has the desk and one the event loop."""

from fetchmill.engines import event_loop
from fetchmill.engines.crew_member import Member
from fetchmill.engines.transports import AwaitingTransport

__all__ = ["member"]


def member(transport: AwaitingTransport, limit: int) -> Member:
    """What each process does, with at most `limit` requests in flight."""
    return Member(event_loop.run, (transport, limit))
