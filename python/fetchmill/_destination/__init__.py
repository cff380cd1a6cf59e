"""Reads the output of jobs: objects, status and failures. Also verifies, exports and compares it."""
