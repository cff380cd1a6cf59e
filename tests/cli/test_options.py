"""The options of a job: one table, validated in one place, with the core's own defaults."""

import json
import re
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import click
import pytest

import fetchmill
from fetchmill import CheckOptions, GetOptions, ListOptions, StreamOptions, UsageError
from fetchmill._native import Fetcher, Job
from fetchmill._options import keywords
from fetchmill._options.plan import PlanOptions
from fetchmill._options.rows import CORE, Option, Options, option_class
from fetchmill._options.sync import SyncOptions
from fetchmill.cli.options import options_of

# Classes of options, with their keywords and the options of the core that they have.
CLASSES: list[tuple[type[Options], type, str]] = [
    (GetOptions, keywords.GetKeywords, "job"),
    (CheckOptions, keywords.CheckKeywords, "check"),
    (ListOptions, keywords.ListKeywords, "job"),
    (PlanOptions, keywords.PlanKeywords, "job"),
    (SyncOptions, keywords.SyncKeywords, "job"),
    (StreamOptions, keywords.StreamKeywords, "stream"),
]
# What an option of a kind is in the core: types, units, and the least that it may be.
KINDS = {
    "concurrency": ({"Concurrency"}, {""}, 1),
    "count": ({"u32", "u64", "usize"}, {""}, 1),
    "whole": ({"u32"}, {""}, 0),
    "bytes": ({"u64"}, {"bytes"}, 1),
    "size": ({"u64"}, {"bytes"}, 0),
    "seconds": ({"Duration"}, {"seconds"}, None),
    "number": ({"f64"}, {"requests a second"}, None),
    "bandwidth": ({"f64"}, {"bytes a second"}, None),
    "rate": ({"f64"}, {"requests a second"}, 0),
}
# What is made into other options before the core sees it, and what it is told in another way.
OF_PYTHON = {"auth", "bearer", "netrc", "engine", "transform", "format"}
OF_PYTHON |= {"dashboard", "dashboard_addr", "dashboard_token", "dashboard_host"}
OF_PYTHON |= set(keywords.Planning.__annotations__) | set(keywords.Syncing.__annotations__)
# What the core has besides: made of other options, or by the engines.
OF_CORE = {"any_text"}


def options(**given: Any) -> GetOptions:  # noqa: ANN401
    """Options with a source and a destination."""
    return GetOptions(**{"source": "http://127.0.0.1:1", "dest": "out", **given})


@pytest.mark.parametrize(("table", "typed", "core"), CLASSES)
def test_every_option_is_one_of_the_core(table: type[Options], typed: type, core: str) -> None:
    """With its name, a type and a unit for its kind, the bound that Python checks, and its default."""
    for field in fields(table):
        if not field.metadata or field.metadata["alias_of"] or field.name in OF_PYTHON:
            continue
        row, kind = CORE[core][field.name], field.metadata["kind"]
        if kind in KINDS:
            types, units, least = KINDS[kind]
            assert row["type"].removeprefix("Option <").removeprefix("Option<").strip(" >") in types, field.name
            assert row["unit"] in units, field.name
            assert row["minimum"] == (least if least is not None else 1e-9) or field.name == "commit_window"
        if table in (GetOptions, PlanOptions) and field.name == "concurrency":
            assert (field.default, row["default"]) == (None, "auto")
        else:
            assert field.default == row["default"], field.name
            assert type(field.default) is type(row["default"])
    assert set(get_type_hints(typed)) == {field.name for field in fields(table) if field.metadata}


def test_no_option_of_the_core_is_missing() -> None:
    """Each belongs to a command or to streams."""
    known = {name for rows in CORE.values() for name in rows}

    assert known - OF_CORE - {field.name for table, _, _ in CLASSES for field in fields(table)} == set()


def test_an_option_is_written_down_once() -> None:
    """A name stands in one of the tables that the keywords are made of; `format` means two things."""
    tables = [value for value in vars(keywords).values() if isinstance(value, type) and hasattr(value, "__total__")]
    rows = [name for table in tables if table.__name__[-8:] != "Keywords" for name in table.__annotations__]

    assert [name for name in rows if rows.count(name) > 1] == ["format", "format"]
    for table in tables:
        for hint in get_type_hints(table, include_extras=True).values():
            assert isinstance(hint.__metadata__[0], Option)


def test_a_row_is_all_that_an_option_needs() -> None:
    """Of it are made the field, its default, the check of values, the command's option and help."""

    class Keywords(keywords.StreamKeywords, total=False):
        politeness: Annotated[float | None, Option("seconds", "Time between two requests.", default=1.5)]

    @option_class(Keywords, "stream")
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
        ({"proxy": "ftp://host"}, "--proxy: a proxy is not spoken to over ftp"),
    ],
)
def test_the_core_refuses_by_name_bound_and_unit(tmp_path: Path, given: dict[str, Any], message: str) -> None:
    """What Python does not look at."""
    with pytest.raises(UsageError, match=re.escape(message)):
        fetchmill.get("http://127.0.0.1:1", tmp_path / "out", **given)
    assert not list(tmp_path.iterdir())


def test_the_core_refuses_what_is_no_option(tmp_path: Path) -> None:
    """An option that is misspelt on its way would do nothing, without a word."""
    values = json.loads(options(dest=tmp_path / "out").to_json())
    with pytest.raises(UsageError, match="unknown field `limits`"):
        Job(json.dumps(values | {"limits": 5}))
    with pytest.raises(UsageError, match="a stream has no option format"):
        Fetcher(json.dumps({"format": "tar"}))


def test_defaults_are_what_they_were() -> None:
    """A default that changes changes jobs that are resumed, and programs."""
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
        "listing": "auto",
        "robots": True,
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


def test_json_has_every_option_that_is_given(tmp_path: Path) -> None:
    """None means the core's default and is left out; paths become text."""
    values = json.loads(options(dest=tmp_path, concurrency=8, threads=None).to_json())

    assert values["dest"] == str(tmp_path)
    assert values["concurrency"] == 8
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
        ({"concurrency": 0}, "concurrency must be a whole number of at least 1, or auto, not 0"),
        ({"concurrency": "many"}, "concurrency must be a whole number of at least 1, or auto, not 'many'"),
        ({"concurrency": True}, "concurrency must be a whole number"),
        ({"limit": 1.5}, "limit must be a whole number"),
        ({"limit": 8, "concurrency": 9}, "concurrency and limit are two names of one option: give one of them"),
        ({"max_size": 2**63}, "max_size must be a whole number"),
        ({"commit_window": 0}, "commit_window must be a number of seconds above 0, not 0"),
        ({"commit_window": float("nan")}, "commit_window must be a number"),
        ({"idle_timeout": float("inf")}, "idle_timeout must be a number"),
        ({"retry_failed": "yes"}, "retry_failed must be True, False, or a sequence of answers"),
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


@pytest.mark.parametrize(
    "made",
    [
        options,
        lambda **given: CheckOptions(source="urls.txt", results="rows.csv", **given),
        StreamOptions,
    ],
    ids=["get", "check", "stream"],
)
def test_limit_is_another_name_of_concurrency(made: Callable[..., Options]) -> None:
    """Both give the same options; given twice, they may agree."""
    assert made(limit=7) == made(concurrency=7) == made(concurrency=7, limit=7)
    assert json.loads(made(limit=7).to_json())["concurrency"] == 7


def test_a_command_takes_concurrency_by_all_its_names() -> None:
    """In one letter, too."""
    for table in (GetOptions, CheckOptions):
        (option,) = (option for option in options_of(table) if option.name == "concurrency")
        assert option.opts == ["-j", "--concurrency", "--limit"]


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
