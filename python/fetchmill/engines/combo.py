"""The engine `combo`: processes x asyncio. In each process, one thread runs the dispatcher and one the event loop."""

from fetchmill.engines import event_loop
from fetchmill.engines.transports import AsyncTransport
from fetchmill.engines.worker_entry import WorkerMain

__all__ = ["worker_main"]


def worker_main(transport: AsyncTransport, processes: int) -> WorkerMain:
    """Returns the work of each of `processes` processes."""
    return WorkerMain(event_loop.run, (transport, processes))
