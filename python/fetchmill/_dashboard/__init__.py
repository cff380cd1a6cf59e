"""The page and the metrics of a running job, for display only (docs/guide/dashboard.md)."""
