"""The engine `processes`: many processes with one request at a time each. Each has its own sink and shards."""

from fetchmill.engines import sync
from fetchmill.engines.transports import BlockingTransport
from fetchmill.engines.worker_entry import WorkerMain

__all__ = ["worker_main"]


def worker_main(transport: BlockingTransport) -> WorkerMain:
    """Returns the work of each process."""
    return WorkerMain(sync.run, (transport,))
