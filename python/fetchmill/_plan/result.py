"""The result of a plan."""

from dataclasses import dataclass
from typing import Any, Literal

from fetchmill._job.report import LimitedBy
from fetchmill._plan.room import Room
from fetchmill._plan.windows import Estimate

# How the number of objects was determined. It was given by the user, listed to the end, estimated from a part of the
# list, reported as the listing's Total (`told`), or assumed.
ObjectsFrom = Literal["given", "listed", "estimated", "told", "assumed"]
Fits = Literal["yes", "perhaps", "no"]


@dataclass(frozen=True, kw_only=True)
class FormatPlan:
    """The estimates for one storage format.

    Args:
        format: the format.
        seconds: duration of the job in seconds.
        disk_bytes: bytes on disk, including the job's state.
        inodes: number of files and folders, including those of the job's state.
        fits: whether the destination has enough free space and inodes; None if unknown, or without a destination.
    """

    format: str
    seconds: Estimate
    disk_bytes: Estimate
    inodes: Estimate
    fits: Fits | None

    def to_dict(self) -> dict[str, Any]:
        """Return a dict for JSON."""
        estimates = {name: getattr(self, name).to_dict() for name in ("seconds", "disk_bytes", "inodes")}
        return {"format": self.format, **estimates, "fits": self.fits}


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Estimates for a job, from a probe of a few seconds (docs/guide/plan.md).

    Args:
        source: the source of the targets.
        dest: the destination of the planned job.
        format: the format of the planned job. `formats` contains the estimates for all formats.
        objects: number of objects in the planned job.
        objects_from: how `objects` was determined: `given` with `objects=`; `listed` to the end; `estimated` from the
            part of a long list that was read in 30 s (a notice states the size of this part); `told`, which means
            reported by the listing; or `assumed`.
        probe_seconds: duration of the probe in seconds.
        probed: number of targets that the probe fetched, not counting the sample.
        objects_per_second: targets finished per second, once the rate is steady.
        names_per_second: names listed per second; None for a list, or if too few names were listed to measure it.
        seconds: duration of the job in seconds, in the planned format.
        object_requests: number of requests for objects, retries included.
        listing_requests: number of requests for the listing; 0 for a list.
        body_bytes: total size of all bodies in bytes.
        network_bytes: total bytes of bodies, reply heads and the listing, excluding the overhead of TLS, TCP and IP.
        absent_share: share of the targets that were absent, 0 to 1.
        failed_share: share of the targets that failed, 0 to 1.
        limited_by: the bottleneck in the steady part of the probe; None if unknown.
        formats: the estimates for each format.
        room: free space at the destination; None without a destination, for a bucket, or if the file system does not
            report it.
        cost: cost of requests and bytes, in the currency of the prices; None without prices.
        notices: human-readable messages, one line each.
    """

    source: str
    dest: str | None
    format: str
    objects: int
    objects_from: ObjectsFrom
    probe_seconds: float
    probed: int
    objects_per_second: Estimate
    names_per_second: Estimate | None
    seconds: Estimate
    object_requests: Estimate
    listing_requests: Estimate
    body_bytes: Estimate
    network_bytes: Estimate
    absent_share: float
    failed_share: float
    limited_by: LimitedBy | None
    formats: tuple[FormatPlan, ...]
    room: Room | None
    cost: Estimate | None
    notices: tuple[str, ...]

    def of_format(self, format: str) -> FormatPlan:
        """Return the estimates for one format.

        Raises:
            KeyError: there is no such format.
        """
        for each in self.formats:
            if each.format == format:
                return each
        raise KeyError(format)

    def to_dict(self) -> dict[str, Any]:
        """Return a dict for JSON. An estimate has `value`, `low` and `high`."""
        values = {name: _for_json(value) for name, value in vars(self).items()}
        return values | {"formats": [each.to_dict() for each in self.formats], "notices": list(self.notices)}


def _for_json(value: Any) -> Any:  # noqa: ANN401 - the value of any field
    if isinstance(value, LimitedBy):
        return {"kind": value.kind, "text": value.text}
    return value.to_dict() if isinstance(value, (Estimate, Room)) else value
