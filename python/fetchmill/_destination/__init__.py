"""Reads, verifies, exports and compares the output of jobs."""
