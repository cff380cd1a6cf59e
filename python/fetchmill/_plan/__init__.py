"""`plan`: what a job would take, from a probe of some seconds."""
