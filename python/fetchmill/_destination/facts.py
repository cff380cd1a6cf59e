"""The metadata of a stored object, without its name, bytes or list columns."""

FACTS = (
    "status",
    "content_type",
    "content_encoding",
    "etag",
    "last_modified",
    "fetched_at",
    "sequence",
    "crc32c",
)
