"""For tests of programs that use fetchmill, and for fetchmill's own: a server in this process, with faults.

`world` is a thousand hosts with their name server, for programs that fetch from many. `s3` is a store that speaks S3.

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


def serve(  # noqa: PLR0913 - each has its default
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
    """Serves a folder, or synthetic objects, until the end of a `with` block.

    Args:
        folder: the folder to serve; or else
        synthetic: how many objects to compute: `synthetic_body(name, size)` is what an object must be.
        size: bytes of a synthetic object.
        host: address to listen on.
        port: port to listen on; 0 is any that is free.
        threads: threads that serve.
        page_size: names in a page.
        delay: seconds that each /get waits: uniform between the two.
        delay_steps: whether that is in whole seconds.
        slow_rate: share of the /get requests that wait slow_delay in place of delay, 0 to 1.
        slow_delay: seconds that these wait: uniform between the two.
        list_delay: seconds that each /list waits.
        tls: serve https, with a certificate for localhost and the loopback addresses; `server.ca_pem` is what proves
            it.
        seed: start of all that is random: the same seed hits the same names.
        faults: scripted faults; the first that applies to a request decides.
        hidden: whether files and folders whose names start with a dot are served; the state of a job never is.
        allow_hosts: hosts that requests may be for besides localhost, 127.0.0.0/8 and [::1], when it listens at
            loopback; `*` for all.
        client_timeout: seconds that a client may take for its next request, or for taking some of a reply.

    Returns:
        A running server, which is its own context manager.

    Raises:
        UsageError: an option cannot be used, the folder cannot be read, or the address is taken.
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


def world(  # noqa: PLR0913 - each has its default
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
    """Serves hosts of every behaviour, with their name server, until the end of a `with` block. All on loopback.

    Hosts are called `<behaviour>-<number>.test`, with any number; `fetchmill.world.BEHAVIOURS` has all behaviours.

    Args:
        http_port: port of http, the same at all addresses; 0 is any that is free.
        https_port: port of https, as above.
        dns_port: port of the name server at 127.0.0.1, as above.
        addresses: addresses of each behaviour that is common. About 28,000 connections a minute fit to each.
        threads: threads that serve.
        timeout: the timeout of the clients, in seconds: slow hosts need up to a third of it.
        retry_after: seconds of Retry-After of busy hosts.
        dns_delay_ms: milliseconds that every look-up waits.
        dns_loss: share of the datagrams to the name server that are lost, 0 to 1.
        watched: names of hosts whose requests, connections and look-ups are written down.
        seed: start of all that is random.

    Returns:
        A running world, which is its own context manager.

    Raises:
        UsageError: an option cannot be used, or an address is taken.
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


def s3(  # noqa: PLR0913 - each has its default
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
    """Serves a bucket over S3 on loopback until the end of a `with` block; `add_bucket` adds others.

    Args:
        objects: what the bucket has at the start. Keys are text, or its UTF-8 bytes.
        bucket: its name.
        region: where it, and the endpoint, are.
        synthetic: how many computed objects it has, besides: the names and bodies of a synthetic server.
        size: bytes of each of them.
        key_prefix: what their keys start with; their bodies do not depend on it.
        public: whether anybody may list and read it, without a signature.
        access_key: the access key that may sign.
        secret_key: its secret.
        token: the session token that must come with it.
        expires_in: seconds until these credentials are not valid any more.
        virtual_host_suffix: with it, only `BUCKET.SUFFIX` as a host names a bucket.
        port: port to listen on; 0 is any that is free.
        threads: threads that serve.
        behaviour: clock, delays and faults; `S3Behaviour` has them all. They may change while it runs.

    Returns:
        A running store, which is its own context manager.

    Raises:
        UsageError: an option cannot be used, a key is not UTF-8 or too long, or the port is taken.
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
    """The body that a synthetic server gives to a name: text of about 24 random bytes in 100, the name first.

    Args:
        name: the name, as listed.
        size: its size in bytes.

    Returns:
        Exactly so many bytes.
    """
    return native_synthetic_body(name, size)
