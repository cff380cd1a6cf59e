"""The contenders: one short file for each way, with `run(task, counter)`.

The published ones are built as their authors built them, with their weaknesses: what is compared is the way. Each
process has one contender, so each imports its libraries at its head, where that is not timed.
"""
