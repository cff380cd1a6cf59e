"""A job's dashboard, which reserves its port before the job starts and stops its thread after the job ends."""

from collections.abc import Mapping, Sequence
from typing import Self

from fetchmill._dashboard.access import listen, url_of
from fetchmill._dashboard.page_server import PageServer
from fetchmill._dashboard.pages import Pages, ShownJob


class Dashboard:
    """The dashboard of one job. It listens immediately, and answers requests from `show` until the `with` block ends.

    Args:
        address: HOST:PORT. Defaults to 127.0.0.1 and a free port.
        names: host names that browsers can use in addition to the dashboard's address and localhost.
        token: the token that clients must present.
        told: facts about the job: the command, source and destination.

    Attributes:
        url: the URL for browsers.

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
        """Show a job that has just started."""
        self._server = PageServer(self._listener, Pages(job, self._told, self._access).answer)
        self._server.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        if self._server is None:
            self._listener.close()
        else:
            self._server.close()
