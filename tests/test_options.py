"""The options of a job: one table, validated in one place, with the core's own defaults."""

import json
import re
from dataclasses import fields
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from fetchmill import CheckOptions, GetOptions, StreamOptions, UsageError
from fetchmill.check_options import CheckKeywords
from fetchmill.options import LIMIT_DEFAULT, GetKeywords

# Field and the constant behind its default in limits.rs.
BOUNDS = {
    "limit": "LIMIT_DEFAULT",
    "commit_window": "COMMIT_WINDOW",
    "attempts": "ATTEMPTS_MAX",
    "connect_timeout": "CONNECT_TIMEOUT",
    "head_timeout": "HEAD_TIMEOUT",
    "idle_timeout": "IDLE_TIMEOUT",
    "total_timeout": "TOTAL_TIMEOUT",
    "max_size": "BODY_BYTES_MAX",
    "give_up_after": "GIVE_UP_AFTER",
}


def options(**given: Any) -> GetOptions:  # noqa: ANN401
    """Options with a source and a destination."""
    return GetOptions(**{"source": "http://127.0.0.1:1", "dest": "out", **given})


@pytest.mark.parametrize(("name", "constant"), BOUNDS.items())
def test_defaults_are_those_of_the_core(root: Path, name: str, constant: str) -> None:
    """Each bound is written down once in Rust, and once here for help."""
    text = (root / "crates/fetchmill-core/src/limits.rs").read_text()
    match = re.search(rf"\b{constant}: \w+ = (?:Duration::from_secs\()?([\d_]+)( \* MIB)?", text)
    assert match, constant
    expected = int(match[1].replace("_", "")) * (1 << 20 if match[2] else 1)

    # Each engine takes its own limit, most of them this.
    assert (LIMIT_DEFAULT if name == "limit" else getattr(options(), name)) == expected


def test_keywords_are_the_fields() -> None:
    """What type checkers see of `fetchmill.get` is what it takes."""
    hints = get_type_hints(GetOptions)
    expected = {field.name: hints[field.name] for field in fields(GetOptions) if field.metadata}

    assert get_type_hints(GetKeywords) == expected


def test_a_check_has_the_options_of_get_and_its_own_defaults(root: Path) -> None:
    """What both have means the same; the limit is the core's."""
    hints = get_type_hints(CheckOptions)
    own = {field.name: field for field in fields(CheckOptions) if field.metadata}
    others = {field.name: field for field in fields(GetOptions) if field.metadata}
    text = (root / "crates/fetchmill-core/src/limits.rs").read_text()

    assert get_type_hints(CheckKeywords) == {name: hints[name] for name in own}
    for name in (own.keys() & others.keys()) - {"format"}:
        assert hints[name] == get_type_hints(GetOptions)[name]
        assert own[name].metadata["kind"] == others[name].metadata["kind"]
    changed = {
        name: own[name].default for name in own.keys() & others.keys() if own[name].default != others[name].default
    }
    assert changed == {"format": None, "limit": 4000, "attempts": 1}
    assert "CHECK_LIMIT: u32 = 4000;" in text


def test_json_has_every_option_that_is_given(tmp_path: Path) -> None:
    """None means the core's default and is left out; paths become text."""
    values = json.loads(options(dest=tmp_path, limit=8, threads=None).to_json())

    assert values["dest"] == str(tmp_path)
    assert values["limit"] == 8
    assert not {"threads", "state"} & set(values)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"source": ""}, "source must be a text that is not empty, not ''"),
        ({"source": "http://a\nb"}, "source must be without control characters"),
        ({"dest": ""}, "dest must be a path that is not empty"),
        ({"dest": "a\0b"}, "dest must be a path without NUL"),
        ({"dest": b"\xff"}, "dest must be a path"),
        ({"dest": "\udcff"}, "dest must be UTF-8"),
        ({"format": "zip"}, "format must be one of files, tar, parquet, warc, jsonl, null, not 'zip'"),
        ({"limit": 0}, "limit must be a whole number of at least 1, not 0"),
        ({"limit": True}, "limit must be a whole number"),
        ({"limit": 1.5}, "limit must be a whole number"),
        ({"max_size": 2**63}, "max_size must be a whole number"),
        ({"commit_window": 0}, "commit_window must be a number of seconds above 0, not 0"),
        ({"commit_window": float("nan")}, "commit_window must be a number"),
        ({"idle_timeout": float("inf")}, "idle_timeout must be a number"),
        ({"retry_failed": "yes"}, "retry_failed must be True or False"),
        ({"list_path": "list"}, "list_path must be a path that starts with /"),
        ({"get_path": "/get/"}, "get_path must be a path with one {name}"),
        ({"listing": "autoindex", "get_path": "/x/{name}"}, "get_path is for listing api, not for listing autoindex"),
    ],
)
def test_what_cannot_be_used_is_refused_by_name(given: dict[str, Any], message: str) -> None:
    """In one line; UsageError is a ValueError too."""
    with pytest.raises(UsageError, match=re.escape(message)) as refused:
        options(**given)

    assert isinstance(refused.value, ValueError)
    assert "\n" not in str(refused.value)


def test_options_describe_themselves() -> None:
    """`help(fetchmill.GetOptions)` has every option with its default and unit."""
    text = str(GetOptions.__doc__)

    for field in fields(GetOptions):
        assert f"        {field.name}: " in text
    assert "connect_timeout: Time for a connection. Default: 5 s." in text
    assert "max_size: Largest body; a larger one is failed. Default: 64 MiB." in text


def test_netrc_without_an_origin_is_refused() -> None:
    """It would send nothing, without a word."""
    with pytest.raises(UsageError, match="credentials_for"):
        options(source="urls.txt", netrc=True).to_json()
    with pytest.raises(UsageError, match="credentials_for"):
        StreamOptions(netrc=True).to_json()
