"""`plan`: estimates what a job would take, from a probe of a few seconds."""
