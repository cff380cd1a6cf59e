"""Lists keys and reads objects for the ways that use boto3 or aiobotocore.

The task specifies the endpoint and the bucket, the environment contains the credentials, and the libraries retry
requests.
"""

from collections.abc import AsyncIterator, Iterator
from itertools import islice
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError

from fetchmill_bench.task import RequestCounter, Task

# Errors that a request may raise. A refused request raises the second one.
ERRORS = (BotoCoreError, ClientError, HTTPClientError)


def keys(task: Task, client: Any) -> Iterator[str]:  # noqa: ANN401 - boto3 creates its client classes at run time
    """Yields up to `task.count` keys in the bucket. A page is listed when it is needed."""
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=task.bucket)
    return islice((found["Key"] for page in pages for found in page.get("Contents", ())), task.count)


def read(task: Task, client: Any, key: str) -> bool:  # noqa: ANN401
    """Reads an object. Returns whether it was received."""
    try:
        body = client.get_object(Bucket=task.bucket, Key=key)["Body"].read()
    except ERRORS:
        return False
    return store_object(task, key, body)


async def keys_async(task: Task, client: Any) -> AsyncIterator[str]:  # noqa: ANN401
    """Does the same as `keys`, with aiobotocore."""
    left = task.count
    async for page in client.get_paginator("list_objects_v2").paginate(Bucket=task.bucket):
        for found in page.get("Contents", ())[:left]:
            yield found["Key"]
        left -= len(page.get("Contents", ()))
        if left <= 0:
            return


async def read_async(task: Task, client: Any, key: str, counter: RequestCounter) -> None:  # noqa: ANN401
    """Reads an object with aiobotocore, and counts it."""
    try:
        reply = await client.get_object(Bucket=task.bucket, Key=key)
        async with reply["Body"] as body:
            is_read = store_object(task, key, await body.read())
    except ERRORS:
        is_read = False
    counter.add(failed=int(not is_read))


def store_object(task: Task, key: str, body: bytes) -> bool:
    """Stores an object as a file if requested. Returns False if it could not be stored."""
    try:
        task.store(key, body)
    except OSError:
        return False
    return True
