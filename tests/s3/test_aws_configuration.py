"""Store settings in AWS configuration files and environment variables are obeyed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from certificates import Certificates
from conftest import Ended
from fetchmill.testing import s3

Run = Callable[..., Any]

KEYS = 5


def configuration(folder: Path, text: str) -> dict[str, str]:
    """Returns environment variables that select a profile `test` with these settings."""
    config = folder / "config"
    config.write_text(f"[profile test]\n{text}")
    return {"AWS_CONFIG_FILE": str(config), "AWS_PROFILE": "test"}


def test_profile_services_section_sets_endpoint(
    run: Run, environment: dict[str, str], dest: Path, tmp_path: Path
) -> None:
    """The S3 endpoint in a `services` section takes precedence over the profile's general endpoint."""
    with s3(synthetic=KEYS) as store:
        settings = configuration(
            tmp_path,
            "endpoint_url = http://127.0.0.1:1\nservices = local\n"
            f"[services local]\nsts =\n  endpoint_url = http://127.0.0.1:1\ns3 =\n  endpoint_url = {store.url}\n",
        )
        keys = {name: value for name, value in store.environment().items() if "KEY" in name or "REGION" in name}
        ended: Ended = run("get", "s3://bucket", dest, "--format", "null", env=environment | keys | settings)
    assert ended.code == 0, ended.err
    assert f"{KEYS} fetched" in ended.err


@pytest.mark.parametrize(
    ("said", "hosts"), [("virtual", "bucket.localhost"), ("path", "localhost"), (None, "localhost")]
)
def test_profile_sets_addressing_style(
    run: Run, environment: dict[str, str], dest: Path, tmp_path: Path, said: str | None, hosts: str
) -> None:
    """The setting is `addressing_style` under `s3 =`; the command-line option takes precedence."""
    style = "" if said is None else f"s3 =\n  max_concurrent_requests = 20\n  addressing_style = {said}\n"
    # Host names with and without the bucket both reach the store, so a name that does not resolve shows the difference.
    with s3(synthetic=KEYS) as store:
        settings = environment | store.environment() | configuration(tmp_path, style)
        url = store.url.replace("127.0.0.1", "no-such-host.invalid")
        ended: Ended = run("get", "s3://bucket", dest, "--endpoint-url", url, "--format", "null", env=settings)
        there = run(
            *("get", "s3://bucket", dest, "--endpoint-url", store.url, "--format", "null"),
            *("--addressing-style", "path"),
            env=settings,
        )
    assert ended.code == 4
    assert ("bucket.no-such-host.invalid" in ended.err) == hosts.startswith("bucket"), ended.err
    assert there.code == 0, there.err


def test_invalid_addressing_style_is_refused(run: Run, environment: dict[str, str], dest: Path, tmp_path: Path) -> None:
    """The error comes before any request is sent."""
    settings = environment | configuration(tmp_path, "s3 =\n  addressing_style = sideways\n")
    ended: Ended = run("get", "s3://bucket", dest, env=settings)
    assert (ended.code, ended.err.count("\n")) == (2, 1), ended.err
    assert "sideways" in ended.err


@pytest.mark.parametrize("place", ["environment", "profile"])
def test_ca_bundle_of_configuration_is_trusted(
    run: Run,
    environment: dict[str, str],
    certificates: Certificates,
    nginx: Callable[..., Any],
    dest: Path,
    tmp_path: Path,
    place: str,
) -> None:
    """The server is not a store, but its reply shows that the client trusts its certificate."""
    from nginx import Site

    server = nginx(tls=Site(leaf=certificates.good))
    bundle = str(certificates.ca_file)
    settings = {
        "environment": {"AWS_CA_BUNDLE": bundle},
        "profile": configuration(tmp_path, f"ca_bundle = {bundle}\n"),
    }[place]
    keys = {"AWS_ACCESS_KEY_ID": "A", "AWS_SECRET_ACCESS_KEY": "B"}
    command = ("get", "s3://bucket", dest, "--endpoint-url", server.url("tls"), "--format", "null")

    refused: Ended = run(*command, env=environment | keys)
    ended: Ended = run(*command, env=environment | keys | settings)

    assert (refused.code, "tls-" in refused.err) == (6, True), refused.err
    assert (ended.code, "tls-" in ended.err) == (4, False), ended.err
    missing: Ended = run(*command, env=environment | keys | {"AWS_CA_BUNDLE": "/nowhere.pem"})
    assert (missing.code, "/nowhere.pem" in missing.err) == (2, True), missing.err


@pytest.mark.parametrize(
    ("settings", "profile", "source", "said"),
    [
        ({"AWS_REGION": "us-iso-east-1"}, "", "s3://bucket", "us-iso-east-1"),
        ({"AWS_REGION": "eusc-de-east-1"}, "", "s3://bucket", "eusc-de-east-1"),
        ({}, "", "s3://bucket--use1-az4--x-s3", "directory bucket"),
        ({}, "login_session = arn:aws:iam::1:user/x\n", "s3://bucket", "aws login"),
    ],
)
def test_unsupported_settings_are_refused_by_name(
    run: Run,
    environment: dict[str, str],
    dest: Path,
    tmp_path: Path,
    settings: dict[str, str],
    profile: str,
    source: str,
    said: str,
) -> None:
    """The error comes before any request is sent.

    Otherwise, another AWS endpoint would be used, or requests would be unsigned.
    """
    known = {"AWS_REGION": "eu-west-1"} | configuration(tmp_path, profile) | settings
    if "login" not in said:
        known |= {"AWS_ACCESS_KEY_ID": "one", "AWS_SECRET_ACCESS_KEY": "two"}

    ended: Ended = run("get", source, dest, env=environment | known)

    assert (ended.code, ended.err.count("\n")) == (2, 1), ended
    assert said in ended.err


def test_explicit_endpoint_overrides_unsupported_settings(run: Run, environment: dict[str, str], dest: Path) -> None:
    """An endpoint given by option is used unchanged."""
    with s3(synthetic=KEYS) as store:
        settings = store.environment() | {"AWS_USE_FIPS_ENDPOINT": "true"}
        ended: Ended = run("get", "s3://bucket", dest, "--endpoint-url", store.url, env=environment | settings)

    assert ended.code == 0, ended.err
