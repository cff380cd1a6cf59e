"""Calls that run until a job has ended: `get`, `check` and `list`, with their reports."""
