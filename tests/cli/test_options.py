"""The options of a job: one table, validated in one place, with the defaults of the core."""

import json
import re
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any, get_type_hints

import click
import pytest

import fetchmill
from fetchmill import CheckOptions, GetOptions, ListOptions, StreamOptions, UsageError
from fetchmill._native import Fetcher, Job
from fetchmill._options import keywords
from fetchmill._options.plan import PlanOptions
from fetchmill._options.rows import Option, Options, option_class
from fetchmill._options.sources import values_for
from fetchmill._options.sync import SyncOptions
from fetchmill._options.table import STREAM
from fetchmill.cli.options import options_of

# Classes of options, with their keywords.
CLASSES: list[tuple[type[Options], type]] = [
    (GetOptions, keywords.GetKeywords),
    (CheckOptions, keywords.CheckKeywords),
    (ListOptions, keywords.ListKeywords),
    (PlanOptions, keywords.PlanKeywords),
    (SyncOptions, keywords.SyncKeywords),
    (StreamOptions, keywords.StreamKeywords),
]


def options(**given: Any) -> GetOptions:  # noqa: ANN401
    """Creates options with a source and a destination."""
    return GetOptions(**{"source": "http://127.0.0.1:1", "dest": "out", **given})


@pytest.mark.parametrize(("made", "typed"), CLASSES)
def test_option_keywords_match_class_fields(made: type[Options], typed: type) -> None:
    """Their types match, too: a signature shows the fields, and a type checker uses the keywords."""
    hints = get_type_hints(made)

    assert get_type_hints(typed) == {field.name: hints[field.name] for field in fields(made) if field.metadata}


def test_table_row_defines_complete_option() -> None:
    """The row creates the field, its default, the check of values, and the command's option with its help."""
    politeness = Option("seconds", float | None, 1.5, "Time between two requests.", is_core=False)

    @option_class({**STREAM, "politeness": politeness})
    class Polite(Options):
        """Options.

        The options:
        """

    made: Any = Polite
    (written,) = (option for option in options_of(Polite) if option.name == "politeness")
    assert isinstance(written, click.Option)
    assert (written.opts, written.default, written.help) == (
        ["--politeness"],
        1.5,
        "Time between two requests.  [default: 1.5 s]",
    )
    assert (made().politeness, made(politeness=3).politeness) == (1.5, 3)
    assert "        politeness: Time between two requests. Default: 1.5 s." in str(Polite.__doc__)
    with pytest.raises(UsageError, match="politeness must be a number of seconds above 0, not 0"):
        made(politeness=0)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"redirects": 21}, "--redirects must be between 0 and 20, not 21"),
        ({"commit_window": 4000.0}, "--commit-window must be between 0.001 and 3600 seconds, not 4000"),
        ({"resolver": ["example.com"]}, "resolver must be the address of a name server, ADDRESS[:PORT]"),
        ({"credentials_for": "https://host/path"}, "credentials_for must be an origin, https://HOST[:PORT]"),
        ({"proxy": "ftp://host"}, "--proxy: the scheme ftp is not supported for a proxy"),
    ],
)
def test_core_error_has_option_name_bound_and_unit(tmp_path: Path, given: dict[str, Any], message: str) -> None:
    """This applies to values that Python does not check."""
    with pytest.raises(UsageError, match=re.escape(message)):
        fetchmill.get("http://127.0.0.1:1", tmp_path / "out", **given)
    assert not list(tmp_path.iterdir())


def test_core_refuses_unknown_option(tmp_path: Path) -> None:
    """A misspelt option is thus not ignored silently."""
    values = json.loads(options(dest=tmp_path / "out").to_json())
    with pytest.raises(UsageError, match="unknown field `limits`"):
        Job(json.dumps(values | {"limits": 5}))
    with pytest.raises(UsageError, match="a stream does not have the option format"):
        Fetcher(json.dumps({"format": "tar"}))


def test_option_defaults_are_unchanged() -> None:
    """A changed default would affect resumed jobs and programs."""
    shown = {field.name: field.default for field in fields(GetOptions) if field.default not in (None, False)}
    del shown["source"], shown["dest"]

    assert shown == {
        "format": "files",
        "seal_after": 15.0,
        "server_times": True,
        "checksums": True,
        "names": "source",
        "engine": "native",
        "pipeline": 1,
        "preflight": True,
        "transform_batch": 256,
        "image_quality": 85,
        "listing": "auto",
        "store": "objects",
        "list_path": "/list",
        "names_field": "FileNames",
        "marker_field": "NextMarker",
        "total_field": "Total",
        "marker_param": "next-marker",
        "get_path": "/get/{name}",
        "give_up_after": 900.0,
        "items_field": ".",
        "page_param": "page",
        "offset_param": "offset",
        "csv_header": "auto",
        "attempts": 5,
        "http2": True,
        "connect_timeout": 5.0,
        "head_timeout": 15.0,
        "idle_timeout": 15.0,
        "total_timeout": 60.0,
        "max_size": 64 << 20,
        "commit_window": 1.0,
        "durability": "power",
    }
    of_check = {field.name: field.default for field in fields(CheckOptions)}
    assert {name: of_check[name] for name in ("concurrency", "attempts", "timeout", "format")} == {
        "concurrency": 4000,
        "attempts": 1,
        "timeout": 10.0,
        "format": None,
    }
    of_stream = {field.name: field.default for field in fields(StreamOptions)}
    assert (of_stream["concurrency"], of_stream["redirects"]) == ("auto", 5)


def test_options_json_contains_given_options(tmp_path: Path) -> None:
    """None means the core's default and is left out; paths become strings."""
    values = json.loads(options(dest=tmp_path, concurrency=8, threads=None).to_json())

    assert values["dest"] == str(tmp_path)
    assert values["concurrency"] == 8
    assert not {"threads", "state"} & set(values)


def test_user_agent_and_timeout_map_to_core_options() -> None:
    """`user_agent` is a header field; `timeout` is another name of `total_timeout`."""
    values = json.loads(options(user_agent="crawler", timeout=5.0).to_json())

    assert values["headers"] == [["User-Agent", "crawler"]]
    assert values["total_timeout"] == 5.0
    with pytest.raises(UsageError, match="user_agent and a User-Agent header cannot be combined"):
        options(user_agent="crawler", headers={"user-agent": "other"}).to_json()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"source": ""}, "source must be a non-empty string, not ''"),
        ({"source": "http://a\nb"}, "source must be without control characters"),
        ({"dest": ""}, "dest must be a non-empty path"),
        ({"dest": "a\0b"}, "dest must be a path without NUL"),
        ({"dest": b"\xff"}, "dest must be a non-empty path"),
        ({"dest": "\udcff"}, "dest must be UTF-8"),
        ({"format": "zip"}, "format must be one of files, tar, parquet, warc, jsonl, null, not 'zip'"),
        ({"concurrency": 0}, "concurrency must be a whole number of at least 1, or auto, not 0"),
        ({"concurrency": "many"}, "concurrency must be a whole number of at least 1, or auto, not 'many'"),
        ({"concurrency": True}, "concurrency must be a whole number"),
        ({"limit": 1.5}, "limit must be a whole number"),
        ({"limit": 8, "concurrency": 9}, "concurrency and limit are the same option; leave out one of them"),
        ({"max_size": 2**63}, "max_size must be a whole number"),
        ({"commit_window": 0}, "commit_window must be a number of seconds above 0, not 0"),
        ({"commit_window": float("nan")}, "commit_window must be a number"),
        ({"idle_timeout": float("inf")}, "idle_timeout must be a number"),
        ({"retry_failed": "yes"}, "retry_failed must be True, False, or a sequence of answers"),
        ({"list_path": "list"}, "list_path must be a path that starts with /"),
        ({"get_path": "/get/"}, "get_path must be a path with exactly one {name}"),
        ({"listing": "autoindex", "get_path": "/x/{name}"}, "get_path requires listing api, not autoindex"),
    ],
)
def test_invalid_option_is_refused_by_name(given: dict[str, Any], message: str) -> None:
    """The error is one line; UsageError is also a ValueError."""
    with pytest.raises(UsageError, match=re.escape(message)) as refused:
        options(**given)

    assert isinstance(refused.value, ValueError)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "made",
    [
        options,
        lambda **given: CheckOptions(source="urls.txt", results="rows.csv", **given),
        StreamOptions,
    ],
    ids=["get", "check", "stream"],
)
def test_limit_is_alias_of_concurrency(made: Callable[..., Options]) -> None:
    """Both names give the same options; both may be given if they agree."""
    assert made(limit=7) == made(concurrency=7) == made(concurrency=7, limit=7)
    assert json.loads(made(limit=7).to_json())["concurrency"] == 7


def test_command_has_short_concurrency_option_but_no_limit() -> None:
    """For a command, `--limit` could also be a number of targets."""
    for table in (GetOptions, CheckOptions):
        (option,) = (option for option in options_of(table) if option.name == "concurrency")
        assert option.opts == ["-j", "--concurrency"]


def test_options_docstring_describes_all_options() -> None:
    """`help(fetchmill.GetOptions)` has every option with its default and unit."""
    text = str(GetOptions.__doc__)

    for field in fields(GetOptions):
        assert f"        {field.name}: " in text
    assert "connect_timeout: Maximum time to establish a connection. Default: 5 s." in text
    instead = "To leave out large objects in a bucket instead, use --size-to."
    assert f"max_size: Maximum body size; larger bodies fail. {instead} Default: 64 MiB." in text


def test_netrc_is_refused_without_origin() -> None:
    """Otherwise, `netrc` would silently send nothing."""
    with pytest.raises(UsageError, match="credentials_for"):
        options(source="urls.txt", netrc=True).to_json()
    with pytest.raises(UsageError, match="credentials_for"):
        StreamOptions(netrc=True).to_json()


@pytest.mark.parametrize(
    ("source", "given", "reach"),
    [
        # The destination's bucket, which a list of the source must not get.
        ("http://127.0.0.1:1", {"listing": "api"}, None),
        ("s3://bucket/a/", {"size_from": 5}, "http://127.0.0.1:9"),
        ("urls.txt", {"column": "link"}, "http://127.0.0.1:9"),
    ],
)
def test_listing_of_job_gets_only_relevant_options(source: str, given: dict[str, Any], reach: str | None) -> None:
    """Options for listing and access are passed on. Options for other kinds of sources and excluded options are not."""
    job = options(
        source=source, dest="s3://out/x/", format="tar", endpoint_url="http://127.0.0.1:9", give_up_after=3.0, **given
    )

    values = values_for(ListOptions, job, {"format", "state"})
    listing = ListOptions(**values)

    assert {name: getattr(listing, name) for name in given} == given
    assert (listing.source, listing.give_up_after, listing.endpoint_url, listing.format) == (source, 3, reach, None)
