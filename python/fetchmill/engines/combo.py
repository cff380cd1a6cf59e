"""The engine `combo`: processes with asyncio. In each, one thread runs the dispatcher and another the event loop."""

from fetchmill.engines import event_loop
from fetchmill.engines.transports import AsyncTransport
from fetchmill.engines.worker_entry import WorkerMain

__all__ = ["worker_main"]


def worker_main(transport: AsyncTransport, processes: int) -> WorkerMain:
    """Return the work of each of `processes` processes."""
    return WorkerMain(event_loop.run, (transport, processes))
