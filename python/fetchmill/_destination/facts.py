"""The metadata of a stored object, except its name, its bytes and its list columns."""

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
