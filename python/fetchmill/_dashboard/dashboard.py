"""A dashboard, from its port being taken before a job starts to its thread's end behind the job's."""

from collections.abc import Mapping, Sequence
from typing import Self

from fetchmill._dashboard.access import listen, url_of
from fetchmill._dashboard.page_server import PageServer
from fetchmill._dashboard.pages import Pages, ShownJob


class Dashboard:
    """Listens at once; answers from `show` to the end of the `with` block.

    Args:
        address: HOST:PORT, 127.0.0.1 and a free port if not given.
        names: names that browsers know it by, beside its address and localhost.
        token: what readers must show.
        told: what is told of the job: the command, its source and its destination.

    Attributes:
        url: where a browser finds it.

    Raises:
        UsageError: the address cannot be used.
    """

    def __init__(
        self, address: str | None, names: Sequence[str], token: str | None, told: Mapping[str, str | None]
    ) -> None:
        self._listener, self._access = listen(address, names, token)
        self._told = told
        self._server: PageServer | None = None
        self.url = url_of(self._listener, address, names)

    def show(self, job: ShownJob) -> None:
        """Shows a job that has just started."""
        self._server = PageServer(self._listener, Pages(job, self._told, self._access).answer)
        self._server.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        if self._server is None:
            self._listener.close()
        else:
            self._server.close()
