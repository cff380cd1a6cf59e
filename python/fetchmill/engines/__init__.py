"""The Python engines, which make requests in place of the native engine.

The native module handles planning, formats and durability for all engines. The engines differ in how they make
requests:

- `sync`: one request at a time, using `requests`.
- `threads`: several threads, using `requests`.
- `processes`: several processes that make one request at a time, using `requests`.
- `asyncio`: one event loop, using aiohttp.
- `combo`: several processes with one event loop each, using aiohttp.

`pip install 'fetchmill[engines]'` installs these libraries, which are imported only when an engine is used.
"""
