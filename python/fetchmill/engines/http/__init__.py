"""The transports of the engines in Python: `blocking` with requests, `awaiting` with aiohttp, and what both share.

They keep to the rules of the native one (docs/reference/http-support.md): a URL as it stands, bodies as they were sent,
no redirects, no cookies, an end of a body that is certain, every failure as one of the failure kinds.
"""
