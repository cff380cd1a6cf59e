"""`fetchmill torture`: disturbs jobs on purpose, and proves that no object is lost, duplicated or wrong."""
