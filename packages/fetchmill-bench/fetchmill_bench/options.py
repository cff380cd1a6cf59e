"""The options of `fetchmill bench`."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from fetchmill.errors import UsageError
from fetchmill_bench.contender_table import BUCKETS, CONTENDERS
from fetchmill_bench.scenarios import SCENARIOS

BodyFormat = Literal["files", "null"]
Store = Literal["replay", "versitygw"]


@dataclass(frozen=True, kw_only=True)
class BenchOptions:
    """The options of a comparison. They are validated and immutable.

    Args:
        scenario: `billion`, `slow`, `sites` or `s3`. None means `billion`, or all of them with `published`.
        contender: command lines of the user's own programs; `{count}`, `{url}`, `{urls}`, `{limit}` and `{bucket}` are
            filled in.
        only: names of contenders; None for all contenders of the scenario.
        count: number of requested objects or sites; None for the scenario's default.
        limit: number of requests in flight, for ways in which it can be configured; None for the scenario's default.
        seconds: maximum duration of a contender in seconds; None for the scenario's default.
        repeat: number of runs of each contender. The contenders take turns.
        url: the user's own list/get server; None to start a server for each contender.
        format: how bodies are stored: `files` stores each one, and `null` discards them.
        published: whether to use the counts and limits of the published texts.
        full: with `published`, whether to also run the largest count of the texts; for `s3`, whether to run every count
            at every limit.
        store: the server of `s3`: the project's own implementation of the protocol, or versitygw.
        warm_up: whether to precede each run with one that does not count.

    Raises:
        UsageError: a value is invalid.
    """

    scenario: str | None = None
    contender: Sequence[str] = ()
    only: Sequence[str] | None = None
    count: int | None = None
    limit: int | None = None
    seconds: float | None = None
    repeat: int = 1
    url: str | None = None
    format: BodyFormat = "null"
    published: bool = False
    full: bool = False
    store: Store = "replay"
    warm_up: bool = True

    def __post_init__(self) -> None:
        self._check_scenario()
        self._check_numbers()
        self._check_names()
        self._check_published()
        if self.format not in get_args(BodyFormat):
            raise UsageError(f"format must be one of {', '.join(get_args(BodyFormat))}, not {self.format!r}")

    def _check_scenario(self) -> None:
        known = ", ".join(SCENARIOS)
        if self.scenario is not None and self.scenario not in SCENARIOS:
            raise UsageError(f"{self.scenario!r} is not a scenario; the scenarios are {known}")
        if self.url is not None and self.scenario == "sites":
            raise UsageError("url cannot be used with the scenario sites, because the bench provides the hosts")
        if self.url is not None and self.scenario == BUCKETS:
            raise UsageError("url cannot be used with the scenario s3, because the bench provides the store")
        if self.store not in get_args(Store):
            raise UsageError(f"store must be one of {', '.join(get_args(Store))}, not {self.store!r}")

    def _check_numbers(self) -> None:
        for name in ("count", "limit", "repeat"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UsageError(f"{name} must be a whole number of at least 1, not {value}")
        if self.seconds is not None and self.seconds <= 0:
            raise UsageError(f"seconds must be above 0, not {self.seconds:g}")

    def _check_names(self) -> None:
        known = {contender.name: contender for contender in CONTENDERS}
        for name in self.only or ():
            if name not in known:
                raise UsageError(f"{name!r} is not a contender; the contenders are {', '.join(known)}")
            scenario = self.scenario or ("" if self.published else "billion")
            if scenario and not known[name].may_run(scenario):
                raise UsageError(f"the contender {name} cannot run in the scenario {scenario}")
        for command in self.contender:
            try:
                is_empty = not shlex.split(command)
            except ValueError as error:
                raise UsageError(f"contender {command!r} cannot be read: {error}") from error
            if is_empty:
                raise UsageError("contender must be a non-empty command")

    def _check_published(self) -> None:
        if self.full and not self.published and self.scenario != BUCKETS:
            raise UsageError("full can be used only with published or with the scenario s3")
        given = [name for name in ("count", "limit", "url") if getattr(self, name) is not None]
        if self.published and given:
            raise UsageError(f"{given[0]} cannot be used with published, which has its own values")
