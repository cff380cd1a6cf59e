"""Measurements: `make bench`. README.md says how they are made and what they do not claim."""
