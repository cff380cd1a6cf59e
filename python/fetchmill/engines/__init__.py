"""The engines in Python, as alternatives to the native engine for making requests.

For every engine, the native module does planning, formats and durability. The engines differ in how they make requests:

- `sync`: one request after another, with requests.
- `threads`: several threads, with requests.
- `processes`: several processes with one request at a time each, with requests.
- `asyncio`: one event loop, with aiohttp.
- `combo`: several processes with one event loop each, with aiohttp.

The libraries are an extra (`pip install 'fetchmill[engines]'`). They are imported when an engine is used.
"""
