"""A store that speaks S3 on loopback, for tests and measurements: signatures are checked, and it fails on demand.

    with fetchmill.testing.s3({"a/1.json": b"{}"}, slow_down_above=100) as store:
        ...  # `store.url` is the endpoint, `store.environment()` what another process needs to find it
        store.change(slow_down_above=None)

`python -m fetchmill.s3_store` runs one in a process of its own: one JSON line says where it is, and it ends with its
standard input.
"""

import argparse
import json
import os
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Literal, Self, TypedDict, Unpack

from fetchmill._native import S3 as NativeS3  # noqa: N811 - it is no constant
from fetchmill.errors import UsageError

__all__ = ["S3Behaviour", "S3Options", "S3Store"]

Key = str | bytes
# The keys of a mapping are of one type, for a type checker.
ObjectBodies = Mapping[str, bytes] | Mapping[bytes, bytes] | Mapping[Key, bytes]
BUCKET = "bucket"
REGION = "us-east-1"
ACCESS_KEY = "FETCHMILLTESTKEY"
SECRET_KEY = "fetchmill/test+secret"  # noqa: S105 - everybody may know it


class S3Behaviour(TypedDict, total=False):
    """How a store behaves. Every value may change while it runs: `S3Store.change`.

    Args:
        max_skew: seconds that the time of a signature may differ from the store's clock; 900. Above: 403
            RequestTimeTooSkewed.
        clock_offset: seconds that the store's clock is ahead of the machine's; 0.
        list_latency: seconds that each page of a listing waits; 0.
        get_latency: seconds that each other request waits; 0.
        slow_down_above: requests a second; those above, after a burst of a twentieth of them, get 503 SlowDown.
        deny: keys that nobody may read or write: 403 AccessDenied.
        deny_lists: whether nobody may list: 403 AccessDenied.
        errors_with_200: keys whose GET, or whose completion of an upload in parts, is answered 200 with an error
            document: the code of the error, or the code and how often before all is well.
        changed: keys whose GET gives these bytes, with their ETag, in the place of those that are listed.
        truncate_after: a listing says that it ends after so many keys of its prefix, although there are more.
        lose_token_after: the page with the key of this number ends with it, says that there are more, and has no token.
        repeat_token: the page that a token leads to comes with the same token again, for ever.
        ignore_start_after: whether every listing starts at its first key.
        checksum: the checksum that a GET with `x-amz-checksum-mode: ENABLED` is given: `crc64nvme`, `crc32c`, `crc32`,
            `sha1` or `sha256`; None for none.
        composite_checksums: whether it is said to be one of the checksums of parts, and is wrong.
        encryption: what `x-amz-server-side-encryption` of every object says.
        damage: keys of which so many GETs give one wrong byte, with the checksum and ETag of the right ones.
        fail_uploads: so many of the next uploads of objects and parts are answered 503 ServiceUnavailable.
        drop_uploads: so many of the next uploads of objects and parts end with a reset in the middle of their body.
        ignore_conditions: whether `If-None-Match: *` is accepted and not obeyed, as by some older stores.
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
    """What a store is asked to be.

    Args:
        bucket: name of its first bucket.
        region: where the endpoint and this bucket are. Requests must be signed for it.
        synthetic: how many computed objects the bucket has, with the names and bodies of the file server's.
        size: bytes of each of them.
        key_prefix: what their keys start with; their bodies do not depend on it.
        public: whether anybody may list and read the bucket, without a signature.
        access_key: the access key that may sign.
        secret_key: its secret.
        token: the session token that must come with it.
        expires_in: seconds until these credentials are not valid any more.
        virtual_host_suffix: with it, only `BUCKET.SUFFIX` as a host names a bucket; without it, any host does that
            starts with a bucket's name and a dot. The first part of the path does otherwise.
        port: port to listen on; 0 is any that is free.
        threads: threads that serve.
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
    """A running store: serves from the moment it is made until `stop`, or the end of a `with` block.

    Buckets are kept in memory, at most a gibibyte of objects and parts together. They are found by path
    (`URL/BUCKET/KEY`) and by host (`BUCKET.anything`).

    Args:
        options: what it is asked to be.
        objects: what the first bucket has at the start. Keys are text, or its UTF-8 bytes.
        behaviour: how it behaves.

    Raises:
        UsageError: an option cannot be used, a key is not UTF-8 or too long, or the port is taken.
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
        """Where the endpoint is."""
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
        """Adds a bucket, or replaces the one of its name.

        Args:
            name: its name: 3 to 63 small letters, digits, `-` and `.`.
            objects: what it has at the start.
            region: where it is; the endpoint's region when not given. Who signs for the endpoint's region and asks for
                a bucket that is elsewhere gets 301 PermanentRedirect, and finds it here once the signature is right.
            synthetic: how many computed objects it has.
            size: bytes of each of them.
            key_prefix: what their keys start with.
            public: whether anybody may list and read it.

        Raises:
            UsageError: an option cannot be used.
        """
        options = {"name": name, "region": region or self.region, "public": public, "synthetic": synthetic}
        self._native.add_bucket(json.dumps({**options, "size": size, "key_prefix": key_prefix}))
        for key, body in (objects or {}).items():
            self.put(key, body, bucket=name)

    def put(self, key: Key, body: bytes, *, bucket: str | None = None, modified: datetime | None = None) -> None:
        """Puts an object in its place, without a request.

        Args:
            key: its key.
            body: its bytes.
            bucket: the bucket; the first one when not given.
            modified: when it was written, with a zone; now when not given.

        Raises:
            UsageError: there is no such bucket, the key cannot be used, or the store is full.
        """
        milliseconds = None if modified is None else int(modified.timestamp() * 1000)
        self._native.put(bucket or self.bucket, _text(key), body, milliseconds)

    def objects(self, bucket: str | None = None) -> dict[str, bytes]:
        """The objects that a bucket was given, by key and in the order of keys; not the computed ones."""
        return self._native.objects(bucket or self.bucket)

    def change(self, **behaviour: Unpack[S3Behaviour]) -> None:
        """Changes how it behaves, for requests from now on. What is not named stays as it is.

        Args:
            behaviour: values of `S3Behaviour`.

        Raises:
            UsageError: a value cannot be used.
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
        """Adds credentials that may sign, or replaces those with the same access key. Others stay valid.

        Args:
            access_key: the access key.
            secret_key: its secret.
            token: the session token that must come with it.
            expires_in: seconds from now on until they are not valid any more: then 400 ExpiredToken.

        Raises:
            UsageError: the time is not a number of seconds.
        """
        pair = {"access_key": access_key, "secret_key": secret_key, "token": token, "expires_in": expires_in}
        self._native.set_credentials(json.dumps(pair))
        self._access_key, self._secret_key, self._token = access_key, secret_key, token

    def environment(self) -> dict[str, str]:
        """What another process needs to find this store, and nothing else of Amazon's: variables of its environment.

        With the credentials that were set last. No file of the person's is read and no metadata service is asked.
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
        """What it has done since its start, or since `reset_stats`.

        Returns:
            `connections`, `requests`, `bytes_sent`; requests by kind: `gets` (of which `fetched` were answered with
            bytes), `heads`, `lists`, `puts`, `parts`, `completed`, `deletes`; replies by kind: `refused` (503),
            `denied` (403, but not for the time), `skewed` (403 for the time), `expired`, `not_found`, `redirected` (to
            another region); `dropped` uploads.
        """
        return self._native.stats()

    def reset_stats(self) -> None:
        """Starts to count from nothing."""
        self._native.reset_stats()

    def stop(self) -> None:
        """Closes all connections and ends the threads. A second call does nothing."""
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
    """Runs a store until standard input ends; says where it is in one JSON line, and what it did in another."""
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
