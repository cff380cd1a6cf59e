"""`fetchmill bench`: compares ways to make large numbers of requests on the user's machine.

Each way is a contender that runs a task (`task.py`) in its own process. Contenders run one at a time, and the server is
restarted for each. `published.py` lists the published measurements and their sources.
"""
