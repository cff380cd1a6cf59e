"""`fetchmill.stream`: its replies, when it reads input, and what happens when its loop is left."""

import gc
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path

import pytest

import fetchmill
from fetchmill._native import Stream
from fetchmill.testing import Fault, Server, synthetic_body
from methods_server import MethodsServer
from process_threads import own_threads
from raw_server import Behaviour, Exchange, RawServer, reply

Serve = Callable[..., Server]
Raw = Callable[[Mapping[str, Behaviour]], RawServer]
# The number of items that may be read ahead of those in flight; see limits/jobs.rs.
WINDOW = 256
LARGE = 64 * 1024


@pytest.fixture
def methods() -> Iterator[MethodsServer]:
    """Returns a server that accepts every method."""
    with MethodsServer() as server:
        yield server


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    """Asserts that the test leaves as many threads and descriptors as there were before."""
    before = left()
    yield
    deadline = time.monotonic() + 60
    while left() > before and time.monotonic() < deadline:
        gc.collect()
        time.sleep(0.02)
    assert left() <= before


def left() -> tuple[int, int]:
    """Returns the numbers of this package's threads and of open sockets and events."""
    descriptors = [f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd")]
    return own_threads(), sum(is_ours(link) for link in descriptors)


def is_ours(link: str) -> bool:
    """Returns whether a stream may have opened a descriptor of this kind."""
    try:
        return os.readlink(link).startswith(("socket:", "anon_inode:[event"))
    except FileNotFoundError:
        return False


def urls(server: Server, count: int) -> list[str]:
    """Returns the URLs of the first synthetic objects."""
    return [f"{server.url}/get/{name(number)}" for number in range(count)]


def name(number: int) -> str:
    """Returns the name of a synthetic object."""
    return f"file-{number:012d}"


def test_every_stream_item_gets_its_own_reply(server: Serve) -> None:
    """Each reply has the right body, status, headers and index, whatever the order."""
    running = server(synthetic=3000)
    wanted = urls(running, 3000)

    replies = list(fetchmill.stream(iter(wanted)))

    assert sorted(reply.index for reply in replies) == list(range(3000))
    for one in replies:
        assert one.url == wanted[one.index]
        assert (one.status, one.ok, one.error) == (200, True, None)
        assert one.body == synthetic_body(name(one.index), 100)
        assert one.headers["content-LENGTH"] == "100"


def test_replies_come_in_order_if_requested(raw: Raw) -> None:
    """The order is kept even if the first reply arrives last."""

    def late(exchange: Exchange) -> bytes:
        time.sleep(0.3)
        return reply(exchange.target.encode())

    routes: dict[str, Behaviour] = {f"/{number}": reply(str(number).encode()) for number in range(50)}
    server = raw(routes | {"/0": late})

    replies = list(fetchmill.stream((f"{server.url}/{number}" for number in range(50)), ordered=True))

    assert [reply.index for reply in replies] == list(range(50))


def test_ordered_stream_reads_no_further_than_limit_and_window(raw: Raw) -> None:
    """While the first reply is missing, those that have arrived must wait for it."""
    taken = itertools.count()

    def late(exchange: Exchange) -> bytes:
        time.sleep(0.5)
        return reply(exchange.target.encode())

    server = raw({"/late": late, "/x": reply(b"x")})
    endless = (f"{server.url}/x" for _ in taken)

    with fetchmill.stream(itertools.chain([f"{server.url}/late"], endless), limit=4, ordered=True) as replies:
        assert next(replies).index == 0

    assert next(taken) <= 4 + WINDOW + 1


def test_endless_input_is_not_read_while_loop_is_busy(server: Serve) -> None:
    """No item is lost when the loop continues."""
    running = server(synthetic=5000)
    wanted = urls(running, 5000)
    taken = 0

    def counted() -> Iterator[str]:
        nonlocal taken
        for url in wanted:
            taken += 1
            yield url

    with fetchmill.stream(counted(), limit=8) as replies:
        seen = {next(replies).index for _ in range(1000)}
        before = taken
        time.sleep(1)
        assert taken == before <= 1000 + 8 + WINDOW
        seen |= {reply.index for reply in replies}

    assert seen == set(range(5000))


@pytest.mark.timing
def test_slow_input_delays_replies_by_at_most_one_item(server: Serve) -> None:
    """No reply waits for a full batch."""
    running = server(synthetic=10)
    asked: list[float] = []

    def slowly() -> Iterator[str]:
        for url in urls(running, 6):
            asked.append(time.monotonic())
            yield url
            time.sleep(0.1)

    delays = [time.monotonic() - asked[reply.index] for reply in fetchmill.stream(slowly())]

    assert max(delays) < 0.19


def test_reply_with_error_status_is_returned(raw: Raw) -> None:
    """A reply with any status has its body and is not an error."""
    server = raw({"/gone": reply(b"why", status="410 Gone")})

    [found] = fetchmill.stream([f"{server.url}/gone"], on_error="raise")

    assert (found.status, found.ok, found.body, found.error) == (410, False, b"why", None)
    with pytest.raises(fetchmill.StatusError, match="status 410"):
        found.raise_for_status()


def test_server_error_is_retried_and_last_reply_returned(raw: Raw) -> None:
    """The number of requests is `attempts`."""
    server = raw({"/": reply(b"broken", status="500 No")})

    [found] = fetchmill.stream([f"{server.url}/"], attempts=3)

    assert (found.status, found.body, server.count("/")) == (500, b"broken", 3)


def test_failure_is_returned_with_its_kind(raw: Raw) -> None:
    """A failure is not raised unless requested."""
    server = raw({"/short": reply(b"abc", length=9), "/large": reply(b"", length=1 << 40)})
    items = [f"{server.url}/short", f"{server.url}/large", "http://127.0.0.1:1/", "no url", "\udcff"]

    found = {reply.index: reply for reply in fetchmill.stream(items, attempts=1, idle_timeout=0.3)}

    kinds = {index: reply.error and reply.error.kind for index, reply in found.items()}
    assert [kinds[index] for index in range(5)] == ["idle-timeout", "body-too-large", "refused", "url", "url"]
    assert {(reply.status, reply.ok, bytes(reply.body)) for reply in found.values()} == {(None, False, b"")}
    with pytest.raises(fetchmill.ReplyError, match="refused"):
        found[2].raise_for_status()


def test_first_failure_is_raised_if_requested(server: Serve) -> None:
    """The exception ends the stream."""
    running = server(synthetic=10)
    items = ["http://127.0.0.1:1/", *urls(running, 5)]
    replies = fetchmill.stream(items, attempts=1, on_error="raise", ordered=True)

    with pytest.raises(fetchmill.ReplyError) as raised:
        next(replies)

    assert (raised.value.kind, raised.value.url) == ("refused", "http://127.0.0.1:1/")
    assert list(replies) == []


def test_request_sends_method_headers_body_and_tag(methods: MethodsServer) -> None:
    """Headers of a request replace those of the client."""
    tag = object()
    request = fetchmill.Request(methods.url + "/x", "post", {"X-A": "1", "Accept": "b"}, b"body", tag)

    [found] = fetchmill.stream([request], headers={"Accept": "a"})

    assert found.tag is tag
    [got] = methods.received
    assert (got.method, got.path, got.body) == ("POST", "/x", b"body")
    assert (got.fields["x-a"], got.fields["accept"], got.fields["content-length"]) == ("1", "b", "4")


def test_request_encodes_parameters_and_json(methods: MethodsServer) -> None:
    """Lists become repeated parameters, and `None` is left out. The method is then POST."""
    url = methods.url + "/x?a=1#part"
    params = {"q": "a b&c=\u00e9", "n": [1, 2], "none": None}
    sent = {"text": 'a "b" \u00e9', "number": 1.5}

    [found] = fetchmill.stream([fetchmill.Request(url, params=params, json=sent)])

    assert found.status == 200
    [got] = methods.received
    assert (got.method, got.fields["content-type"]) == ("POST", "application/json")
    assert json.loads(got.body) == sent
    assert got.path == "/x?a=1&q=a+b%26c%3D%C3%A9&n=1&n=2"


@pytest.mark.parametrize(
    ("url", "params", "expected"),
    [
        ("http://x/", {"a": "1"}, "http://x/?a=1"),
        ("http://x/?", [("a", 1), ("a", 2)], "http://x/?a=1&a=2"),
        ("http://x/?b=&", {"a": True}, "http://x/?b=&a=True"),
        ("http://x/#f?", {"a": b"\xff"}, "http://x/?a=%FF#f?"),
        ("http://x/?b", {"a": None, "c": ()}, "http://x/?b"),
        ("http://x/?b", {}, "http://x/?b"),
    ],
)
def test_parameters_are_appended_to_query(url: str, params: dict[str, object], expected: str) -> None:
    """The parameters precede a fragment, which is not sent."""
    assert fetchmill.Request(url, params=params).url == expected


def test_json_request_keeps_its_method_and_content_type() -> None:
    """A body in JSON does not change a method or content type that is given explicitly."""
    request = fetchmill.Request("http://x/", "PUT", {"content-type": "application/x+json"}, json=[])

    assert (request.method, request.headers, request.body) == ("PUT", {"content-type": "application/x+json"}, b"[]")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"json": {}, "body": b"x"}, "body and json cannot be combined"),
        ({"json": float("nan")}, "cannot be encoded as JSON"),
        ({"json": {1, 2}}, "cannot be encoded as JSON"),
        ({"json": "\ud800"}, "cannot be encoded as JSON"),
        ({"params": "a=1"}, "params must be a mapping"),
        ({"params": 5}, "params must be a mapping"),
        ({"params": [("a", 1, 2)]}, "params must be a mapping"),
        ({"params": {"a": "\ud800"}}, "params cannot be encoded"),
    ],
)
def test_unencodable_json_and_parameters_are_refused(arguments: dict[str, object], message: str) -> None:
    """The error is raised when the request is created."""
    with pytest.raises(fetchmill.UsageError, match=message):
        fetchmill.Request("http://x/", **arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize("method", ["POST", "PATCH"])
def test_non_idempotent_request_is_sent_once(methods: MethodsServer, method: str) -> None:
    """Neither a server error nor a broken connection repeats the request."""
    items = [fetchmill.Request(methods.url + path, method, body=b"x") for path in ("/error", "/broken")]

    found = {reply.index: reply for reply in fetchmill.stream(items)}

    assert found[0].status == 500
    assert found[1].error is not None
    assert sorted(got.path for got in methods.received) == ["/broken", "/error"]


def test_request_marked_idempotent_is_retried(methods: MethodsServer) -> None:
    """The program sets the mark."""
    item = fetchmill.Request(methods.url + "/error", "POST", body=b"x", idempotent=True)

    list(fetchmill.stream([item], attempts=3))

    assert [got.body for got in methods.received] == [b"x"] * 3


def test_head_reply_has_no_body(methods: MethodsServer) -> None:
    """The connection is reused after the reply."""
    items = [fetchmill.Request(f"{methods.url}/x", "HEAD")] * 3

    found = list(fetchmill.stream(items, limit=1))

    assert [(reply.status, reply.body, reply.headers["content-length"]) for reply in found] == [(200, b"", "5")] * 3
    assert methods.connections == 1


def test_redirected_post_becomes_get_without_body(methods: MethodsServer) -> None:
    """After a 307, the method and the body are kept."""
    items = [fetchmill.Request(methods.url + path, "POST", body=b"x") for path in ("/303", "/307")]

    found = list(fetchmill.stream(items, limit=1, ordered=True))

    made = [(got.method, got.path, got.body) for got in methods.received]
    assert made == [("POST", "/303", b"x"), ("GET", "/x", b""), ("POST", "/307", b"x"), ("POST", "/x", b"x")]
    assert [reply.final_url for reply in found] == [methods.url + "/x"] * 2


def test_request_headers_are_sent_only_to_their_origin(methods: MethodsServer) -> None:
    """A redirect must not send a token to another origin."""
    with MethodsServer() as other:
        item = fetchmill.Request(f"{methods.url}/to/{other.url}/x", headers={"Authorization": "s", "Accept": "a"})

        [found] = fetchmill.stream([item])

    assert found.ok
    assert methods.received[0].fields["authorization"] == "s"
    assert "authorization" not in other.received[0].fields
    assert other.received[0].fields["accept"] == "a"


def test_unfollowed_redirects_are_returned_as_replies(methods: MethodsServer) -> None:
    """The reply has the location of the redirect."""
    [found] = fetchmill.stream([methods.url + "/303"], redirects=0)

    assert (found.status, found.headers["location"]) == (303, "/x")


def test_repeated_headers_are_available_joined_and_separate(raw: Raw) -> None:
    """The mapping ignores case."""
    server = raw({"/": reply(b"", "X-A: 1", "x-a: 2", "X-B: caf\xe9")})

    [found] = fetchmill.stream([server.url + "/"])

    assert (found.headers["X-a"], found.headers.get_all("X-A")) == ("1, 2", ["1", "2"])
    assert (found.headers.get("none"), "X-B" in found.headers, "none" in found.headers) == (None, True, False)
    assert dict(found.headers) == {"Content-Length": "0", "X-A": "1, 2", "X-B": found.headers["x-b"]}
    assert isinstance(found.headers, Mapping)


def test_body_is_decoded_as_text_or_json(raw: Raw) -> None:
    """The reply's charset is used if Python knows it."""
    server = raw(
        {
            "/latin": reply(b"caf\xe9", 'Content-Type: text/plain; charset="latin-1"'),
            "/odd": reply(b"caf\xc3\xa9\xff", "Content-Type: text/plain; charset=nonsense"),
            "/json": reply(b'{"a": [1]}'),
        }
    )

    found = list(fetchmill.stream((server.url + path for path in ("/latin", "/odd", "/json")), ordered=True))

    assert [reply.text for reply in found[:2]] == ["café", "café\N{REPLACEMENT CHARACTER}"]
    assert found[2].json() == {"a": [1]}


@pytest.mark.parametrize("size", [LARGE - 1, LARGE, 3_000_000])
def test_large_body_is_buffer_and_small_body_is_bytes(server: Serve, size: int) -> None:
    """Both types have the right bytes and remain valid after the stream has ended."""
    running = server(synthetic=3, size=size)

    found = list(fetchmill.stream(urls(running, 3)))

    for one in found:
        assert isinstance(one.body, bytes if size < LARGE else memoryview)
        assert bytes(one.body) == synthetic_body(name(one.index), size)
        assert isinstance(one.body, bytes) or one.body.readonly


def test_kept_reply_does_not_keep_its_batch(server: Serve) -> None:
    """If each kept reply kept its batch, memory would grow by 250 MiB."""
    running = server(synthetic=4000, size=LARGE - 1)
    replies = fetchmill.stream(urls(running, 4000), limit=16)
    kept = [next(replies)]
    before = resident()

    kept += [reply for reply in replies if reply.index % 100 == 0]

    assert len(kept) in (40, 41)
    assert resident() - before < 100 << 20


def test_item_is_released_with_its_reply(server: Serve) -> None:
    """The stream keeps neither the item nor its tag."""

    class Tag:
        """An object that weak references can watch."""

    running = server(synthetic=1)
    tags: list[weakref.ref[Tag]] = []

    def items() -> Iterator[fetchmill.Request]:
        for url in urls(running, 1) * 500:
            tag = Tag()
            tags.append(weakref.ref(tag))
            yield fetchmill.Request(url, tag=tag)
            del tag

    for found in fetchmill.stream(items()):
        assert isinstance(found.tag, Tag)
    del found

    assert len(tags) == 500
    assert [tag() for tag in tags] == [None] * 500


def test_memory_for_large_bodies_is_limited(server: Serve) -> None:
    """With 60 bodies of 8 MiB and a slow loop, memory grows by about 64 MiB and two bodies."""
    program = """
import sys, time, fetchmill
peak = lambda: next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
base = peak()
for count, reply in enumerate(fetchmill.stream((sys.argv[1] + f"/get/file-{n:012d}" for n in range(60)), limit=60)):
    assert len(reply.body) == 8 << 20, reply
    time.sleep(0.3 if count == 0 else 0.0)
print(count + 1, (peak() - base) >> 10)
"""
    running = server(synthetic=100, size=8 << 20)

    ended = subprocess.run(
        [sys.executable, "-c", program, running.url], capture_output=True, text=True, check=True, timeout=120
    )

    count, grown = map(int, ended.stdout.split())
    assert count == 60
    assert grown < 160


def test_large_ordered_bodies_never_block_first_reply(server: Serve) -> None:
    """The first request is retried after a second. Until then, about 64 MiB of bodies wait for its reply."""
    program = """
import sys, time, fetchmill
peak = lambda: next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
base = peak()
urls = (sys.argv[1] + f"/get/file-{n:012d}" for n in range(60))
for count, reply in enumerate(fetchmill.stream(urls, limit=20, ordered=True)):
    assert (reply.index, len(reply.body)) == (count, 8 << 20), reply
print(count + 1, (peak() - base) >> 10)
"""
    slow_first = Fault("status", status=503, retry_after=1, times=1, match="file-000000000000")
    running = server(synthetic=100, size=8 << 20, faults=[slow_first])

    ended = subprocess.run(
        [sys.executable, "-c", program, running.url], capture_output=True, text=True, check=True, timeout=120
    )

    count, grown = map(int, ended.stdout.split())
    assert count == 60
    assert grown < 200


def test_first_reply_comes_while_all_others_wait_for_memory(server: Serve) -> None:
    """Three bodies fill the memory, and four more wait in all slots. The first request gets an extra slot."""
    slow_first = Fault("status", status=503, retry_after=1, times=1, match="file-000000000000")
    running = server(synthetic=10, size=20 << 20, faults=[slow_first])
    program = """
import sys, fetchmill
urls = (sys.argv[1] + f"/get/file-{n:012d}" for n in range(10))
print(*(reply.index for reply in fetchmill.stream(urls, limit=4, ordered=True)))
"""

    command = [sys.executable, "-c", program, running.url]
    ended = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)

    assert ended.stdout.split() == list(map(str, range(10)))


def test_requests_in_flight_are_abandoned_when_loop_is_left(raw: Raw) -> None:
    """The requests end immediately, even if a server never answers."""
    server = raw({"/x": reply(b"x"), "/never": lambda exchange: exchange.stall()})
    items = itertools.chain([f"{server.url}/x"], itertools.repeat(f"{server.url}/never"))
    started = time.monotonic()

    for found in fetchmill.stream(items, limit=8):
        assert found.body == b"x"
        break

    assert time.monotonic() - started < 20


@pytest.mark.parametrize("opened", ["stream", "stream_batches"])
def test_stream_can_be_closed_by_another_thread(raw: Raw, opened: str) -> None:
    """The loop ends as if after its last reply, even if the server is silent."""
    asked = threading.Event()

    def silent(exchange: Exchange) -> None:
        asked.set()
        exchange.stall()

    running = raw({"/never": silent})
    replies = getattr(fetchmill, opened)([f"{running.url}/never"] * 5, head_timeout=120)
    found: list[object] = []

    def loop() -> None:
        found.extend(replies)
        found.append("ended")

    thread = threading.Thread(target=loop)
    thread.start()
    assert asked.wait(60)

    replies.close()
    thread.join(60)

    assert not thread.is_alive()
    assert found == ["ended"]
    replies.close()


def test_input_taking_replies_of_its_own_stream_is_refused() -> None:
    """Such an input would wait for itself."""
    opened: list[Stream] = []

    def items() -> Iterator[str]:
        next(opened[0])
        yield "http://127.0.0.1:1/"

    opened.append(fetchmill.stream(items()))

    with pytest.raises(RuntimeError, match="one thread"):
        list(opened[0])


def test_input_exception_is_raised_by_loop(server: Serve) -> None:
    """The exception ends the loop."""
    running = server(synthetic=10)

    def broken() -> Iterator[str]:
        yield from urls(running, 5)
        raise KeyError("mine")

    replies = fetchmill.stream(broken())
    with pytest.raises(KeyError, match="mine"):
        list(replies)

    assert list(replies) == []


def test_generator_is_closed_with_stream(server: Serve) -> None:
    """The `finally` block of the generator runs."""
    running = server(synthetic=10)
    ended: list[bool] = []

    def items() -> Iterator[str]:
        try:
            yield from itertools.cycle(urls(running, 5))
        finally:
            ended.append(True)

    for _ in fetchmill.stream(items()):
        break

    assert ended == [True]


@pytest.mark.parametrize("item", [5, None, b"http://x/"])
def test_invalid_item_is_refused(item: object) -> None:
    """The error says what an item must be."""
    with pytest.raises(fetchmill.UsageError, match=r"must yield URLs \(str\) or fetchmill\.Request, not"):
        list(fetchmill.stream([item]))  # type: ignore[list-item]


@pytest.mark.parametrize("items", ["http://x/", b"http://y/", 5, fetchmill.Request("http://x/")])
def test_single_url_is_refused_as_input(items: object) -> None:
    """Otherwise, each letter of the URL would be requested."""
    with pytest.raises(fetchmill.UsageError, match="must be an iterable of URLs"):
        fetchmill.stream(items)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"method": "TRACE"}, "method"),
        ({"method": "GET /x HTTP/1.1\r\nX:"}, "method"),
        ({"headers": {"X\r\nY": "1"}}, "malformed name"),
        ({"headers": {"X": "1\r\nY: 2"}}, "control characters"),
        ({"headers": {"Host": "x"}}, "cannot be set"),
    ],
)
def test_request_with_injected_syntax_is_refused(arguments: dict[str, object], message: str) -> None:
    """No value of a request can add headers or requests."""
    with pytest.raises(fetchmill.UsageError, match=message):
        fetchmill.Request("http://x/", **arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "options", [{"limit": 0}, {"limit": 1 << 20}, {"redirects": 21}, {"rate": 0}, {"headers": {"X-Key": "s"}}]
)
def test_invalid_stream_options_are_refused(options: dict[str, object]) -> None:
    """The error comes before any request is sent."""
    with pytest.raises(fetchmill.UsageError):
        fetchmill.stream([], **options)  # type: ignore[arg-type]


def test_stream_obeys_rate(server: Serve) -> None:
    """The rate applies after a burst of a tenth of a second's requests."""
    running = server(synthetic=100)
    started = time.monotonic()

    assert sum(reply.ok for reply in fetchmill.stream(urls(running, 60), rate=100)) == 60

    assert time.monotonic() - started > 0.35


@pytest.mark.timing
def test_interrupt_ends_stream_loop_immediately(raw: Raw) -> None:
    """The loop is waiting for a server that never answers."""
    server = raw({"/never": lambda exchange: exchange.stall()})
    program = """
import sys, time, fetchmill
print("started", flush=True)
try:
    for _ in fetchmill.stream([sys.argv[1]] * 10): pass
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
    running = subprocess.Popen(
        [sys.executable, "-c", program, server.url + "/never"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert running.stdout is not None
    assert running.stdout.readline() == "started\n"
    time.sleep(0.5)

    sent = time.monotonic()
    running.send_signal(signal.SIGINT)
    assert running.stdout.readline() == "interrupted\n"

    assert time.monotonic() - sent < 0.2
    out, err = running.communicate(timeout=120)
    assert (running.returncode, out, err) == (0, "", "")


def test_client_reuses_connections_across_streams(methods: MethodsServer) -> None:
    """Single requests reuse them, too."""
    with fetchmill.Client(limit=1) as client:
        assert client.get(methods.url + "/x").body == b"x" * 5
        assert [reply.ok for reply in client.stream([methods.url + "/x"] * 3)] == [True] * 3
        assert client.get(fetchmill.Request(methods.url + "/x", tag=7)).tag == 7

    assert methods.connections == 1


def test_stream_of_closed_client_raises_error(raw: Raw) -> None:
    """The error is raised for a new stream and for one that is in progress."""
    server = raw({"/never": lambda exchange: exchange.stall()})
    client = fetchmill.Client()
    begun = client.stream([server.url + "/never"])
    assert begun.ready() is None
    client.close()

    for replies in (begun, client.stream([server.url + "/never"])):
        with pytest.raises(fetchmill.UsageError, match="the client is closed"):
            next(replies)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # newer Python versions warn about forks
def test_forked_client_raises_error(server: Serve) -> None:
    """The client's thread does not exist in the child process."""
    running = server(synthetic=1)
    client = fetchmill.Client()
    child = os.fork()
    if child == 0:
        try:
            client.get(urls(running, 1)[0])
        except fetchmill.InternalError as error:
            os._exit("create a new client" in str(error))
        os._exit(2)

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
    assert client.get(urls(running, 1)[0]).ok
    client.close()


def test_generator_referencing_its_stream_is_collected(server: Serve) -> None:
    """The reference cycle is not a leak."""
    running = server(synthetic=10)
    known: list[Stream] = []
    ended: list[bool] = []

    def items(holder: list[Stream]) -> Iterator[str]:
        try:
            while holder:
                yield from urls(running, 10)
        finally:
            ended.append(True)

    known.append(fetchmill.stream(items(known)))
    next(known[0])
    del known
    gc.collect()

    assert ended == [True]


def test_streams_of_one_client_do_not_mix(server: Serve) -> None:
    """The streams run in several threads."""
    running = server(synthetic=4000)
    wanted = urls(running, 4000)
    found: dict[int, set[str]] = {}

    with fetchmill.Client(limit=16) as client:

        def take(part: int) -> None:
            found[part] = {reply.url for reply in client.stream(wanted[part::4]) if reply.ok}

        threads = [threading.Thread(target=take, args=(part,)) for part in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)

    assert found == {part: set(wanted[part::4]) for part in range(4)}


def test_abandoned_stream_releases_its_request_slots(raw: Raw) -> None:
    """Other streams of the client can use the slots."""
    server = raw({"/x": reply(b"x"), "/never": lambda exchange: exchange.stall()})

    with fetchmill.Client(limit=2) as client:
        left_one = client.stream([server.url + "/never"] * 10)
        assert left_one.ready() is None
        left_one.close()
        started = time.monotonic()

        assert client.get(server.url + "/x").body == b"x"

    assert time.monotonic() - started < 20


def test_blocking_stream_accepts_async_iterable(server: Serve) -> None:
    """The iterable gets a separate event loop and is closed when the stream is closed."""
    running = server(synthetic=500)
    ended: list[bool] = []

    async def items() -> AsyncIterator[str]:
        try:
            for url in itertools.cycle(urls(running, 500)):
                yield url
        finally:
            ended.append(True)

    replies = fetchmill.stream(items())
    seen = {next(replies).url for _ in range(2000)}
    replies.close()

    assert seen == set(urls(running, 500))
    assert ended == [True]


def test_record_batches_have_row_for_each_reply(server: Serve) -> None:
    """Any reader of Arrow's C data interface can read the batches one by one or all together."""
    pyarrow = pytest.importorskip("pyarrow")
    running = server(synthetic=2500)
    wanted = urls(running, 2500)
    items: list[str | fetchmill.Request] = [*wanted[:-1], fetchmill.Request(wanted[-1], tag=("a", 1)), "no url"]

    batches = list(fetchmill.stream_batches(items, batch_size=1000))
    table = pyarrow.table(fetchmill.stream_batches(items))

    assert [len(batch) for batch in batches] == [1000, 1000, 501]
    rows = sorted(
        (row for batch in batches for row in pyarrow.record_batch(batch).to_pylist()), key=lambda row: row["index"]
    )
    timeless = [{key: value for key, value in row.items() if key != "total_time"} for row in rows]
    again = sorted(table.drop_columns("total_time").to_pylist(), key=lambda row: row["index"])
    assert timeless == again
    assert [row["body"] for row in rows[:-1]] == [synthetic_body(name(number), 100) for number in range(2500)]
    assert [row["url"] for row in rows] == [*wanted, "no url"]
    assert (rows[-2]["tag"], rows[0]["tag"]) == ("('a', 1)", None)
    assert [rows[-1][key] for key in ("status", "error", "body")] == [None, "url", None]
    assert (rows[0]["status"], rows[0]["content_type"], rows[0]["error"]) == (200, "text/plain", None)


def test_input_exception_is_raised_by_batches(server: Serve) -> None:
    """The exception is raised unchanged."""
    running = server(synthetic=10)

    def broken() -> Iterator[str]:
        yield from urls(running, 5)
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        list(fetchmill.stream_batches(broken()))


# Prints the number of replies in three seconds of an endless stream, and the memory growth during most of them.
ENDLESS = """
import itertools, os, sys, fetchmill
resident = lambda: int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
urls = itertools.cycle(f"{sys.argv[1]}/get/file-{number:012d}" for number in range(1000))
for count, _ in enumerate(fetchmill.stream(urls)):
    if count == 20_000:
        halfway = resident()
    if count == 200_000:
        break
print(resident() - halfway)
"""


@pytest.mark.timing
def test_memory_stays_flat_with_endless_input(server: Serve) -> None:
    """The process receives ten times as many replies as fill its buffers, and does nothing else."""
    running = server(synthetic=1000)

    command = [sys.executable, "-c", ENDLESS, running.url]
    # The allocator's memory varies by some MiB. A leak per reply would appear in each run.
    growths = [int(subprocess.check_output(command, text=True, timeout=60)) for _ in range(3)]

    assert min(growths) < 4 << 20, growths


def test_stream_recovers_from_server_faults(server: Serve) -> None:
    """The faults are resets, short bodies and errors, once or twice per name."""
    faults = [
        Fault("reset", rate=0.1, times=1),
        Fault("status", status=503, rate=0.1, times=1),
        Fault("truncate", rate=0.1, times=1),
        Fault("unsolicited", rate=0.1, times=1),
    ]
    running = server(synthetic=2000, faults=faults)

    found = list(fetchmill.stream(urls(running, 2000), certain=True))

    assert {reply.index for reply in found if reply.ok} == set(range(2000))
    assert all(reply.body == synthetic_body(name(reply.index), 100) for reply in found)


def test_idle_connections_to_finished_hosts_are_limited(server: Serve) -> None:
    """An idle connection may be needed again, so as many are kept as requests may be in flight."""
    running = server(synthetic=3, host="0.0.0.0")  # noqa: S104 - all of loopback
    port = running.url.rpartition(":")[2]
    hosts = (f"http://127.0.0.{number}:{port}" for number in range(2, 102))
    asked = (f"{host}/get/{name(number)}" for host in hosts for number in range(3))
    _, before = left()

    most = max(left()[1] for reply in fetchmill.stream(asked, limit=1, rate=400) if reply.ok)

    # Both ends of each connection belong to this process.
    assert most - before < 100


def resident() -> int:
    """Returns the current memory of this process in bytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
