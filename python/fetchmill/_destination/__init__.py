"""Reads the output of jobs: objects, status, failures, verify, export and diff."""
