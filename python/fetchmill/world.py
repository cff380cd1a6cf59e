"""A world of hosts on loopback that behave like all kinds of real sites, for tests and benchmarks of checks.

    with fetchmill.testing.world() as world:
        for site in world.sites(1000):
            ...  # query the name server at `world.dns` for the host of `site.url`, and compare with `site.expected`

`python -m fetchmill.world` runs a world in a separate process. The process prints its addresses as one JSON line, and
ends when its standard input ends.
"""

import argparse
import json
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from itertools import accumulate
from pathlib import Path
from typing import Any, Self

from fetchmill._native import World as NativeWorld
from fetchmill.errors import UsageError

__all__ = ["BEHAVIOURS", "DEFAULT_MIX", "Expected", "Site", "World", "WorldOptions", "sites"]


@dataclass(frozen=True)
class Expected:
    """The result that a check is expected to report for a site: a status, or one of several failure kinds.

    Args:
        status: status of the final reply; None if a failure is expected.
        kinds: the accepted failure kinds; empty if a status is expected.
    """

    status: int | None
    kinds: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Site:
    """A site of a world.

    Args:
        url: URL of the site.
        behaviour: the behaviour of its host, a key of `BEHAVIOURS`.
        expected: the expected result of a check.
    """

    url: str
    behaviour: str
    expected: Expected


OK = Expected(200)


def _fails(*kinds: str) -> Expected:
    return Expected(None, frozenset(kinds))


# Expected results by behaviour. They assume a check that follows 3 to 29 redirects (but not from https to http),
# retries busy hosts and offers HTTP/2. It also accepts bodies that end with the connection, and private addresses.
BEHAVIOURS: dict[str, Expected] = {
    "good": OK,
    "slow": OK,
    "nxdomain": _fails("dns-not-found"),
    "servfail": _fails("dns-servfail"),
    "nodata": _fails("dns-empty"),
    "nodns": _fails("dns-timeout"),
    "slowdns": OK,
    "cname": OK,
    "many": OK,
    "tc": OK,
    "dual": OK,
    "rebind": OK,  # the first lookup returns a good address
    "dead": _fails("connect-timeout"),
    "refusing": _fails("refused"),
    "resetting": _fails("reset"),
    "closing": _fails("reset"),
    "notfound": Expected(404),
    "error": Expected(500),
    "busy": OK,  # if the client waits for Retry-After; otherwise 429
    "redirecting": OK,
    "looping": _fails("redirect-loop"),
    "faraway": _fails("redirect-limit"),
    "downgrade": _fails("redirect-refused"),
    "trickling": _fails("total-timeout"),
    "stalling": _fails("head-timeout"),
    "halfhead": _fails("head-timeout"),
    "garbage": _fails("not-http"),
    "huge": _fails("head-too-large"),
    "big": OK,
    "nolength": OK,
    "truncated": _fails("truncated"),
    "chunked": OK,
    "http2": OK,
    # Nothing listens on 127.255.255.254, which is not a public address.
    "private": _fails("private-address", "connect-timeout", "unreachable", "refused"),
    "upgrade": _fails("framing"),
    "expired": _fails("tls-expired"),
    "wrongname": _fails("tls-wrong-name"),
    "selfsigned": _fails("tls-self-signed"),
    "unknownca": _fails("tls-unknown-ca"),
    "plain": _fails("tls"),
    "notls": _fails("reset"),
    "stalledtls": _fails("tls-timeout"),
}
# Statuses of redirecting hosts, for clients that do not follow redirects.
REDIRECTS = {"redirecting": 302, "looping": 302, "faraway": 302, "downgrade": 302, "private": 302}
# TLS behaviours. Over http, hosts with these behaviours act like good hosts.
ONLY_HTTPS = frozenset({"expired", "wrongname", "selfsigned", "unknownca", "plain", "notls", "stalledtls", "downgrade"})

# Shares of the most frequent behaviours. All other behaviours share the remainder equally.
_USUAL = {"good": 0.60, "dead": 0.20, "slow": 0.05}
DEFAULT_MIX: Mapping[str, float] = {
    name: _USUAL.get(name, (1 - sum(_USUAL.values())) / (len(BEHAVIOURS) - len(_USUAL))) for name in BEHAVIOURS
}


@dataclass(frozen=True, kw_only=True)
class WorldOptions:
    """The options of a world.

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
    """

    http_port: int = 0
    https_port: int = 0
    dns_port: int = 0
    addresses: int = 16
    threads: int = 1
    timeout: float = 3.0
    retry_after: int = 2
    dns_delay_ms: int = 0
    dns_loss: float = 0.0
    watched: Sequence[str] = field(default=())
    seed: int = 0

    def to_json(self) -> str:
        """Return the options for the native module."""
        return json.dumps(asdict(self))


class World:
    """A running world. It starts when it is created, and runs until `stop` is called or a `with` block ends.

    Raises:
        UsageError: an option is invalid, or an address is in use.
    """

    def __init__(self, options: WorldOptions | None = None) -> None:
        self._native = NativeWorld((options or WorldOptions()).to_json())

    @property
    def dns(self) -> str:
        """The host and port of the name server, for both UDP and TCP."""
        return self._native.dns

    @property
    def http_port(self) -> int:
        """The port for http at all addresses."""
        return self._native.http_port

    @property
    def https_port(self) -> int:
        """The port for https at all addresses."""
        return self._native.https_port

    @property
    def ca_pem(self) -> str:
        """The PEM CA certificate that clients must trust, for example by passing it in a `--ca-file`."""
        return self._native.ca_pem

    def sites(
        self,
        count: int,
        *,
        mix: Mapping[str, float] | None = None,
        seed: int = 0,
        https: float = 0.5,
        redirects: bool = True,
        patient: bool = True,
    ) -> Iterator[Site]:
        """Return a mix of sites; see the `sites` function."""
        ports = (self.http_port, self.https_port)
        return sites(ports, count, mix=mix, seed=seed, https=https, redirects=redirects, patient=patient)

    def stats(self) -> dict[str, Any]:
        """Return the counters since the start.

        Returns:
            `elapsed_ms`: milliseconds since the start. `datagrams_lost`: number of lost datagrams. `behaviours`:
            connections, requests and queries by behaviour, without unused behaviours. `watched`: by host, `requests_ms`
            (arrival times of requests, in milliseconds since the start), `connections` (currently open),
            `connections_max` and `queries`.
        """
        return self._native.stats()

    def stop(self) -> None:
        """Close all connections and end the threads. A second call does nothing."""
        self._native.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<fetchmill.world.World dns={self.dns} http={self.http_port} https={self.https_port}>"


def sites(
    ports: tuple[int, int],
    count: int,
    *,
    mix: Mapping[str, float] | None = None,
    seed: int = 0,
    https: float = 0.5,
    redirects: bool = True,
    patient: bool = True,
) -> Iterator[Site]:
    """Yield a mix of sites of a world, each on its own host.

    Args:
        ports: the ports for http and https.
        count: number of sites.
        mix: weights by behaviour; None for `DEFAULT_MIX`.
        seed: seed of the mix. The same seed yields the same sites.
        https: share of sites that use https, from 0 to 1. TLS behaviours always use https.
        redirects: whether the check follows redirects.
        patient: whether the check retries busy hosts after their Retry-After time.

    Returns:
        An iterator that creates the sites lazily.

    Raises:
        UsageError: the mix contains an unknown behaviour, a weight below 0, or no weight above 0.
    """
    weights = DEFAULT_MIX if mix is None else mix
    if unknown := sorted(set(weights) - set(BEHAVIOURS)):
        raise UsageError(f"mix: {unknown[0]!r} is not a behaviour; choose from {', '.join(BEHAVIOURS)}")
    if not weights or min(weights.values()) < 0 or sum(weights.values()) <= 0:
        raise UsageError("mix: weights must be at least 0, and at least one must be above 0")
    expected = {name: _expected(name, redirects=redirects, patient=patient) for name in weights}
    chance = random.Random(seed)  # noqa: S311 - a mix of sites, not a secret
    return _mix(ports, count, list(weights), list(accumulate(weights.values())), chance, https, expected)


def _mix(
    ports: tuple[int, int],
    count: int,
    names: list[str],
    cumulative: list[float],
    chance: random.Random,
    https: float,
    expected: dict[str, Expected],
) -> Iterator[Site]:
    for number in range(count):
        name = chance.choices(names, cum_weights=cumulative)[0]
        is_https = chance.random() < https or name in ONLY_HTTPS
        scheme, port = ("https", ports[1]) if is_https else ("http", ports[0])
        right = expected[name]
        if name == "redirecting" and not is_https and right.status == REDIRECTS[name]:
            right = Expected(301)
        yield Site(f"{scheme}://{name}-{number:06}.test:{port}/", name, right)


def _expected(name: str, *, redirects: bool, patient: bool) -> Expected:
    if name == "busy" and not patient:
        return Expected(429)
    if name in REDIRECTS and not redirects:
        return Expected(REDIRECTS[name])
    return BEHAVIOURS[name]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a world until standard input ends. Print its addresses and, at the end, its counters as JSON lines."""
    parser = argparse.ArgumentParser(prog="python -m fetchmill.world", description=main.__doc__)
    parser.add_argument("--ca-file", help="where to write the authority's certificate")
    for option in fields(WorldOptions):
        many = {"nargs": "*"} if option.name == "watched" else {"type": type(option.default)}
        parser.add_argument(f"--{option.name.replace('_', '-')}", default=option.default, **many)
    given = vars(parser.parse_args(arguments))
    ca_file = given.pop("ca_file")
    with World(WorldOptions(**given)) as world:
        if ca_file:
            Path(ca_file).write_text(world.ca_pem, encoding="ascii")
        ports = {"http_port": world.http_port, "https_port": world.https_port}
        _say({"dns": world.dns, **ports, "ca_file": ca_file})
        sys.stdin.read()
        _say(world.stats())


def _say(value: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
