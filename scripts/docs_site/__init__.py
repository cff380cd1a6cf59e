"""The documentation site: what of it is generated."""
