"""The page and the metrics of a running job: they show, and control nothing (docs/guide/dashboard.md)."""
