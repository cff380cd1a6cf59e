"""Test servers that run in this process, for tests of programs that use fetchmill and for fetchmill's own tests.

`serve` serves a folder or synthetic objects over HTTP, with scripted faults. `world` serves a thousand hosts and their
name server, for programs that fetch from many hosts. `s3` serves a bucket over S3.

    with fetchmill.testing.serve(synthetic=1000, faults=[Fault("status", status=503, times=1)]) as server:
        report = fetchmill.get(server.url, "out/")
    assert server.stats()["get"] == 2000
"""

import os
from collections.abc import Sequence
from typing import Unpack

from fetchmill._native import synthetic_body as native_synthetic_body
from fetchmill._server import Fault, ServeOptions, Server
from fetchmill.s3_store import ACCESS_KEY, BUCKET, REGION, SECRET_KEY, ObjectBodies, S3Behaviour, S3Options, S3Store
from fetchmill.world import World, WorldOptions

__all__ = ["Fault", "S3Behaviour", "S3Store", "Server", "World", "s3", "serve", "synthetic_body", "world"]


def serve(  # noqa: PLR0913 - every parameter has a default
    folder: str | os.PathLike[str] | None = None,
    *,
    synthetic: int | None = None,
    size: int = 100,
    host: str = "127.0.0.1",
    port: int = 0,
    threads: int = 1,
    page_size: int = 1000,
    delay: tuple[float, float] | None = None,
    delay_steps: bool = False,
    slow_rate: float = 0.0,
    slow_delay: tuple[float, float] = (2.0, 2.0),
    list_delay: tuple[float, float] | None = None,
    tls: bool = False,
    seed: int = 0,
    faults: Sequence[Fault] = (),
    hidden: bool = False,
    allow_hosts: Sequence[str] = (),
    client_timeout: float = 60.0,
) -> Server:
    """Serve a folder or synthetic objects until a `with` block ends.

    Args:
        folder: the folder to serve. Give either `folder` or `synthetic`.
        synthetic: number of synthetic objects to serve. `synthetic_body(name, size)` returns the expected body.
        size: size of a synthetic object in bytes.
        host: address to listen on.
        port: port to listen on; 0 picks a free port.
        threads: number of server threads.
        page_size: number of names per listing page.
        delay: minimum and maximum delay of a /get request in seconds. Delays are uniformly distributed between them.
        delay_steps: whether delays are whole numbers of seconds.
        slow_rate: share of /get requests that are delayed by `slow_delay` instead of `delay`, from 0 to 1.
        slow_delay: minimum and maximum delay of these slow requests in seconds.
        list_delay: minimum and maximum delay of a /list request in seconds.
        tls: whether to serve https, with a certificate for localhost and the loopback addresses. Clients must trust
            `server.ca_pem`.
        seed: seed for all random decisions. The same seed affects the same names.
        faults: scripted faults. The first fault that applies to a request is used.
        hidden: whether to serve files and folders whose names start with a dot. A job's state is never served.
        allow_hosts: host names that requests can use when the server listens on loopback, in addition to localhost,
            127.0.0.0/8 and [::1]; `*` for all.
        client_timeout: maximum seconds for a client to send its next request, or to read more of a reply.

    Returns:
        A running server, which is also a context manager.

    Raises:
        UsageError: an option is invalid, the folder cannot be read, or the address is in use.
    """
    return Server(
        ServeOptions(
            folder=folder,
            synthetic=synthetic,
            size=size,
            host=host,
            port=port,
            threads=threads,
            page_size=page_size,
            delay=delay,
            delay_steps=delay_steps,
            slow_rate=slow_rate,
            slow_delay=slow_delay,
            list_delay=list_delay,
            tls=tls,
            seed=seed,
            faults=faults,
            hidden=hidden,
            allow_hosts=allow_hosts,
            client_timeout=client_timeout,
        )
    )


def world(  # noqa: PLR0913 - every parameter has a default
    *,
    http_port: int = 0,
    https_port: int = 0,
    dns_port: int = 0,
    addresses: int = 16,
    threads: int = 1,
    timeout: float = 3.0,
    retry_after: int = 2,
    dns_delay_ms: int = 0,
    dns_loss: float = 0.0,
    watched: Sequence[str] = (),
    seed: int = 0,
) -> World:
    """Run hosts with every behaviour, and their name server, on loopback until a `with` block ends.

    Host names are `<behaviour>-<number>.test`, with any number. `fetchmill.world.BEHAVIOURS` lists all behaviours.

    Args:
        http_port: port for http at all addresses; 0 picks a free port.
        https_port: port for https at all addresses; 0 picks a free port.
        dns_port: port of the name server at 127.0.0.1; 0 picks a free port.
        addresses: number of addresses per common behaviour. Each address allows about 28,000 connections per minute.
        threads: number of server threads.
        timeout: timeout of the clients in seconds. Slow hosts take up to a third of this time.
        retry_after: the Retry-After value of busy hosts, in seconds.
        dns_delay_ms: delay of every DNS lookup in milliseconds.
        dns_loss: share of datagrams to the name server that are lost, from 0 to 1.
        watched: names of hosts whose requests, connections and DNS lookups are recorded.
        seed: seed for all random decisions.

    Returns:
        A running world, which is also a context manager.

    Raises:
        UsageError: an option is invalid, or an address is in use.
    """
    return World(
        WorldOptions(
            http_port=http_port,
            https_port=https_port,
            dns_port=dns_port,
            addresses=addresses,
            threads=threads,
            timeout=timeout,
            retry_after=retry_after,
            dns_delay_ms=dns_delay_ms,
            dns_loss=dns_loss,
            watched=watched,
            seed=seed,
        )
    )


def s3(  # noqa: PLR0913 - every parameter has a default
    objects: ObjectBodies | None = None,
    *,
    bucket: str = BUCKET,
    region: str = REGION,
    synthetic: int = 0,
    size: int = 100,
    key_prefix: str = "",
    public: bool = False,
    access_key: str = ACCESS_KEY,
    secret_key: str = SECRET_KEY,
    token: str | None = None,
    expires_in: float | None = None,
    virtual_host_suffix: str | None = None,
    port: int = 0,
    threads: int = 1,
    **behaviour: Unpack[S3Behaviour],
) -> S3Store:
    """Serve a bucket over S3 on loopback until a `with` block ends. `add_bucket` adds more buckets.

    Args:
        objects: the initial objects of the bucket. Keys are text or UTF-8 bytes.
        bucket: name of the bucket.
        region: region of the bucket and the endpoint.
        synthetic: number of additional computed objects, with the names and bodies of a synthetic server.
        size: size of a computed object in bytes.
        key_prefix: prefix of the keys of computed objects. The bodies do not depend on it.
        public: whether clients can list and read the bucket without a signature.
        access_key: the access key for signing requests.
        secret_key: the secret key that belongs to the access key.
        token: the session token that must be sent with the access key.
        expires_in: seconds until the credentials expire.
        virtual_host_suffix: if given, a bucket can only be addressed by the host name `BUCKET.SUFFIX`.
        port: port to listen on; 0 picks a free port.
        threads: number of server threads.
        behaviour: clock, delays and faults, as described in `S3Behaviour`. They can be changed while the store runs.

    Returns:
        A running store, which is also a context manager.

    Raises:
        UsageError: an option is invalid, a key is not UTF-8 or is too long, or the port is in use.
    """
    options = S3Options(
        bucket=bucket,
        region=region,
        synthetic=synthetic,
        size=size,
        key_prefix=key_prefix,
        public=public,
        access_key=access_key,
        secret_key=secret_key,
        token=token,
        expires_in=expires_in,
        virtual_host_suffix=virtual_host_suffix,
        port=port,
        threads=threads,
    )
    return S3Store(options, objects, **behaviour)


def synthetic_body(name: str, size: int) -> bytes:
    """Return the body that a synthetic server serves for a name.

    The body is text that begins with the name and contains about 24 random bytes in every 100.

    Args:
        name: the name, in the form in which it is listed.
        size: size of the body in bytes.

    Returns:
        Exactly `size` bytes.
    """
    return native_synthetic_body(name, size)
