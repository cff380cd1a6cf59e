"""`fetchmill bench`: compares ways to make very many requests on the user's machine.

Each way is a contender in its own process, started with a task (`task.py`). Contenders run one at a time, and the
server is restarted for each. `published.py` lists the published measurements and their sources.
"""
