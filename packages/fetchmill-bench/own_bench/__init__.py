"""Measurements: `make bench`. README.md describes the method and the limitations of the results."""
