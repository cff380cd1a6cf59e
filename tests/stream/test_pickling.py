"""Public values keep their content when they are pickled, copied or sent to another process."""

import copy
import dataclasses
import multiprocessing
import pickle
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pytest

import fetchmill
from raw_server import Behaviour, RawServer, reply


def pickled(protocol: int, value: Any) -> Any:  # noqa: ANN401 - of any type
    """Pickles and unpickles a value."""
    return pickle.loads(pickle.dumps(value, protocol))  # noqa: S301 - its own pickle


Raw = Callable[[Mapping[str, Behaviour]], RawServer]
Copy = Callable[[Any], Any]
COPIES = [
    *(pytest.param(partial(pickled, protocol), id=f"pickle-{protocol}") for protocol in range(2, 6)),
    pytest.param(copy.copy, id="copy"),
    pytest.param(copy.deepcopy, id="deepcopy"),
]
LARGE = b"0123456789abcdef" * 4096
DATACLASSES = [name for name in fetchmill.__all__ if dataclasses.is_dataclass(getattr(fetchmill, name))]


def content(one: fetchmill.Reply) -> list[object]:
    """Returns all values of a reply."""
    times = one.timings
    error = one.error and (type(one.error), str(one.error), one.error.url, one.error.kind, one.error.reason)
    asked = [one.url, one.final_url, one.tag, one.index]
    fields = [one.headers.items(), one.headers.get_all("X-Twice")]
    return [*asked, one.status, bytes(one.body), *fields, error, repr(times), one.ok]


@pytest.mark.parametrize("again", COPIES)
def test_reply_keeps_its_content_when_pickled(raw: Raw, again: Copy) -> None:
    """Examples are small and large bodies, redirects, requests with a tag, and failed replies."""
    fields = b"X-Twice: a\r\nX-Twice: \xfc\r\n"
    moved = b"HTTP/1.1 302 Found\r\nLocation: /small\r\nContent-Length: 0\r\n\r\n"
    small = b"HTTP/1.1 200 OK\r\n" + fields + b"Content-Length: 2\r\n\r\nok"
    server = raw({"/small": small, "/large": reply(LARGE), "/moved": moved})
    items = [f"{server.url}/large", f"{server.url}/moved", "http://127.0.0.1:1/refused"]
    tagged = fetchmill.Request(f"{server.url}/small", headers={"X-A": "b"}, tag={"id": 7})

    replies = list(fetchmill.stream([*items, tagged], ordered=True, attempts=1))

    assert [one.status for one in replies] == [200, 200, None, 200]
    assert replies[1].final_url.endswith("/small")
    for one in replies:
        copied = again(one)
        assert content(copied) == content(one)
        assert isinstance(copied.body, bytes)
        assert again(one.headers).items() == one.headers.items()
        assert again(one.timings).total == one.timings.total


@pytest.mark.parametrize("again", COPIES)
@pytest.mark.parametrize(
    "request_made",
    [
        fetchmill.Request("http://h/"),
        fetchmill.Request("http://h/?a=1#x", params={"b": 2}, tag=("t",)),
        fetchmill.Request("http://h/", "put", [("X-A", "1"), ("X-A", "2")], b"\x00\xff", idempotent=True),
        fetchmill.Request("http://h/", json={"a": "ü"}),
        fetchmill.Request("http://h/", idempotent=False),
    ],
    ids=["plain", "params", "fields", "json", "once"],
)
def test_request_keeps_its_content_when_pickled(request_made: fetchmill.Request, again: Copy) -> None:
    """This includes repeated headers and whether the request is idempotent."""
    copied = again(request_made)

    names = ("url", "method", "headers", "body", "tag", "idempotent")
    assert [getattr(copied, name) for name in names] == [getattr(request_made, name) for name in names]


@pytest.mark.parametrize("again", COPIES)
@pytest.mark.parametrize(
    "error",
    [
        fetchmill.ReplyError("http://h/", "timeout", "30 s without a byte"),
        fetchmill.StatusError("http://h/", 404),
        fetchmill.StrayReplyError([1, 2]),
        fetchmill.UsageError("x"),
    ],
    ids=repr,
)
def test_error_keeps_its_content_when_pickled(error: fetchmill.FetchmillError, again: Copy) -> None:
    """This includes its text and its attributes."""
    copied = again(error)

    assert type(copied) is type(error)
    assert str(copied) == str(error)
    assert dict(vars(copied)) == dict(vars(error))


@pytest.mark.parametrize("name", DATACLASSES)
def test_public_dataclass_can_be_pickled(name: str) -> None:
    """Reports, failures, rows and options may have any values."""
    made = getattr(fetchmill, name)
    value = object.__new__(made)
    for each in dataclasses.fields(made):
        object.__setattr__(value, each.name, each.name)

    assert pickled(pickle.HIGHEST_PROTOCOL, value) == value


def test_reply_reaches_another_process(raw: Raw) -> None:
    """The other process is started afresh and imports everything again."""
    server = raw({"/large": reply(LARGE)})
    one = next(iter(fetchmill.stream([f"{server.url}/large"])))

    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(content, (one,)) == content(one)


def test_pickled_reply_with_unknown_failure_kind_is_refused() -> None:
    """The value may come from a later release that has more kinds."""
    state = ("http://h/", b"", b"", 0, ("later-kind", "x"), None, (0, 0, 0, 0), 0)

    with pytest.raises(fetchmill.UsageError, match=r"unknown failure kind \(\"later-kind\"\)"):
        fetchmill.Reply._restored(state)  # type: ignore[attr-defined]
