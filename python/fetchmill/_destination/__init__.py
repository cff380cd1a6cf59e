"""Reads what jobs have written: objects, status, failures, verify, export and diff."""
