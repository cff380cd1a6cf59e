"""The `processes` engine: many processes that each make one request at a time, with their own sink and shards."""

from fetchmill.engines import sync
from fetchmill.engines.transports import BlockingTransport
from fetchmill.engines.worker_entry import WorkerMain

__all__ = ["worker_main"]


def worker_main(transport: BlockingTransport) -> WorkerMain:
    """Return the work of each process."""
    return WorkerMain(sync.run, (transport,))
