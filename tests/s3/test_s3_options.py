"""S3 sources and options, and the one-line errors that come before anything is fetched."""

import json
import re
import shlex
from collections.abc import Callable
from dataclasses import fields
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any, get_type_hints

import pytest

import fetchmill
from fetchmill import GetOptions, StreamOptions, UsageError
from fetchmill._options.keywords import StreamKeywords
from fetchmill.cli.get import command as get
from fetchmill.cli.options import gathered

ACCESS: dict[str, Any] = {
    "endpoint_url": "http://127.0.0.1:7070",
    "region": "eu-central-1",
    "profile": "one",
    "no_sign_request": True,
    "addressing_style": "path",
}
BUCKET = "s3://bucket/prefix"
# The time 2026-11-22T00:00:00Z.
DAY = 1_795_305_600


def native(**given: Any) -> dict[str, Any]:  # noqa: ANN401
    """Returns the options that the native module gets."""
    told: dict[str, Any] = json.loads(GetOptions(**{"source": BUCKET, "dest": "out", **given}).to_json())
    return told


def refusal(**given: Any) -> str:  # noqa: ANN401
    """Returns the one-line message with which options are refused."""
    with pytest.raises(UsageError) as refused:
        native(**given)
    assert "\n" not in str(refused.value)
    return str(refused.value)


@pytest.mark.parametrize(
    "source",
    [
        "s3://bucket",
        "s3://bucket/",
        "s3://bucket/prefix",
        "s3://bucket//",
        "s3://b.u-c_k.et9/a b/%41?x=y#z",
        "s3://bucket/s3://other",
        "s3://bucket/\N{GREEK SMALL LETTER ALPHA}+",
    ],
)
def test_bucket_prefix_is_used_verbatim(source: str) -> None:
    """Characters such as `?`, `#` and `%` are part of the key."""
    told = native(source=source)

    assert (told["source_kind"], told["source"]) == ("s3", source)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("s3:/bucket", "s3:/bucket is not a bucket; write s3://BUCKET/PREFIX, or ./s3:/bucket for a file of that name"),
        (Path("s3://bucket/x"), "s3:/bucket/x is not a bucket; write s3://BUCKET/PREFIX"),
        ("s3:bucket", "s3:bucket is not a bucket; write s3://BUCKET/PREFIX"),
        ("S3://bucket", "S3://bucket is not a bucket; write s3://BUCKET/PREFIX"),
        ("s3a://bucket", "s3a://bucket is not a bucket; write s3://BUCKET/PREFIX"),
        ("s3://", "s3://: the bucket name is missing; write s3://BUCKET/PREFIX"),
        ("s3:///prefix", "s3:///prefix: the bucket name is missing; write s3://BUCKET/PREFIX"),
        ("s3://bucket?x", "bucket?x is not a valid bucket name; write s3://BUCKET/PREFIX"),
        ("s3://bu cket/x", "bu cket is not a valid bucket name; write s3://BUCKET/PREFIX"),
        ("s3://../x", ".. is not a valid bucket name"),
        (f"s3://{'x' * 256}/x", "is not a valid bucket name"),
        ("s3://127.0.0.1:7070/bucket", "and set endpoint_url to the address of a store"),
        ("s3://bucket/a\nb", "source must be without control characters"),
    ],
)
def test_mistyped_s3_url_error_shows_correct_form(source: str | Path, message: str) -> None:
    """The mistyped URL is not taken for a file or a host."""
    assert message in refusal(source=source)


@pytest.mark.parametrize("source", ["./s3:urls.txt", "s3.txt", "s3/urls.txt", "s3", "s33:x", "-"])
def test_file_named_like_s3_url_is_read_as_list(source: str) -> None:
    """Names that only resemble an S3 URL are file names."""
    assert native(source=source)["source_kind"] == "list"


def test_only_given_store_options_are_passed_on() -> None:
    """Options that are not given are left out, so that the environment and the profile decide."""
    told = native(**ACCESS)

    assert {name: told[name] for name in ACCESS} == ACCESS
    assert not ACCESS.keys() & native().keys()
    assert native(dest="s3://other/run/", source="http://127.0.0.1:1", region="x")["region"] == "x"
    assert native(source="urls.txt", region="x")["region"] == "x"


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("2026-11-22", DAY),
        ("2026-11-22T00:00:00Z", DAY),
        ("2026-11-22T01:00+01:00", DAY),
        ("2026-11-21 23:59:59.5Z", DAY),
        (date(2026, 11, 22), DAY),
        (datetime(2026, 11, 22, tzinfo=UTC), DAY),
        (datetime(2026, 11, 21, 23, tzinfo=timezone(timedelta(hours=-1))), DAY),
        (datetime(2026, 11, 22, 0, 0, 0, 1, tzinfo=UTC), DAY + 1),
        ("1970-01-01", 0),
    ],
)
def test_dates_are_parsed_as_utc_moments(value: str | date, seconds: int) -> None:
    """A day begins at 00:00 UTC. Fractions of a second are rounded up because listings have whole seconds."""
    assert native(modified_from=value)["modified_from"] == seconds


def test_size_filters_accept_zero() -> None:
    """`size_to` is exclusive, so `size_to=1` selects only empty objects."""
    told = native(size_from=0, size_to=1)

    assert (told["size_from"], told["size_to"]) == (0, 1)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"modified_from": "yesterday"},
            "modified_from: 'yesterday' is not understood; write, for example, 2026-11-22",
        ),
        ({"modified_to": "2026-11-22T08:30"}, "modified_to: '2026-11-22T08:30' has no time zone; append Z for UTC"),
        ({"modified_to": datetime(2026, 11, 22)}, "has no time zone; set tzinfo, for example to datetime.UTC"),  # noqa: DTZ001
        ({"modified_from": "1969-12-31"}, "1969-12-31T00:00:00+00:00 is before 1970"),
        ({"modified_from": 5}, "modified_from must be a date or a date string, not 5"),
        (
            {"modified_from": "2026-11-22", "modified_to": date(2026, 11, 22)},
            "modified_to must be after modified_from (2026-11-22), not 2026-11-22",
        ),
        ({"size_from": 10, "size_to": 10}, "size_to must be above size_from (10), not 10"),
        ({"size_from": -1}, "size_from must be a whole number of at least 0, not -1"),
        ({"size_to": "1KiB"}, "size_to must be a whole number"),
        ({"endpoint_url": "127.0.0.1:7070"}, "endpoint_url must be http://HOST[:PORT] or https://HOST[:PORT], not"),
        ({"addressing_style": "dns"}, "addressing_style must be one of auto, path, virtual, not 'dns'"),
        ({"no_sign_request": "yes"}, "no_sign_request must be True or False"),
        ({"profile": ""}, "profile must be a non-empty string"),
    ],
)
def test_invalid_bucket_options_are_refused_by_name(given: dict[str, Any], message: str) -> None:
    """The errors include ranges that no object can match."""
    assert message in refusal(**given)


@pytest.mark.parametrize(
    ("source", "given", "message"),
    [
        (BUCKET, {"redirects": 0}, "redirects is for servers and lists of URLs, which s3://bucket/prefix is not"),
        (BUCKET, {"bearer": "x"}, "bearer is for servers and lists"),
        (BUCKET, {"headers": {"a": "b"}}, "headers is for servers and lists"),
        (BUCKET, {"netrc": True}, "netrc is for servers and lists"),
        (BUCKET, {"listing": "autoindex"}, "listing is for servers that list their objects, which s3://"),
        (BUCKET, {"get_path": "/x/{name}"}, "get_path is for servers that list their objects"),
        (BUCKET, {"column": "2"}, "column is for lists of URLs"),
        (BUCKET, {"names": "seq"}, "names is for lists of URLs"),
        (BUCKET, {"sample": 5}, "sample is for lists of URLs"),
        ("http://127.0.0.1:1", {"region": "x"}, "region is for buckets, and lists that lead to buckets, which http://"),
        ("http://127.0.0.1:1", {"no_sign_request": True}, "no_sign_request is for buckets"),
        ("http://127.0.0.1:1", {"size_to": 5}, "size_to is for buckets (s3://BUCKET/PREFIX), which http://127.0.0.1:1"),
        ("urls.txt", {"modified_from": "2026-11-22"}, "modified_from is for buckets (s3://BUCKET/PREFIX), which urls"),
    ],
)
def test_option_for_another_source_kind_is_refused(source: str, given: dict[str, Any], message: str) -> None:
    """The option is not silently ignored."""
    assert message in refusal(source=source, **given)


def test_listing_filters_are_refused_for_iterables(tmp_path: Path) -> None:
    """`size_from` and similar options need a bucket listing. No request is sent."""
    with pytest.raises(UsageError, match=r"size_from is for buckets"):
        fetchmill.get(["s3://bucket/key"], tmp_path / "out", size_from=1)

    assert list(tmp_path.iterdir()) == []


def test_endpoint_scheme_selects_environment_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The proxy is the one for the scheme of the store's endpoint."""
    for name in ("no_proxy", "NO_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:2")
    assert native(proxy="env")["proxy"] == {
        "http": "http://127.0.0.1:1",
        "https": "http://127.0.0.1:2",
        "without": [""],
    }
    monkeypatch.delenv("http_proxy")
    assert native(proxy="env")["proxy"]["http"] is None
    monkeypatch.setenv("all_proxy", "http://127.0.0.1:3")
    assert native(proxy="env")["proxy"]["http"] == "http://127.0.0.1:3"


def test_streams_accept_store_options_but_no_listing_filters() -> None:
    """Streams accept the options for access to a store and refuse those that filter a listing."""
    told = json.loads(StreamOptions(**ACCESS).to_json())
    hints = get_type_hints(StreamOptions)

    assert {name: told[name] for name in ACCESS} == ACCESS
    assert not ACCESS.keys() & json.loads(StreamOptions().to_json()).keys()
    assert get_type_hints(StreamKeywords) == {field.name: hints[field.name] for field in fields(StreamOptions)}
    with pytest.raises(UsageError, match=r"endpoint_url must be http://HOST"):
        StreamOptions(endpoint_url="store.test")


def test_get_function_refuses_invalid_bucket_options(tmp_path: Path) -> None:
    """The error comes before anything is created or changed."""
    with pytest.raises(UsageError, match=r"s3:/bucket is not a bucket"):
        fetchmill.get("s3:/bucket", tmp_path / "out")

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["s3://bucket/prefix"],
            "Missing argument 'DEST'. Give a folder, for example: fetchmill get s3://bucket/prefix out/",
        ),
        (["s3://bucket/a b"], "for example: fetchmill get 's3://bucket/a b' out/"),
        (["s3:/bucket", "out"], "s3:/bucket is not a bucket; write s3://BUCKET/PREFIX"),
        (["s3://", "out"], "s3://: the bucket name is missing"),
        (
            [BUCKET, "out", "--endpoint-url", "store"],
            "--endpoint-url must be http://HOST[:PORT] or https://HOST[:PORT]",
        ),
        (
            [BUCKET, "out", "--endpoint-url", "http://127.0.0.1:1", "--region", "eu/s3"],
            "the region eu/s3 is not valid",
        ),
        ([BUCKET, "out", "--addressing-style", "host"], "'host' is not one of 'auto', 'path', 'virtual'"),
        ([BUCKET, "out", "--size-from", "big"], "Invalid value for '--size-from': 'big' is not understood"),
        ([BUCKET, "out", "--modified-to", "2026"], "Invalid value for '--modified-to': '2026' is not understood"),
        ([BUCKET, "out", "--modified-to", "2026-11-22T08:30"], "has no time zone; append Z for UTC"),
        ([BUCKET, "out", "--size-from", "1KiB", "--size-to", "1000"], "--size-to must be above --size-from (1024)"),
        ([BUCKET, "out", "--redirects", "3"], "redirects is for servers and lists of URLs"),
        (["http://127.0.0.1:1", "out", "--profile", "one"], "profile is for buckets"),
    ],
)
def test_invalid_bucket_options_get_one_line_error_from_command(
    run: Callable[..., Any], tmp_path: Path, arguments: list[str], message: str
) -> None:
    """The exit code is 2, and nothing is changed."""
    refused = run("get", *arguments)

    assert re.fullmatch(r"fetchmill: error: [^\n]+\n", refused.err)
    assert message in refused.err
    assert (refused.code, refused.out) == (2, "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("region", ["eu/s3/aws4_request, X", "eu\r\nX-Other: y", "r" * 65])
@pytest.mark.parametrize("is_profile", [True, False])
def test_region_with_invalid_characters_is_refused(
    run: Callable[..., Any], environment: dict[str, str], tmp_path: Path, region: str, is_profile: bool
) -> None:
    """Such a region could add text to the signing field. No request is sent."""
    if is_profile:
        # A line break would end the setting.
        region = region.replace("\r\n", "\t")
        config = tmp_path / "config"
        config.write_text(f"[default]\nregion = {region}\n", encoding="ascii")
        settings = {"AWS_CONFIG_FILE": str(config)}
    else:
        settings = {"AWS_REGION": region}

    refused = run("get", BUCKET, "out", "--endpoint-url", "http://127.0.0.1:1", env=environment | settings)

    assert re.fullmatch(r"fetchmill: error: the region [^\n]+ is not valid [^\n]+--region[^\n]+\n", refused.err)
    assert "\r" not in refused.err
    assert refused.code == 2


def test_help_lists_s3_options_in_separate_section(run: Callable[..., Any]) -> None:
    """The section has all S3 options and no others."""
    text = run("get", "--help").out
    section = re.search(r"^S3:\n((?:  .*\n)+)", text, re.MULTILINE)
    assert section
    written = re.findall(r"^  --([a-z-]+)", section[1], re.MULTILINE)

    expected = [field.name for field in fields(GetOptions) if field.metadata.get("heading") == "S3"]
    assert [name.replace("-", "_") for name in written] == expected
    filters = {"size_from", "size_to", "modified_from", "modified_to", "storage_class"}
    access = {
        "requester_pays",
        "sse_c_key_file",
        *(f"use_{kind}_endpoint" for kind in ("fips", "dualstack", "accelerate")),
    }
    assert filters | access | {"checksums", *ACCESS} == set(expected)


def commands(root: Path) -> list[str]:
    """Returns the bucket commands that the guide and the help show."""
    texts = [(root / name).read_text() for name in ("README.md", "docs/guide/s3.md", "tests/cli/help/get.txt")]
    lines = re.findall(r"^ {2,4}fetchmill (get s3://.*[^\\\n])$", "\n".join(texts), re.MULTILINE)
    # Text after several spaces is a comment.
    return [re.split(r" {3,}", line)[0] for line in lines]


def test_commands_in_s3_guide_are_accepted(root: Path) -> None:
    """The guide also mentions every bucket option."""
    typed = commands(root)
    page = (root / "docs/guide/s3.md").read_text()

    assert len(typed) > 10
    for line in typed:
        context = get.make_context("get", shlex.split(line)[1:])
        own = {field.name for field in fields(GetOptions)}
        told = gathered({name: value for name, value in context.params.items() if name in own})
        assert json.loads(GetOptions(**told).to_json())["source_kind"] == "s3", line
    for field in fields(GetOptions):
        if field.metadata.get("heading") == "S3":
            assert f"--{field.name.replace('_', '-')}" in page
