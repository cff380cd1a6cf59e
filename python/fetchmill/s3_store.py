"""An S3 store on loopback for tests and benchmarks. It checks signatures, and can inject failures.

    with fetchmill.testing.s3({"a/1.json": b"{}"}, slow_down_above=100) as store:
        ...  # `store.url` is the endpoint, `store.environment()` configures another process to use it
        store.change(slow_down_above=None)

`python -m fetchmill.s3_store` runs a store in a separate process. The process prints its address as one JSON line, and
ends when its standard input ends.
"""

import argparse
import json
import os
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Literal, Self, TypedDict, Unpack

from fetchmill._native import S3 as NativeS3  # noqa: N811 - not a constant
from fetchmill.errors import UsageError

__all__ = ["S3Behaviour", "S3Options", "S3Store"]

Key = str | bytes
# Type checkers require all keys of a mapping to have one type, hence the alternatives for text, bytes and both.
ObjectBodies = Mapping[str, bytes] | Mapping[bytes, bytes] | Mapping[Key, bytes]
BUCKET = "bucket"
REGION = "us-east-1"
ACCESS_KEY = "FETCHMILLTESTKEY"
SECRET_KEY = "fetchmill/test+secret"  # noqa: S105 - not a secret


class S3Behaviour(TypedDict, total=False):
    """The behaviour of a store. `S3Store.change` can change every value while the store is running.

    Args:
        max_skew: maximum difference in seconds between the time of a signature and the store's clock; default 900.
            Requests with a larger difference get 403 RequestTimeTooSkewed.
        clock_offset: seconds by which the store's clock is ahead of the machine's clock; default 0.
        list_latency: delay of each listing page in seconds; default 0.
        get_latency: delay of every other request in seconds; default 0.
        slow_down_above: maximum requests per second, with bursts of up to a twentieth of this number. Requests beyond
            this limit get 503 SlowDown.
        deny: keys that cannot be read or written; requests get 403 AccessDenied.
        deny_lists: whether listing is denied with 403 AccessDenied.
        errors_with_200: error codes by key. A GET of the key, or the completion of its multipart upload, gets status
            200 with an error document. A value can also be a pair: a code, and the number of replies to which the code
            applies.
        changed: bytes by key. A GET of the key returns these bytes and their ETag instead of the listed object.
        truncate_after: number of keys after which a listing falsely claims to be complete.
        lose_token_after: position, counted from 1, of a key among all keys with the listing's prefix. A page ends at
            this key and claims that more keys follow, but does not contain a token.
        repeat_token: whether the page for a token endlessly returns the same token.
        ignore_start_after: whether every listing starts at its first key.
        checksum: the checksum in replies to a GET with `x-amz-checksum-mode: ENABLED`: `crc64nvme`, `crc32c`, `crc32`,
            `sha1` or `sha256`; None for no checksum.
        composite_checksums: whether the whole object's checksum is falsely labelled as a composite of the parts'
            checksums.
        encryption: value of `x-amz-server-side-encryption` for every object.
        damage: number of GETs, by key, that return one wrong byte with the checksum and ETag of the correct bytes.
        fail_uploads: number of upcoming uploads (of objects or parts) to answer with 503 ServiceUnavailable.
        drop_uploads: number of upcoming uploads (of objects or parts) to reset in the middle of the body.
        ignore_conditions: whether `If-None-Match: *` is accepted but ignored, as in some older stores.
    """

    max_skew: float
    clock_offset: float
    list_latency: float
    get_latency: float
    slow_down_above: float | None
    deny: Collection[Key]
    deny_lists: bool
    errors_with_200: Mapping[str, str | tuple[str, int]]
    changed: ObjectBodies
    truncate_after: int | None
    lose_token_after: int | None
    repeat_token: bool
    ignore_start_after: bool
    checksum: Literal["crc64nvme", "crc32c", "crc32", "sha1", "sha256"] | None
    composite_checksums: bool
    encryption: str | None
    damage: Mapping[str, int]
    fail_uploads: int
    drop_uploads: int
    ignore_conditions: bool


@dataclass(frozen=True, kw_only=True)
class S3Options:
    """The options of a store.

    Args:
        bucket: name of the first bucket.
        region: region of the endpoint and the first bucket, for which requests must be signed.
        synthetic: number of computed objects in the bucket, with the same names and bodies as on the file server.
        size: size of a computed object in bytes.
        key_prefix: prefix of the keys of computed objects. The bodies do not depend on it.
        public: whether clients can list and read the bucket without a signature.
        access_key: the access key for signing requests.
        secret_key: the secret key that belongs to the access key.
        token: the session token that must be sent with the access key.
        expires_in: seconds until the credentials expire.
        virtual_host_suffix: if given, only the host `BUCKET.SUFFIX` selects a bucket. If None, any host that starts
            with a bucket's name and a dot selects the bucket. For other hosts, the first part of the path names the
            bucket.
        port: port to listen on; 0 picks a free port.
        threads: number of server threads.
    """

    bucket: str = BUCKET
    region: str = REGION
    synthetic: int = 0
    size: int = 100
    key_prefix: str = ""
    public: bool = False
    access_key: str = ACCESS_KEY
    secret_key: str = SECRET_KEY
    token: str | None = None
    expires_in: float | None = None
    virtual_host_suffix: str | None = None
    port: int = 0
    threads: int = 1


class S3Store:
    """A running store. It starts when it is created, and runs until `stop` is called or a `with` block ends.

    Buckets are kept in memory, up to a total of 1 GiB of objects and parts. Buckets are addressed by path
    (`URL/BUCKET/KEY`) or by host (`BUCKET.anything`).

    Args:
        options: the options of the store.
        objects: the initial objects of the first bucket. Keys are text or UTF-8 bytes.
        behaviour: values of `S3Behaviour`.

    Raises:
        UsageError: an option is invalid, a key is not UTF-8 or is too long, or the port is in use.
    """

    def __init__(
        self,
        options: S3Options | None = None,
        objects: ObjectBodies | None = None,
        **behaviour: Unpack[S3Behaviour],
    ) -> None:
        self.options = options = options or S3Options()
        names = ("port", "threads", "region", "virtual_host_suffix")
        self._native = NativeS3(json.dumps({name: getattr(options, name) for name in names}))
        self._token = options.token
        self._access_key, self._secret_key = options.access_key, options.secret_key
        self.change(**behaviour)
        self.set_credentials(options.access_key, options.secret_key, options.token, expires_in=options.expires_in)
        self.add_bucket(
            options.bucket,
            objects,
            region=options.region,
            synthetic=options.synthetic,
            size=options.size,
            key_prefix=options.key_prefix,
            public=options.public,
        )

    @property
    def url(self) -> str:
        """The endpoint, such as `http://127.0.0.1:8080`."""
        return f"http://{self._native.address}"

    @property
    def bucket(self) -> str:
        """The name of the first bucket."""
        return self.options.bucket

    @property
    def region(self) -> str:
        """The region of the endpoint."""
        return self.options.region

    def add_bucket(
        self,
        name: str,
        objects: ObjectBodies | None = None,
        *,
        region: str | None = None,
        synthetic: int = 0,
        size: int = 100,
        key_prefix: str = "",
        public: bool = False,
    ) -> None:
        """Add a bucket, or replace the bucket with this name.

        Args:
            name: name of the bucket: 3 to 63 lower-case letters, digits, `-` and `.`.
            objects: the initial objects.
            region: region of the bucket; None for the endpoint's region. If the bucket is in another region, requests
                signed for the endpoint's region get 301 PermanentRedirect. Requests signed for the bucket's region
                succeed at this endpoint.
            synthetic: number of computed objects.
            size: size of a computed object in bytes.
            key_prefix: prefix of the keys of computed objects.
            public: whether clients can list and read the bucket without a signature.

        Raises:
            UsageError: an option is invalid.
        """
        options = {"name": name, "region": region or self.region, "public": public, "synthetic": synthetic}
        self._native.add_bucket(json.dumps({**options, "size": size, "key_prefix": key_prefix}))
        for key, body in (objects or {}).items():
            self.put(key, body, bucket=name)

    def put(self, key: Key, body: bytes, *, bucket: str | None = None, modified: datetime | None = None) -> None:
        """Store an object without a request.

        Args:
            key: key of the object.
            body: bytes of the object.
            bucket: name of the bucket; None for the first bucket.
            modified: modification time, with a time zone; None for now.

        Raises:
            UsageError: the bucket does not exist, the key is invalid, or the store is full.
        """
        milliseconds = None if modified is None else int(modified.timestamp() * 1000)
        self._native.put(bucket or self.bucket, _text(key), body, milliseconds)

    def objects(self, bucket: str | None = None) -> dict[str, bytes]:
        """Return a bucket's objects by key, sorted by key, without computed objects."""
        return self._native.objects(bucket or self.bucket)

    def change(self, **behaviour: Unpack[S3Behaviour]) -> None:
        """Change the behaviour for later requests. Omitted values stay unchanged.

        Args:
            behaviour: values of `S3Behaviour`.

        Raises:
            UsageError: a value is invalid.
        """
        values: dict[str, Any] = dict(behaviour)
        if "changed" in values:
            self._native.set_changed({_text(key): body for key, body in values.pop("changed").items()})
        if "deny" in values:
            values["deny"] = [_text(key) for key in values["deny"]]
        if "errors_with_200" in values:
            given = values["errors_with_200"].items()
            values["errors_with_200"] = {key: _error_with_200(error) for key, error in given}
        self._native.change(json.dumps(values))

    def set_credentials(
        self, access_key: str, secret_key: str, token: str | None = None, *, expires_in: float | None = None
    ) -> None:
        """Add credentials, or replace existing credentials with the same access key. Other credentials stay valid.

        Args:
            access_key: the access key.
            secret_key: the secret key that belongs to the access key.
            token: the session token that must be sent with the access key.
            expires_in: seconds from now until the credentials expire, after which requests get 400 ExpiredToken.

        Raises:
            UsageError: the time is not a number of seconds.
        """
        pair = {"access_key": access_key, "secret_key": secret_key, "token": token, "expires_in": expires_in}
        self._native.set_credentials(json.dumps(pair))
        self._access_key, self._secret_key, self._token = access_key, secret_key, token

    def environment(self) -> dict[str, str]:
        """Return environment variables that make another process use this store instead of AWS.

        The variables contain the most recently set credentials. They also disable the user's AWS configuration files
        and the metadata service.
        """
        token = {"AWS_SESSION_TOKEN": self._token} if self._token else {}
        return {
            "AWS_ACCESS_KEY_ID": self._access_key,
            "AWS_SECRET_ACCESS_KEY": self._secret_key,
            **token,
            "AWS_REGION": self.region,
            "AWS_DEFAULT_REGION": self.region,
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ENDPOINT_URL_S3": self.url,
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            "AWS_EC2_METADATA_DISABLED": "true",
            "NO_PROXY": "*",
            "no_proxy": "*",
        }

    def stats(self) -> dict[str, int]:
        """Return the counts since the start, or since `reset_stats`.

        Returns:
            `connections`, `requests` and `bytes_sent`; requests by kind: `gets` (of which `fetched` were answered with
            bytes), `heads`, `lists`, `puts`, `parts`, `completed` and `deletes`; replies by kind: `refused` (503),
            `skewed` (403 because of clock skew), `denied` (any other 403), `expired`, `not_found` and `redirected` (to
            another region); and `dropped` uploads.
        """
        return self._native.stats()

    def reset_stats(self) -> None:
        """Reset all counters to 0."""
        self._native.reset_stats()

    def stop(self) -> None:
        """Close all connections and end the threads. A second call does nothing."""
        self._native.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<fetchmill.s3_store.S3Store {self.url}/{self.bucket}>"


def _text(key: Key) -> str:
    try:
        return key if isinstance(key, str) else key.decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"the key {key!r} is not UTF-8") from error


def _error_with_200(error: str | tuple[str, int]) -> dict[str, object]:
    code, times = (error, None) if isinstance(error, str) else error
    return {"code": code, "times": times}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a store until standard input ends. Print its address and, at the end, its counters as JSON lines."""
    parser = argparse.ArgumentParser(prog="python -m fetchmill.s3_store", description=main.__doc__)
    for name, value in asdict(S3Options()).items():
        if isinstance(value, bool):
            parser.add_argument(_option(name), action="store_true")
        else:
            optional = {"token": str, "expires_in": float, "virtual_host_suffix": str}
            parser.add_argument(_option(name), type=optional.get(name, type(value)), default=value)
    for name in ("max_skew", "clock_offset", "list_latency", "get_latency", "slow_down_above"):
        parser.add_argument(_option(name), type=float, default=argparse.SUPPRESS)
    given = vars(parser.parse_args(arguments))
    options = S3Options(**{name: given.pop(name) for name in asdict(S3Options())})
    with S3Store(options, **given) as store:
        _say({"url": store.url, "bucket": store.bucket, "environment": store.environment()})
        sys.stdin.read()
        _say(store.stats())


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _say(value: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
