"""The metadata of a stored object, without its name, its bytes and the columns of its list."""

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
