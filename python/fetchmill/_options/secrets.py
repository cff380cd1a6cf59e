"""Options whose values are secrets, or code: they are never stored."""

# Fields of requests that say nothing secret; the values of others are never stored.
OPEN_FIELDS = ("accept", "accept-language", "user-agent")
# Options whose values may be secrets, or commands that a destination must not make anybody run.
SECRETS = ("auth", "bearer", "bearer_command", "netrc", "proxy")
# Code, and files with credentials: a destination that comes from elsewhere must not name them.
PRIVATE = ("transform", "client_cert", "client_key", "cookies", "sse_c_key_file")
