"""What jobs have written, read again: objects, status, failures, verify, export and diff."""
