"""The hosts of the test world do what their names say, as seen by the standard library alone."""

import contextlib
import http.client
import json
import re
import selectors
import socket
import ssl
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

import pytest

from bare_client import AAAA, CNAME, NOERROR, NXDOMAIN, SERVFAIL, SOA, Client, ask
from fetchmill._native import World as NativeWorld
from fetchmill.errors import UsageError
from fetchmill.testing import World, world
from fetchmill.world import BEHAVIOURS, DEFAULT_MIX, ONLY_HTTPS, sites

BOTH = ("http", "https")
REQUEST = b"GET / HTTP/1.1\r\nHost: %s\r\n\r\n"


@pytest.fixture(scope="module")
def whole() -> Iterator[World]:
    """Starts a world for all tests that only send requests."""
    with world(timeout=1.5) as running:
        yield running


@pytest.fixture
def client(whole: World) -> Client:
    """Returns a client that trusts the world's certificate authority."""
    return Client(whole.dns, whole.ca_pem)


def url(running: World, scheme: str, host: str, path: str = "/") -> str:
    """Returns the URL of a host of a world."""
    port = running.http_port if scheme == "http" else running.https_port
    return f"{scheme}://{host}.test:{port}{path}"


def rest_of(connection: socket.socket) -> bytes:
    """Reads until the peer closes the connection."""
    pieces = []
    while piece := connection.recv(65_536):
        pieces.append(piece)
    return b"".join(pieces)


def send_request(connection: socket.socket, host: str) -> None:
    """Sends a request for the page of a host."""
    connection.sendall(REQUEST % f"{host}.test".encode())


# DNS


@pytest.mark.parametrize("tcp", [False, True])
def test_dns_names_have_their_loopback_addresses(whole: World, *, tcp: bool) -> None:
    """Numbers rotate through the sixteen addresses, and any number works."""
    answers = [ask(whole.dns, f"good-{number:06}.test", tcp=tcp) for number in (*range(20), 10**18)]

    addresses = [answer.addresses for answer in answers]
    assert addresses[:16] == [[f"127.77.1.{number + 1}"] for number in range(16)]
    assert addresses[16:20] == addresses[:4]
    assert addresses[20] == ["127.77.1.1"]


def test_dns_answer_keeps_case_of_query(whole: World) -> None:
    """Answers repeat the mixed case of the query, which clients use against forged answers."""
    answer = ask(whole.dns, "GoOd-000001.tEsT")

    assert answer.question == "GoOd-000001.tEsT"
    assert answer.addresses == ["127.77.1.2"]


@pytest.mark.parametrize("name", ["nxdomain-1.test", "better-1.test", "good-1.example", "www.good-1.test", "test"])
def test_dns_unknown_host_gets_nxdomain(whole: World, name: str) -> None:
    """The NXDOMAIN answer has the SOA record with its lifetime."""
    answer = ask(whole.dns, name)

    assert (answer.rcode, answer.addresses, answer.authority) == (NXDOMAIN, [], [SOA])


def test_dns_failures_differ_from_empty_answers(whole: World) -> None:
    """Only an empty answer has the record that lets it be cached."""
    failed, empty = ask(whole.dns, "servfail-1.test"), ask(whole.dns, "nodata-1.test")

    assert (failed.rcode, failed.addresses) == (SERVFAIL, [])
    assert (empty.rcode, empty.addresses, empty.authority) == (NOERROR, [], [SOA])
    assert ask(whole.dns, "good-1.test", AAAA).authority == [SOA]


@pytest.mark.parametrize("tcp", [False, True])
def test_dns_silent_names_get_no_answer(whole: World, *, tcp: bool) -> None:
    """Queries for some names get no answer, over UDP and TCP."""
    with pytest.raises(TimeoutError):
        ask(whole.dns, "nodns-1.test", tcp=tcp, timeout=1)


def test_dns_slow_names_take_100_to_400_ms(whole: World) -> None:
    """Slow names are answered after 100 to 400 ms."""
    for number in range(3):
        started = time.monotonic()
        answer = ask(whole.dns, f"slowdns-{number}.test")

        assert 0.1 <= time.monotonic() - started < 1.5
        assert len(answer.addresses) == 1


def test_dns_alias_chain_leads_to_good_host(whole: World, client: Client) -> None:
    """One answer has the whole chain of three aliases in order."""
    answer = ask(whole.dns, "cname-000005.test")

    aliases = [(owner, data) for owner, kind, data in answer.records if kind == CNAME]
    assert len(aliases) == 3
    assert all(data == owner for (_, data), (owner, _) in pairwise(aliases))
    assert (aliases[0][0], aliases[-1][1]) == ("cname-000005.test", "good-000005.test")
    assert answer.records[-1] == ("good-000005.test", 1, "127.77.1.6")
    assert client.get(url(whole, "https", "cname-000005")).status == 200


def test_dns_answer_of_many_addresses_exceeds_small_datagram(whole: World) -> None:
    """Thirty addresses need a large datagram or TCP, and each has a listener."""
    small = ask(whole.dns, "many-000001.test")
    large = ask(whole.dns, "many-000001.test", payload=1232)

    assert (small.is_truncated, small.addresses) == (True, [])
    assert not large.is_truncated
    assert len(set(large.addresses)) == 30
    assert ask(whole.dns, "many-000001.test", tcp=True).addresses == large.addresses
    for address in large.addresses:
        socket.create_connection((address, whole.http_port), 2).close()


def test_dns_truncated_answer_is_complete_over_tcp(whole: World) -> None:
    """The answer over UDP is truncated even if the client accepts a large one."""
    answer = ask(whole.dns, "tc-1.test", payload=1232)

    assert (answer.is_truncated, answer.addresses) == (True, [])
    assert len(ask(whole.dns, "tc-1.test", tcp=True).addresses) == 1


@pytest.mark.parametrize("scheme", BOTH)
def test_ipv6_address_refuses_and_ipv4_works(whole: World, client: Client, scheme: str) -> None:
    """The IPv6 address has no listener, and the IPv4 address works."""
    port = whole.http_port if scheme == "http" else whole.https_port

    assert ask(whole.dns, "dual-1.test", AAAA).addresses == ["::1"]
    with pytest.raises(OSError, match=r"refused|unreachable|assign"):
        socket.create_connection(("::1", port), 2)
    assert client.get(url(whole, scheme, "dual-1")).status == 200


def test_dns_address_changes_between_queries(whole: World) -> None:
    """Answers alternate between a good and a private address, like a name that tries to pass an address check."""
    addresses = [ask(whole.dns, "rebind-000007.test").addresses for _ in range(4)]

    assert addresses[0] == addresses[2] != ["127.255.255.254"]
    assert addresses[1] == addresses[3] == ["127.255.255.254"]


def test_dns_garbage_does_not_stop_name_server(whole: World) -> None:
    """The name server still answers after garbage."""
    host, _, port = whole.dns.rpartition(":")
    with socket.socket(type=socket.SOCK_DGRAM) as sender:
        for garbage in (b"", b"\0", b"\xff" * 12, b"\0" * 12, b"\xc0" * 600):
            sender.sendto(garbage, (host, int(port)))

    assert ask(whole.dns, "good-1.test").addresses


def test_dns_delay_and_loss_are_as_configured() -> None:
    """Queries are delayed and lost as configured, and lost ones are counted."""
    with world(dns_delay_ms=100, dns_loss=0.5, seed=3, watched=["good-1.test"]) as lossy:

        def seconds(_: int) -> float | None:
            started = time.monotonic()
            with contextlib.suppress(TimeoutError):
                ask(lossy.dns, "good-1.test")
                return time.monotonic() - started
            return None

        with ThreadPoolExecutor(20) as threads:
            answered = [taken for taken in threads.map(seconds, range(20)) if taken is not None]
        stats = lossy.stats()

    assert 0 < len(answered) < 20
    assert min(answered) >= 0.1
    assert stats["datagrams_lost"] == 20 - len(answered)
    assert stats["watched"]["good-1.test"]["queries"] == len(answered)


# Connections


def test_dead_addresses_answer_no_syn(whole: World) -> None:
    """No SYN is answered within a second, alone or among hundreds, at any address and port."""
    addresses = sorted({ask(whole.dns, f"dead-{number}.test").addresses[0] for number in range(16)})
    places = [(address, port) for address in addresses for port in (whole.http_port, whole.https_port)]
    with ExitStack() as stack, selectors.DefaultSelector() as selector:
        for place in places * 10:
            calling = stack.enter_context(socket.socket())
            calling.setblocking(False)
            calling.connect_ex(place)
            selector.register(calling, selectors.EVENT_WRITE)

        assert len(places) == 32
        assert selector.select(1) == []


@pytest.mark.parametrize("scheme", BOTH)
def test_closed_port_refuses_connection(whole: World, client: Client, scheme: str) -> None:
    """The kernel immediately refuses connections to ports without a listener."""
    with pytest.raises(ConnectionRefusedError):
        client.get(url(whole, scheme, "refusing-1"))


@pytest.mark.parametrize("scheme", BOTH)
def test_connection_is_reset_after_request(whole: World, client: Client, scheme: str) -> None:
    """The reset is seen below TLS, because its library may report an ordinary end."""
    with client.connect(url(whole, scheme, "resetting-1")) as connection:
        send_request(connection, "resetting-1")
        time.sleep(0.2)
        with socket.socket(fileno=connection.detach()) as bare, pytest.raises(ConnectionResetError):
            bare.recv(1)


def test_connection_is_closed_before_any_byte(whole: World, client: Client) -> None:
    """The server closes connections without sending a byte."""
    with client.connect(url(whole, "http", "closing-1")) as connection:
        assert connection.recv(1) == b""
    with pytest.raises((ssl.SSLEOFError, ConnectionResetError, BrokenPipeError)):
        client.connect(url(whole, "https", "closing-1"))


# Replies


@pytest.mark.parametrize("scheme", BOTH)
@pytest.mark.parametrize(
    "behaviour",
    [name for name, right in BEHAVIOURS.items() if right.status == 200 and name not in {"big", "busy", "tc", "rebind"}],
)
def test_good_hosts_answer_with_their_name(whole: World, client: Client, behaviour: str, scheme: str) -> None:
    """After all redirects, good hosts answer with the name that was requested last."""
    got, way = client.follow(url(whole, scheme, f"{behaviour}-41"))

    assert got.status == 200
    name = way[-1].split("/")[2].split(":")[0]
    assert f"<title>{name}</title>".encode() in got.body


@pytest.mark.parametrize("scheme", BOTH)
def test_connection_serves_many_requests(whole: World, client: Client, scheme: str) -> None:
    """One HTTP/1.1 connection serves many requests."""
    with client.connect(url(whole, scheme, "good-1")) as connection:
        for _ in range(3):
            send_request(connection, "good-1")
            reply = http.client.HTTPResponse(connection)
            reply.begin()
            assert (reply.status, len(reply.read())) == (200, int(reply.headers["Content-Length"]))


def test_slow_hosts_stay_within_third_of_timeout(whole: World, client: Client) -> None:
    """Slow hosts have different delays, up to a third of the timeout."""
    delays = []
    for number in range(8):
        with client.connect(url(whole, "http", f"slow-{number}")) as connection:
            started = time.monotonic()
            send_request(connection, f"slow-{number}")
            connection.recv(1)
            delays.append(time.monotonic() - started)

    assert max(delays) < 0.5 + 0.3
    assert max(delays) > 2 * min(delays)


@pytest.mark.parametrize("scheme", BOTH)
@pytest.mark.parametrize(("behaviour", "status"), [("notfound", 404), ("error", 500)])
def test_status_hosts_answer_their_status(
    whole: World, client: Client, behaviour: str, status: int, scheme: str
) -> None:
    """Each host answers with the status in its name, with a body for GET and none for HEAD."""
    assert client.get(url(whole, scheme, f"{behaviour}-1")).status == status
    assert client.get(url(whole, scheme, f"{behaviour}-1"), "HEAD").body == b""


def test_busy_host_answers_429_once() -> None:
    """A busy host answers 429 once, for each scheme."""
    with world(retry_after=7) as running:
        client = Client(running.dns, running.ca_pem)
        replies = [client.get(url(running, scheme, "busy-1")) for scheme in BOTH]
        other = client.get(url(running, "http", "busy-2"))

    assert [reply.status for reply in replies] == [429, 200]
    assert replies[0].headers["Retry-After"] == "7"
    assert other.status == 429


@pytest.mark.parametrize("scheme", BOTH)
def test_redirect_hosts_lead_to_their_targets(whole: World, client: Client, scheme: str) -> None:
    """Redirects lead to https, through thirty hops, in a circle, and to a non-public address."""
    _, redirecting = client.follow(url(whole, scheme, "redirecting-1"))
    got, faraway = client.follow(url(whole, scheme, "faraway-1"))
    _, looping = client.follow(url(whole, scheme, "looping-1"), most=4)

    secured = [url(whole, "https", "redirecting-1"), url(whole, "https", "good-000001")]
    assert redirecting == ([url(whole, "http", "redirecting-1")] if scheme == "http" else []) + secured
    assert (got.status, len(faraway)) == (200, 31)
    assert looping == [url(whole, scheme, "looping-1", path) for path in ("/", "/a", "/b", "/a", "/b")]
    assert client.get(url(whole, scheme, "private-1")).headers["Location"] == f"{scheme}://127.255.255.254/"


def test_redirect_downgrades_tls_to_plain_http(whole: World, client: Client) -> None:
    """A redirect leads from TLS to a host that answers over plain HTTP."""
    _, way = client.follow(url(whole, "https", "downgrade-1"))

    assert way == [url(whole, scheme, "downgrade-1") for scheme in ("https", "http")]


@pytest.mark.parametrize("scheme", BOTH)
@pytest.mark.parametrize(
    ("behaviour", "sent"), [("stalling", b""), ("halfhead", b"HTTP/1.1 200 OK\r\nContent-Type: text/h")]
)
def test_incomplete_replies_leave_connection_open(
    whole: World, client: Client, behaviour: str, sent: bytes, scheme: str
) -> None:
    """After an incomplete reply, the connection stays open and silent."""
    with client.connect(url(whole, scheme, f"{behaviour}-1")) as connection:
        send_request(connection, f"{behaviour}-1")
        connection.settimeout(0.5)
        for part in [sent] if sent else []:
            assert connection.recv(999) == part
        with pytest.raises(TimeoutError):
            connection.recv(1)


@pytest.mark.parametrize("scheme", BOTH)
def test_trickled_body_has_one_byte_per_second(whole: World, client: Client, scheme: str) -> None:
    """A trickled body arrives at one byte per second."""
    with client.connect(url(whole, scheme, "trickling-1")) as connection:
        send_request(connection, "trickling-1")
        reply = http.client.HTTPResponse(connection)
        reply.begin()
        started = time.monotonic()
        assert reply.headers["Content-Length"] == "1000"
        assert reply.read(1) == b"."
        assert reply.read1(999) == b"."
        assert time.monotonic() - started > 1.5


@pytest.mark.parametrize("scheme", BOTH)
def test_banner_host_sends_banner_before_request(whole: World, client: Client, scheme: str) -> None:
    """The banner arrives before any request."""
    with client.connect(url(whole, scheme, "garbage-1")) as connection:
        assert connection.recv(999).startswith(b"SSH-2.0-")


@pytest.mark.parametrize("scheme", BOTH)
def test_large_heads_and_bodies_have_full_size(whole: World, client: Client, scheme: str) -> None:
    """The head has 1 MiB, and the body has 10 MiB."""
    with client.connect(url(whole, scheme, "huge-1")) as connection:
        connection.sendall(REQUEST.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n") % b"huge-1.test")
        head, _, body = rest_of(connection).partition(b"\r\n\r\n")

    assert len(head) >= 1 << 20
    assert body == b""
    assert len(client.get(url(whole, scheme, "big-1")).body) == 10 << 20


@pytest.mark.parametrize("scheme", BOTH)
def test_bodies_have_every_kind_of_end(whole: World, client: Client, scheme: str) -> None:
    """Bodies end with the connection, too early, or in chunks."""
    endless, chunked = (client.get(url(whole, scheme, f"{name}-1")) for name in ("nolength", "chunked"))
    with pytest.raises(http.client.IncompleteRead):
        client.get(url(whole, scheme, "truncated-1"))

    assert "Content-Length" not in endless.headers
    assert "Transfer-Encoding" not in endless.headers
    assert chunked.headers["Transfer-Encoding"] == "chunked"


@pytest.mark.parametrize("scheme", BOTH)
def test_unrequested_protocol_switch_is_sent(whole: World, client: Client, scheme: str) -> None:
    """A 101 reply switches to a protocol that does not exist."""
    with client.connect(url(whole, scheme, "upgrade-1")) as connection:
        send_request(connection, "upgrade-1")
        assert connection.recv(999).startswith(b"HTTP/1.1 101 ")


def test_http2_only_host_refuses_http1(whole: World, client: Client) -> None:
    """The host refuses clients that offer only HTTP/1.1."""
    with pytest.raises(ssl.SSLError, match=r"(?i)alert.no.application.protocol"):
        client.connect(url(whole, "https", "http2-1"), alpn="http/1.1")
    with client.connect(url(whole, "https", "http2-1"), alpn="h2") as connection:
        connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes.fromhex("000000040000000000"))
        frame = connection.recv(9)

        assert isinstance(connection, ssl.SSLSocket)
        assert connection.selected_alpn_protocol() == "h2"
        assert frame[3] == 4


# TLS


@pytest.mark.parametrize(
    ("behaviour", "says"),
    [
        ("expired", "expired"),
        ("wrongname", "Hostname mismatch"),
        ("selfsigned", "self-signed certificate"),
        ("unknownca", "unable to get local issuer"),
    ],
)
def test_bad_certificates_have_one_fault_each(whole: World, client: Client, behaviour: str, says: str) -> None:
    """Each bad certificate has exactly one fault, which OpenSSL reports, too."""
    with pytest.raises(ssl.SSLCertVerificationError, match=says):
        client.get(url(whole, "https", f"{behaviour}-1"))


def test_plain_http_is_served_on_tls_port(whole: World, client: Client) -> None:
    """OpenSSL reports that the TLS port speaks plain HTTP."""
    with pytest.raises(ssl.SSLError, match=r"(?i)wrong.version.number|record.layer.failure|http.request"):
        client.get(url(whole, "https", "plain-1"))


def test_tls_handshake_is_closed_or_unanswered(whole: World, client: Client) -> None:
    """TLS handshakes are closed or never answered."""
    with pytest.raises((ssl.SSLEOFError, ConnectionResetError)):
        client.get(url(whole, "https", "notls-1"))
    with pytest.raises(TimeoutError):
        Client(whole.dns, whole.ca_pem, timeout=1).get(url(whole, "https", "stalledtls-1"))


def test_hosts_with_tls_faults_work_over_http(whole: World, client: Client) -> None:
    """Hosts with TLS faults answer normally over http."""
    assert {client.get(url(whole, "http", f"{behaviour}-1")).status for behaviour in ONLY_HTTPS} == {200}


def test_tls_sessions_are_not_resumed(whole: World, client: Client) -> None:
    """Every connection makes a full TLS handshake."""
    with client.connect(url(whole, "https", "good-1")) as connection:
        send_request(connection, "good-1")
        connection.recv(999)

        assert isinstance(connection, ssl.SSLSocket)
        assert connection.session is None or not connection.session.has_ticket


# The world as a whole


def test_watched_hosts_record_requests_and_connections() -> None:
    """The record has the times of requests, the number of concurrent connections, and the number of DNS queries."""
    with world(watched=["good-1.test", "error-1.test", "good-2.test"]) as running:
        client = Client(running.dns, running.ca_pem)
        with client.connect(url(running, "https", "good-1")), client.connect(url(running, "https", "good-1")) as second:
            send_request(second, "good-1")
            second.recv(1)
            time.sleep(0.2)
            send_request(second, "good-1")
            second.recv(1)
            during = running.stats()["watched"]["good-1.test"]
        client.get(url(running, "http", "error-1"))
        time.sleep(0.1)
        stats = running.stats()

    seen = stats["watched"]
    assert (during["connections"], during["queries"]) == (2, 2)
    assert seen["good-1.test"]["connections"] == 0
    assert seen["good-1.test"]["connections_max"] == 2
    first, later = seen["good-1.test"]["requests_ms"]
    assert later - first >= 190
    assert len(seen["error-1.test"]["requests_ms"]) == 1
    assert seen["good-2.test"] == {"requests_ms": [], "connections": 0, "connections_max": 0, "queries": 0}
    assert stats["behaviours"]["good"] == {"connections": 2, "requests": 2, "queries": 2}


def test_all_behaviours_have_expected_outcome(root: Path) -> None:
    """Each behaviour has either a status or failure kinds, which the core defines."""
    kinds = re.findall(
        r'^    \w+ = "([a-z-]+)", \w+;', (root / "crates/fetchmill-model/src/outcome/mod.rs").read_text(), re.MULTILINE
    )

    assert set(NativeWorld.behaviours()) == set(BEHAVIOURS)
    for right in BEHAVIOURS.values():
        assert (right.status is None) == bool(right.kinds)
        assert right.kinds <= set(kinds)


def test_behaviours_table_in_docs_is_right(root: Path) -> None:
    """The table has all behaviours in order, each with its status or failure kinds."""
    rows = re.findall(r"^\| `(\w+)` \| .+ \| (.+) \|$", (root / "docs/guide/world.md").read_text(), re.MULTILINE)

    told = {
        name: str(right.status or ", ".join(f"`{kind}`" for kind in sorted(right.kinds)))
        for name, right in BEHAVIOURS.items()
    }
    assert rows == list(told.items())


def test_sites_are_mixed_as_configured_and_reproducible() -> None:
    """Every behaviour occurs, and every site has its own host."""
    mixed = list(sites((80, 443), 20_000, seed=5))

    counts = Counter(site.behaviour for site in mixed)
    assert mixed == list(sites((80, 443), 20_000, seed=5))
    assert mixed != list(sites((80, 443), 20_000, seed=6))
    assert len({site.url for site in mixed}) == 20_000
    assert set(counts) == set(DEFAULT_MIX)
    assert 0.57 < counts["good"] / 20_000 < 0.63
    assert 0.18 < counts["dead"] / 20_000 < 0.22


def test_sites_have_right_scheme_and_expected_outcome() -> None:
    """The expected outcome depends on the scheme and on the options of the check."""
    redirecting = {
        site.url.split(":")[0]: site for site in sites((80, 443), 99, mix={"redirecting": 1}, redirects=False)
    }
    (busy,) = sites((80, 443), 1, mix={"busy": 1}, patient=False)

    assert {scheme: site.expected.status for scheme, site in redirecting.items()} == {"http": 301, "https": 302}
    assert (busy.expected.status, busy.expected.kinds) == (429, frozenset())
    assert all(site.url.startswith("https:") for site in sites((80, 443), 99, mix={"expired": 1}, https=0))
    assert all(site.url.endswith(".test:80/") for site in sites((80, 443), 99, mix={"good": 1}, https=0))


@pytest.mark.parametrize("mix", [{}, {"better": 1.0}, {"good": 0.0}, {"good": 2.0, "dead": -1.0}])
def test_invalid_mixture_is_refused(mix: dict[str, float]) -> None:
    """The error comes before the first site."""
    with pytest.raises(UsageError, match="mix"):
        sites((80, 443), 1, mix=mix)


@pytest.mark.parametrize(
    "options",
    [
        {"addresses": 0},
        {"addresses": 255},
        {"threads": 0},
        {"timeout": 0.0},
        {"dns_loss": 1.5},
        {"dns_delay_ms": 10**6},
        {"watched": ["example.com"]},
        {"http_port": 4444, "https_port": 4444},
    ],
)
def test_invalid_world_options_get_one_line_error(options: dict[str, object]) -> None:
    """The error is one line."""
    with pytest.raises(UsageError) as refused:
        world(**options)  # type: ignore[arg-type]

    assert "\n" not in str(refused.value)


def test_world_reports_port_in_use(whole: World) -> None:
    """The error has the address whose port is in use."""
    with pytest.raises(UsageError, match=f"127.77.1.1:{whole.http_port}"):
        world(http_port=whole.http_port)


def test_worlds_run_in_parallel_and_stop() -> None:
    """Connections of a stopped world are closed, and its statistics remain."""
    with world(threads=2) as one, world(threads=2) as other:
        for running in (one, other):
            for number in range(4):
                assert Client(running.dns, running.ca_pem).get(url(running, "https", f"good-{number}")).status == 200
        with Client(one.dns, one.ca_pem).connect(url(one, "http", "stalling-1")) as open_connection:
            one.stop()
            one.stop()

            # The client sees either, depending on the requests in progress.
            with contextlib.suppress(ConnectionResetError):
                assert open_connection.recv(1) == b""
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.77.1.1", one.http_port), 2)
    assert one.stats()["behaviours"]["good"]["requests"] == 4


def test_world_process_ends_with_its_input(tmp_path: Path) -> None:
    """A world process prints its address and, at the end, its statistics."""
    ca_file = tmp_path / "ca.pem"
    command = (sys.executable, "-m", "fetchmill.world", "--ca-file", str(ca_file), "--addresses", "1")
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        place = json.loads(process.stdout.readline())
        got = Client(place["dns"], ca_file.read_text()).get(f"https://good-1.test:{place['https_port']}/")
        out, _ = process.communicate(timeout=120)

    assert got.status == 200
    assert json.loads(out)["behaviours"]["good"]["requests"] == 1
    assert process.returncode == 0
