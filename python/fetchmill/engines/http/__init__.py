"""The transports of the Python engines: blocking transports use `requests`, and asynchronous transports use aiohttp.

They follow the rules of the native transport (docs/reference/http-support.md). URLs are sent unchanged, and bodies are
not decoded. Redirects and cookies are not supported. The end of a body must be certain. Every failure is classified by
failure kind.
"""
