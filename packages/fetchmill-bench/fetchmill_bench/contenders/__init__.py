"""The contenders. Each way has its own short file, which defines `run(task, counter)`.

Published ways are built as their authors built them, including their weaknesses, because the bench compares the ways.
Each process runs a single contender, so a contender imports its libraries at the top, where imports are not timed.
"""
