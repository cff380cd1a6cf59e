"""`fetchmill bench`: ways to make very many requests, compared on the user's machine.

Every way is a contender in a process of its own, started with a task (`task.py`), one at a time; the server is started
again for each. What was published of a way, and where, stands in `published.py`.
"""
