"""`sync` keeps a folder up to date with its source: passes and their reports."""
