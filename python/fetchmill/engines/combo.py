"""The engine `combo`: processes with asyncio. Each one has a thread for the dispatcher and one for the event loop."""

from fetchmill.engines import event_loop
from fetchmill.engines.transports import AsyncTransport
from fetchmill.engines.worker_entry import WorkerMain

__all__ = ["worker_main"]


def worker_main(transport: AsyncTransport, processes: int) -> WorkerMain:
    """Return the work of each process. The job has `processes` of them."""
    return WorkerMain(event_loop.run, (transport, processes))
