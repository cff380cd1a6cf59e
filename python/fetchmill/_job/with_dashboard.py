"""The dashboard of a job, if one was requested."""

import contextlib
import sys
from typing import TYPE_CHECKING, Self, TypeVar

from fetchmill._options.rows import Options
from fetchmill.errors import UsageError

if TYPE_CHECKING:
    from fetchmill._dashboard.dashboard import Dashboard
    from fetchmill._dashboard.pages import ShownJob

# Names of the options that set the destination of `get`, `check` and `list`.
_DESTINATIONS = ("dest", "results", "manifest")
ShownT = TypeVar("ShownT", bound="ShownJob")


class JobDashboard:
    """A dashboard that opens its port when it is created, shows a started job, and ends with the `with` block.

    Args:
        command: `get`, `check` or `list`.
        options: the options of the job. A dashboard requires `dashboard` or `dashboard_addr`.

    Attributes:
        url: URL for browsers; None without a dashboard.

    Raises:
        UsageError: the address cannot be used, or a dashboard option is given without a dashboard.
    """

    def __init__(self, command: str, options: Options) -> None:
        self._dashboard: Dashboard | None = None
        address, names = _address_of(options), list(options.dashboard_host or ())
        if address is None and not options.dashboard:
            if names:
                raise UsageError(
                    "dashboard_host needs dashboard",
                    options=["dashboard_host", "dashboard"],
                )
        else:
            # Imported here, because most jobs have no dashboard.
            from fetchmill._dashboard import dashboard

            dest = next(getattr(options, name) for name in ("dest", "results", "manifest") if hasattr(options, name))
            told = {"command": command, "source": str(options.source), "dest": None if dest is None else str(dest)}
            self._dashboard = dashboard.Dashboard(address, names, options.dashboard_token, told)
        self.url = self._dashboard.url if self._dashboard else None

    def show(self, job: ShownT) -> ShownT:
        """Show a job that has just started. Return the job."""
        if self._dashboard is not None:
            self._dashboard.show(job)
        return job

    def show_in_program(self, job: ShownT) -> ShownT:
        """Show a job that a program has just started. Print the dashboard's URL on standard error. Return the job."""
        if self.url is not None and sys.stderr is not None:
            with contextlib.suppress(OSError, ValueError):  # the stream is closed
                sys.stderr.write(f"fetchmill: dashboard: {self.url}\n")
                sys.stderr.flush()
        return self.show(job)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._dashboard is not None:
            self._dashboard.__exit__(*exception)


def _address_of(options: Options) -> str | None:
    """Return HOST:PORT if `dashboard` or `dashboard_addr` specifies it."""
    given = [text for text in (options.dashboard, options.dashboard_addr) if isinstance(text, str)]
    if len(set(given)) > 1:
        raise UsageError(
            "dashboard and dashboard_addr give different addresses; leave out one of them",
            options=["dashboard", "dashboard_addr"],
        )
    return given[0] if given else None
