"""Requests to `fetchmill.testing.s3()` that botocore signs and that are sent unchanged: boto3 would change them."""

import http.client
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import boto3
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials

from fetchmill.testing import S3Store

# boto3 creates its clients at run time: they have no types.
Client = Any


@dataclass(frozen=True)
class Replied:
    """A reply."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def text(self, name: str) -> str | None:
        """Returns the text of the first element with this name in a document."""
        found = (element for element in ET.fromstring(self.body).iter() if element.tag.endswith(name))  # noqa: S314
        return next((element.text or "" for element in found), None)


def client(store: S3Store, **options: Any) -> Client:  # noqa: ANN401
    """Creates a boto3 client that makes every request once. The caller closes it."""
    environment = store.environment()
    settings = {
        "aws_access_key_id": environment["AWS_ACCESS_KEY_ID"],
        "aws_secret_access_key": environment["AWS_SECRET_ACCESS_KEY"],
        "aws_session_token": environment.get("AWS_SESSION_TOKEN"),
        "region_name": store.region,
    }
    once = Config(retries={"total_max_attempts": 1}, s3={"addressing_style": "path"}, proxies={})
    return boto3.session.Session().client("s3", endpoint_url=store.url, **(settings | {"config": once} | options))


def signed_headers(
    store: S3Store,
    target: str,
    *,
    method: str = "GET",
    body: bytes = b"",
    host: str | None = None,
    region: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Returns the fields that botocore creates for a request."""
    environment = store.environment()
    host = host or store.url.removeprefix("http://")
    request = AWSRequest(method, f"http://{host}{target}", {"Host": host, **(headers or {})}, body)
    keys = Credentials(
        environment["AWS_ACCESS_KEY_ID"], environment["AWS_SECRET_ACCESS_KEY"], environment.get("AWS_SESSION_TOKEN")
    )
    S3SigV4Auth(keys, "s3", region or store.region).add_auth(request)
    return dict(request.headers.items())


def send(store: S3Store, target: str, headers: Mapping[str, str], *, method: str = "GET", body: bytes = b"") -> Replied:
    """Sends a request to the store on its own connection, with exactly these fields."""
    connection = http.client.HTTPConnection(store.url.removeprefix("http://"), timeout=10)
    try:
        connection.putrequest(method, target, skip_host=True, skip_accept_encoding=True)
        for name, value in headers.items():
            connection.putheader(name, value)
        if body:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body or None)
        reply = connection.getresponse()
        return Replied(reply.status, dict(reply.headers.items()), reply.read())
    finally:
        connection.close()


def ask(store: S3Store, target: str, **options: Any) -> Replied:  # noqa: ANN401
    """Sends a signed request: `options` are those of `signed_headers`."""
    headers = signed_headers(store, target, **options)
    return send(store, target, headers, method=options.get("method", "GET"), body=options.get("body", b""))
