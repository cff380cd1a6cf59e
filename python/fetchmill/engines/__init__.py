"""The Python engines: alternatives to the native engine for making requests.

For every engine, the native module handles planning, formats and durability. The engines differ in how they make
requests:

- `sync`: one request at a time, with the library `requests`.
- `threads`: several threads, with the library `requests`.
- `processes`: several processes that make one request at a time, with the library `requests`.
- `asyncio`: one event loop, with aiohttp.
- `combo`: several processes with one event loop each, with aiohttp.

The extra `engines` installs the libraries (`pip install 'fetchmill[engines]'`). They are imported when an engine is
used.
"""
