"""The blocking calls `get`, `check` and `list`, and their reports."""
