"""What a transport of an engine in Python gives for a target: a reply as it came, or why there is none.

What becomes of the target follows from it in the native module, by the same rules as for its own replies.
"""

from collections.abc import Mapping
from typing import NamedTuple

# What a store of S3 says of the bytes of an object.
_CHECKSUM_FIELDS = (
    "x-amz-checksum-crc64nvme",
    "x-amz-checksum-crc32c",
    "x-amz-checksum-crc32",
    "x-amz-checksum-sha256",
    "x-amz-checksum-sha1",
    "x-amz-checksum-type",
    "x-amz-server-side-encryption",
    "x-amz-server-side-encryption-customer-algorithm",
    "x-amz-storage-class",
)


class ReplyAnswer(NamedTuple):
    """A reply that came to its end.

    Args:
        sequence: the target's number.
        status: the status.
        body: its bytes as they were sent, not decoded.
        is_verified: whether the reply told its length, and that is what came.
        content_type: the field Content-Type, if it was there; likewise the others.
        etag: the field ETag.
        last_modified: the field Last-Modified.
        retry_after: the field Retry-After.
        content_encoding: the field Content-Encoding: the body is not the object's own bytes, but a form of them.
        date: the field Date; what a store's clock says.
        bucket_region: the field x-amz-bucket-region, of a store of S3.
        checksums: what a store of S3 says of the bytes, a line for each field, "" if nothing: they are compared with
            its checksums and its ETag. `None`: they are not, because the body may be another form of them.
        location: the field Location.
        challenge: the field WWW-Authenticate.
    """

    sequence: int
    status: int
    body: bytes
    is_verified: bool = True
    content_type: str | None = None
    etag: str | None = None
    last_modified: str | None = None
    retry_after: str | None = None
    content_encoding: str | None = None
    date: str | None = None
    bucket_region: str | None = None
    checksums: str | None = ""
    location: str | None = None
    challenge: str | None = None

    @classmethod
    def of(
        cls,
        sequence: int,
        status: int,
        body: bytes,
        fields: Mapping[str, str],
        *,
        is_verified: bool = True,
        checksums: str | None = "",
    ) -> "ReplyAnswer":
        """With the fields that count, of a mapping that finds names in lower case."""
        field = fields.get
        return cls(
            sequence,
            status,
            body,
            is_verified,
            content_type=field("content-type"),
            etag=field("etag"),
            last_modified=field("last-modified"),
            retry_after=field("retry-after"),
            content_encoding=field("content-encoding"),
            date=field("date"),
            bucket_region=field("x-amz-bucket-region"),
            checksums=checksums,
            location=field("location"),
            challenge=field("www-authenticate"),
        )


def checksum_fields(fields: Mapping[str, str]) -> str:
    """What a reply of a store of S3 says of its bytes besides the ETag: "name: value" lines."""
    return "".join(f"{name}: {value}\n" for name in _CHECKSUM_FIELDS if (value := fields.get(name)) is not None)


class FailureAnswer(NamedTuple):
    """No complete reply.

    Args:
        sequence: the target's number.
        kind: the failure kind, one of `FAILURE_KINDS`.
        detail: what a person should know besides, in one line.
    """

    sequence: int
    kind: str
    detail: str | None = None


Answer = ReplyAnswer | FailureAnswer
