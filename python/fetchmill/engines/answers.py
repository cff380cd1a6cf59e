"""The answers that a Python engine's transport returns for targets: replies and failures.

The native module derives a target's outcome from the answer, by the same rules as for native replies.
"""

from collections.abc import Mapping
from typing import NamedTuple

# S3 header fields that describe the bytes of an object.
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
    """A complete reply.

    Args:
        sequence: sequence number of the target.
        status: the HTTP status.
        body: the body as it was sent, not decoded.
        is_verified: whether the reply announced the length of its body, and the body has this length.
        content_type: the Content-Type field. This and the following fields are None if they are missing.
        etag: the ETag field.
        last_modified: the Last-Modified field.
        retry_after: the Retry-After field.
        content_encoding: the Content-Encoding field; if set, the body is an encoded form of the object.
        date: the Date field, which is the time on the store's clock.
        bucket_region: the x-amz-bucket-region field of an S3 store.
        checksums: the checksum fields of an S3 store, one line per field, or "" if there are none. The body is compared
            with these checksums and the ETag. None if the body is not compared, because it may be encoded
            differently.
        location: the Location field.
        challenge: the WWW-Authenticate field.
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
        """Create an answer from the header fields of a reply. The mapping must accept lower-case names."""
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
    """Return the checksum fields of an S3 reply, without the ETag, as "name: value" lines."""
    return "".join(f"{name}: {value}\n" for name in _CHECKSUM_FIELDS if (value := fields.get(name)) is not None)


class FailureAnswer(NamedTuple):
    """A request that did not get a complete reply.

    Args:
        sequence: sequence number of the target.
        kind: the failure kind, one of `FAILURE_KINDS`.
        detail: additional human-readable information, on one line.
    """

    sequence: int
    kind: str
    detail: str | None = None


Answer = ReplyAnswer | FailureAnswer
