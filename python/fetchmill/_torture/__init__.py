"""`fetchmill torture`: jobs that are disturbed on purpose, and the proof that nothing is lost, doubled or wrong."""
