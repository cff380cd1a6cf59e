"""Processes x asyncio: the engine `combo`. In each process one thread has the dispatcher and one the event loop."""

from fetchmill.engines import event_loop
from fetchmill.engines.transports import AsyncTransport
from fetchmill.engines.worker_entry import WorkerMain

__all__ = ["worker_main"]


def worker_main(transport: AsyncTransport, processes: int) -> WorkerMain:
    """What each of so many processes does."""
    return WorkerMain(event_loop.run, (transport, processes))
