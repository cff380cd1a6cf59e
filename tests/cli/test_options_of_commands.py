"""Options of get, sync, check, list and stream: each works, or is refused with a sentence that names it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import fetchmill
from conftest import Ended
from raw_server import Exchange, RawServer, reply

Run = Callable[..., Ended]
Raw = Callable[..., RawServer]

COMMANDS = ("get", "sync", "check", "list", "stream")
ALL = frozenset(COMMANDS)
STORED = ALL - {"check"}
# The commands that have an option, and a value for it.
OPTIONS: dict[str, tuple[frozenset[str], object]] = {
    "opt_out": (frozenset({"get", "check", "stream"}), True),
    "robots": (ALL - {"stream"}, True),
    "cookies": (ALL, "cookies.txt"),
    "client_cert": (ALL, "cert.pem"),
    "client_key": (ALL, "key.pem"),
    "proxy": (ALL, "socks5://127.0.0.1:1"),
    "retry_status": (ALL, [403]),
    "listing": (frozenset({"get", "sync", "list"}), "links"),
    "store": (frozenset({"get"}), "items"),
    "items_field": (frozenset({"get", "sync", "list"}), "items"),
    "compressed": (frozenset({"get", "stream"}), True),
    "delimiter": (ALL - {"stream"}, ";"),
    "quote": (ALL - {"stream"}, "'"),
    "requester_pays": (STORED, True),
    "storage_class": (STORED - {"stream"}, ["STANDARD"]),
    "sse_c_key_file": (STORED, "key"),
    "use_fips_endpoint": (STORED, True),
    "use_dualstack_endpoint": (STORED, True),
    "use_accelerate_endpoint": (STORED, True),
}
REFUSED = [(name, command) for name, (having, _) in OPTIONS.items() for command in COMMANDS if command not in having]


def call(command: str, source: str, dest: Path, **options: Any) -> Any:  # noqa: ANN401 - of any command
    """Calls a command; for a stream, collects all replies."""
    if command == "stream":
        return list(fetchmill.stream([source], **options))
    if command == "list":
        return fetchmill.list(source, **options)
    made = dest if command != "check" else dest.with_suffix(".jsonl")
    return getattr(fetchmill, command)(source, made, **options)


@pytest.mark.parametrize(("name", "command"), REFUSED)
def test_call_refuses_option_of_other_calls_by_name(name: str, command: str, dest: Path) -> None:
    """The error lists the calls that have the option."""
    having, value = OPTIONS[name]
    with pytest.raises(fetchmill.UsageError) as refused:
        call(command, "http://127.0.0.1:1/", dest, **{name: value})
    sentence = str(refused.value)
    assert sentence.startswith(f"{name}: not an option of {command}: ")
    assert all(each in sentence.partition(" have it")[0] for each in having)
    assert not dest.exists()


def test_command_refuses_option_of_other_commands_by_name(run: Run, dest: Path) -> None:
    """The error has the option as it was typed."""
    for name, command in REFUSED:
        if command == "stream":
            continue
        option = f"--{name.replace('_', '-')}"
        words = [] if command == "list" else [dest]
        ended = run(command, "http://127.0.0.1:1/", *words, option)
        assert (ended.code, ended.err.count("\n")) == (2, 1), ended.err
        assert ended.err.startswith(f"fetchmill: error: {option}: not an option of {command}: "), ended.err
    unknown = run("sync", "http://127.0.0.1:1/", dest, "--opt-oat")
    assert "No such option '--opt-oat'" in unknown.err


def test_unknown_keyword_is_type_error(dest: Path) -> None:
    """This applies to names that no call has."""
    with pytest.raises(TypeError, match="opt_oat"):
        call("get", "http://127.0.0.1:1/", dest, opt_oat=True)


@dataclass(frozen=True)
class Effect:
    """The effect of an option.

    Args:
        options: the option, with its value.
        replies: creates the replies of a server; `/a` is the object.
        commands: the commands that have the option, with a URL as the target.
        expected: whether the object is accepted, with the option and without.
    """

    options: Mapping[str, Any]
    replies: Callable[[], dict[str, Any]]
    commands: tuple[str, ...]
    expected: tuple[bool, bool] = (True, False)


def with_cookie() -> dict[str, Any]:
    """Serves an object only to requests with the cookie."""

    def answer(exchange: Exchange) -> None:
        exchange.send(reply(b"a") if b"\r\ncookie: k=v" in exchange.head.lower() else reply(b"", status="403 No"))

    return {"/a": answer}


EFFECTS = {
    "opt_out": Effect(
        {"opt_out": True},
        lambda: {"/a": reply(b"a", "X-Robots-Tag: noai")},
        ("get", "check", "stream"),
        expected=(False, True),
    ),
    "robots": Effect(
        {"robots": True},
        lambda: {"/a": reply(b"a"), "/robots.txt": reply(b"User-agent: *\nDisallow: /a\n")},
        ("get", "check"),
        expected=(False, True),
    ),
    "cookies": Effect({"cookies": "cookies.txt"}, with_cookie, ("get", "sync", "check", "stream")),
}


@pytest.mark.parametrize(
    ("name", "command"), [(name, command) for name, effect in EFFECTS.items() for command in effect.commands]
)
def test_option_has_same_effect_in_each_command(name: str, command: str, raw: Raw, tmp_path: Path) -> None:
    """The object is accepted only with the option, or only without it."""
    effect = EFFECTS[name]
    for given, is_expected in zip((effect.options, {}), effect.expected, strict=True):
        server = raw(effect.replies())
        (tmp_path / "urls.txt").write_text(f"{server.url}/a\n")
        cookies = tmp_path / "cookies.txt"
        cookies.write_text("127.0.0.1\tFALSE\t/\tFALSE\t0\tk\tv\n")
        options = {key: str(cookies) if key == "cookies" else value for key, value in given.items()}
        if command != "stream":
            options["allow_private"] = True
        source = f"{server.url}/a" if command == "stream" else str(tmp_path / "urls.txt")
        got = call(command, source, tmp_path / f"out{len(given)}", **options)
        assert is_taken(command, got) == is_expected, (given, got)


def is_taken(command: str, got: Any) -> bool:  # noqa: ANN401 - of any command
    """Returns whether the object was stored with its body."""
    if command == "stream":
        return bool(got[0].ok and got[0].body == b"a")
    if command == "check":
        return bool(got.counts.get("200") == 1 and not got.skipped)
    return bool(got.fetched == 1)
