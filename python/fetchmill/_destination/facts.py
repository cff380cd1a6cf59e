"""What is known of any stored object, besides its name, its bytes and what a list says of it."""

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
