"""The options of the function `fetchmill.plan` and the command `fetchmill plan`."""

import os
from typing import TYPE_CHECKING, Any, Final, Unpack

from fetchmill._options.get import GetOptions
from fetchmill._options.list import ListOptions
from fetchmill._options.rows import Options, option_class
from fetchmill._options.sources import SourceKind, check_source, kind_of, values_for
from fetchmill._options.table import PLAN
from fetchmill.errors import UsageError

if TYPE_CHECKING:
    from fetchmill._options.keywords import PlanKeywords

OBJECTS_DEFAULT: Final = 1_000_000
# Options that a probe sets itself, because it stores little or nothing and decides when to end.
_NOT_OF_A_PROBE = {
    *("format", "shard_size", "seal_after", "durability", "state", "preflight", "server_times"),
    *("keep_columns", "column_types"),
    *("hash", "keep_failed", "cdxj", "transform", "transform_columns", "transform_batch"),
    *("retry_failed", "restart"),
    *("image_max_side", "image_min_side", "image_format", "image_quality"),
    *("max_failed", "allow_absent", "max_duration", "max_bytes", "strip_prefix", "sidecar"),
}


@option_class(PLAN)
class PlanOptions(Options):
    """The validated, immutable options of a plan: the options of the planned job and of the probe.

    Args:
        source: `http://host:port[/path]` or `https://...` for a server that lists its objects, `s3://bucket[/prefix]`
            for a bucket, or the path of a list of URLs.
        dest: the destination of the planned job, where a plan writes nothing. If None, free space is not checked.

    Raises:
        UsageError: a value is invalid.

    The other options:
    """

    source: str | os.PathLike[str]
    dest: str | os.PathLike[str] | None = None

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            source: str | os.PathLike[str],
            dest: str | os.PathLike[str] | None = None,
            **options: Unpack[PlanKeywords],
        ) -> None: ...

    def __post_init__(self) -> None:
        super().__post_init__()
        check_source(self)
        if str(self.source) == "-":
            raise UsageError(
                "plan cannot read standard input (-), because it reads the list more than once; save the list to a file"
            )
        if self.store == "items":
            raise UsageError("store must be objects, because plan cannot measure items", options=["store"])
        if self.engine != "native":
            raise UsageError(
                f"engine must be native, not {self.engine}; plan cannot measure other engines", options=["engine"]
            )

    @property
    def source_kind(self) -> SourceKind:
        """The kind of source, derived from its text."""
        return kind_of(str(self.source))

    def fetching_job(self, dest: str, format: str, **other: Any) -> GetOptions:  # noqa: ANN401 - option values
        """Return the options of the probe's job, which makes the same requests as the planned job but writes elsewhere.

        Args:
            dest: the destination of the probe's job.
            format: the format of the probe's job.
            other: options that differ from the planned job's options.
        """
        # The probe reports failures itself, even if all requests are refused.
        of_probe = {"dest": dest, "format": format, "durability": "process", "max_failed": "100%"}
        values = values_for(GetOptions, self, _NOT_OF_A_PROBE) | of_probe
        return GetOptions(**values | other)

    def listing_job(self) -> ListOptions:
        """Return the options for listing the source without a manifest."""
        return ListOptions(**values_for(ListOptions, self, _NOT_OF_A_PROBE))
