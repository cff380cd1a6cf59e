"""The dashboard that a job was asked to have, or none."""

import contextlib
import sys
from typing import TYPE_CHECKING, Self, TypeVar

from fetchmill._options.rows import Options
from fetchmill.errors import UsageError

if TYPE_CHECKING:
    from fetchmill._dashboard.dashboard import Dashboard
    from fetchmill._dashboard.pages import ShownJob

# What the destination is called: of `get`, of `check`, of `list`.
_DESTINATIONS = ("dest", "results", "manifest")
ShownT = TypeVar("ShownT", bound="ShownJob")


class JobDashboard:
    """Takes its port when it is made, shows a job that has started, and ends with the `with` block.

    Args:
        command: `get`, `check` or `list`.
        options: of the job; without `dashboard` and `dashboard_addr` nothing happens.

    Attributes:
        url: where a browser finds it; None without one.

    Raises:
        UsageError: its address cannot be used, or options of a dashboard are given without one.
    """

    def __init__(self, command: str, options: Options) -> None:
        self._dashboard: Dashboard | None = None
        address, names = _address_of(options), list(options.dashboard_host or ())
        if address is None and not options.dashboard:
            if names:
                raise UsageError(
                    "dashboard_host needs dashboard, since it is a name of one",
                    options=["dashboard_host", "dashboard"],
                )
        else:
            # Imported late: most jobs have none.
            from fetchmill._dashboard import dashboard

            dest = next(getattr(options, name) for name in ("dest", "results", "manifest") if hasattr(options, name))
            told = {"command": command, "source": str(options.source), "dest": None if dest is None else str(dest)}
            self._dashboard = dashboard.Dashboard(address, names, options.dashboard_token, told)
        self.url = self._dashboard.url if self._dashboard else None

    def show(self, job: ShownT) -> ShownT:
        """Shows a job that has just started; gives it back."""
        if self._dashboard is not None:
            self._dashboard.show(job)
        return job

    def show_in_program(self, job: ShownT) -> ShownT:
        """The same for a program, whose standard error is told where the dashboard is."""
        if self.url is not None and sys.stderr is not None:
            with contextlib.suppress(OSError, ValueError):  # nobody reads it
                sys.stderr.write(f"fetchmill: dashboard: {self.url}\n")
                sys.stderr.flush()
        return self.show(job)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._dashboard is not None:
            self._dashboard.__exit__(*exception)


def _address_of(options: Options) -> str | None:
    """HOST:PORT, if one of the two options that may name it does."""
    given = [text for text in (options.dashboard, options.dashboard_addr) if isinstance(text, str)]
    if len(set(given)) > 1:
        raise UsageError(
            "dashboard and dashboard_addr are two addresses of one dashboard: give one of them",
            options=["dashboard", "dashboard_addr"],
        )
    return given[0] if given else None
