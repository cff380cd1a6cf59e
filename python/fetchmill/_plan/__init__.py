"""`plan`: estimates the time and resources that a job needs, from a probe of a few seconds."""
