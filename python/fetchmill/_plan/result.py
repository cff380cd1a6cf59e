"""What a plan says."""

from dataclasses import dataclass
from typing import Any, Literal

from fetchmill._job.report import LimitedBy
from fetchmill._plan.room import Room
from fetchmill._plan.windows import Estimate

# How many objects: the user said it, all were listed, a part of the list was read, the listing's Total told it, or
# nobody did.
ObjectsFrom = Literal["given", "listed", "estimated", "told", "assumed"]
Fits = Literal["yes", "perhaps", "no"]


@dataclass(frozen=True, kw_only=True)
class FormatPlan:
    """What a job takes when it stores in a format.

    Args:
        format: the format.
        seconds: time of the job.
        disk_bytes: bytes on disk, with what the job knows.
        inodes: files and folders, with those of the job itself.
        fits: whether that is free at the destination; None when that is not known, or there is none.
    """

    format: str
    seconds: Estimate
    disk_bytes: Estimate
    inodes: Estimate
    fits: Fits | None

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        estimates = {name: getattr(self, name).to_dict() for name in ("seconds", "disk_bytes", "inodes")}
        return {"format": self.format, **estimates, "fits": self.fits}


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a job would take, from a probe of some seconds (docs/guide/plan.md).

    Args:
        source: where targets come from.
        dest: the destination that was asked about.
        format: the format that was asked about; `formats` has all.
        objects: how many it is planned for.
        objects_from: how that is known: `given` with `objects=`, `listed` to the end, `estimated` from the part of a
            long list that was read in 30 s (a notice says how large it is), `told` by the listing, or `assumed`.
        probe_seconds: how long the probe took.
        probed: targets that it fetched, without those of the sample.
        objects_per_second: targets settled a second, once the rate is steady.
        names_per_second: names that the listing gives a second; None for a list, or when too few came to tell.
        seconds: time of the job in this format.
        object_requests: requests for objects, with those that are made again.
        listing_requests: requests for the listing; 0 for a list.
        body_bytes: bytes of bodies.
        network_bytes: bytes of bodies, of heads and of the listing; not those of TLS, TCP and IP.
        absent_share: share of the targets that were absent, 0 to 1.
        failed_share: share of the targets that failed, 0 to 1.
        limited_by: what held the rate back in the steady part of the probe; None when nothing was found out.
        formats: what each format takes.
        room: what is free at the destination; None without one, for a bucket, or when its file system does not tell.
        cost: of requests and bytes, in the currency of the prices; None without prices.
        notices: what a person should know, a line each.
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
        """What one format takes.

        Raises:
            KeyError: there is no such format.
        """
        for each in self.formats:
            if each.format == format:
                return each
        raise KeyError(format)

    def to_dict(self) -> dict[str, Any]:
        """For JSON: an estimate has `value`, `low` and `high`."""
        values = {name: _for_json(value) for name, value in vars(self).items()}
        return values | {"formats": [each.to_dict() for each in self.formats], "notices": list(self.notices)}


def _for_json(value: Any) -> Any:  # noqa: ANN401 - of any field
    if isinstance(value, LimitedBy):
        return {"kind": value.kind, "text": value.text}
    return value.to_dict() if isinstance(value, (Estimate, Room)) else value
