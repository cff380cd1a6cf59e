"""`sync`: keeps a folder up to date with its source, in passes, and reports on each pass."""
