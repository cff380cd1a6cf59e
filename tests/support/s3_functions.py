"""Functions of a program that fetch objects of a bucket with other clients, and the jobs that use them.

Usage: s3_functions.py threads|asyncio DEST BUCKET ENDPOINT LIMIT
"""

import sys
from functools import partial
from typing import Any

import aiobotocore.session
import boto3

import fetchmill


def make_client(endpoint: str) -> Any:  # noqa: ANN401
    """Creates a boto3 client for one thread, because sessions must not be shared."""
    return boto3.session.Session().client("s3", endpoint_url=endpoint)


def fetch_with_boto3(bucket: str, target: Any, client: Any) -> bytes:  # noqa: ANN401
    """Returns the bytes of an object."""
    body: bytes = client.get_object(Bucket=bucket, Key=target.name)["Body"].read()
    return body


async def open_client(endpoint: str) -> Any:  # noqa: ANN401
    """Creates an aiobotocore client for one event loop."""
    return await aiobotocore.session.get_session().create_client("s3", endpoint_url=endpoint).__aenter__()


async def close_client(client: Any) -> None:  # noqa: ANN401
    """Closes it with its connections."""
    await client.__aexit__(None, None, None)


async def fetch_with_aiobotocore(bucket: str, target: Any, client: Any) -> bytes:  # noqa: ANN401
    """Returns the bytes of an object."""
    reply = await client.get_object(Bucket=bucket, Key=target.name)
    async with reply["Body"] as stream:
        body: bytes = await stream.read()
    return body


def main(engine: str, dest: str, bucket: str, endpoint: str, limit: str) -> None:
    """Fetches a bucket."""
    settings: dict[str, Any] = {"engine": engine, "endpoint_url": endpoint, "limit": int(limit), "format": "jsonl"}
    settings["commit_window"] = 0.1
    own: dict[str, Any] = {"fetch": partial(fetch_with_boto3, bucket), "on_start": partial(make_client, endpoint)}
    if engine == "asyncio":
        own = {"fetch": partial(fetch_with_aiobotocore, bucket), "on_start": partial(open_client, endpoint)}
        own["on_done"] = close_client
    fetchmill.get(f"s3://{bucket}/", dest, **own, **settings)


if __name__ == "__main__":
    main(*sys.argv[1:])
