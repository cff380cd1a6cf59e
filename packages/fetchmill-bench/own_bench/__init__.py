"""The measurements of `make bench`. README.md describes the method and the limitations of the results."""
