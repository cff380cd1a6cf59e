"""The engine `combo`: processes with asyncio. Each has a thread for the dispatcher and one for the event loop."""

from fetchmill.engines import event_loop
from fetchmill.engines.transports import AsyncTransport
from fetchmill.engines.worker_entry import WorkerMain

__all__ = ["worker_main"]


def worker_main(transport: AsyncTransport, processes: int) -> WorkerMain:
    """Return the work of each process. `processes` is the job's number of processes."""
    return WorkerMain(event_loop.run, (transport, processes))
