"""For tests of programs that use fetchmill, and for fetchmill's own: a server in this process, with faults.

`world` is a thousand hosts with their name server, for programs that fetch from many.

with fetchmill.testing.serve(synthetic=1000, faults=[Fault("status", status=503, times=1)]) as server:
    report = fetchmill.get(server.url, "out/")
assert server.stats()["get"] == 2000
"""

import os
from collections.abc import Sequence

from fetchmill._native import synthetic_body as native_synthetic_body
from fetchmill.server import Fault, ServeOptions, Server
from fetchmill.world import World, WorldOptions

__all__ = ["Fault", "Server", "World", "serve", "synthetic_body", "world"]


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
    list_delay: tuple[float, float] | None = None,
    seed: int = 0,
    faults: Sequence[Fault] = (),
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
        list_delay: seconds that each /list waits.
        seed: start of all that is random: the same seed hits the same names.
        faults: scripted faults; the first that applies to a request decides.

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
            list_delay=list_delay,
            seed=seed,
            faults=faults,
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


def synthetic_body(name: str, size: int) -> bytes:
    """The body that a synthetic server gives to a name: text of about 24 random bytes in 100, the name first.

    Args:
        name: the name, as listed.
        size: its size in bytes.

    Returns:
        Exactly so many bytes.
    """
    return native_synthetic_body(name, size)
