"""The `combo` engine: several processes, each with one thread for the dispatcher and one for an asyncio event loop."""

from fetchmill.engines import event_loop
from fetchmill.engines.transports import AsyncTransport
from fetchmill.engines.worker_entry import WorkerMain

__all__ = ["worker_main"]


def worker_main(transport: AsyncTransport, processes: int) -> WorkerMain:
    """Return the work of each of the job's processes. `processes` is the number of processes."""
    return WorkerMain(event_loop.run, (transport, processes))
