"""`fetchmill bench`: compares ways to make very many requests on the user's machine.

Each way is a contender that runs a task (`task.py`) in its own process. Contenders run one at a time, and the server is
restarted for each. `published.py` lists the published measurements and their sources.
"""
