"""The engines in Python: ways to fetch that people have reasons of their own to pick, on the job that is everyone's.

Planning, formats and durability are the native module's, for every engine. What differs is how requests are made:

- `sync`: one after the other, with requests.
- `threads`: so many threads, with requests.
- `processes`: one request at a time in each of so many processes, with requests.
- `asyncio`: one event loop, with aiohttp.
- `combo`: so many processes, each with an event loop.

The libraries are an extra (`pip install 'fetchmill[engines]'`) and imported when an engine is used.
"""
