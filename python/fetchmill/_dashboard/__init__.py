"""A read-only web page and metrics for a running job (docs/guide/dashboard.md)."""
