"""Many processes, each with a request at a time: the engine `processes`. Each has its own sink and shards."""

from fetchmill.engines import sync
from fetchmill.engines.transports import BlockingTransport
from fetchmill.engines.worker_entry import WorkerMain

__all__ = ["worker_main"]


def worker_main(transport: BlockingTransport) -> WorkerMain:
    """What each process does."""
    return WorkerMain(sync.run, (transport,))
