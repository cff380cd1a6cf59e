"""Measurements: `make bench`. README.md describes the method, and the limits of the results."""
