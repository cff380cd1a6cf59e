"""The S3 signer agrees with botocore and with the crate `aws-sigv4`."""

import datetime as dt
import json
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest
from botocore import auth
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from conftest import example

pytestmark = pytest.mark.of_files("crates/fetchmill-model/src/s3")

REQUESTS = 1000
DAY = 86_400
# Values that signers often get wrong.
PIECES = ("a", "Z9", "/", "//", "../", "./", "..", ".", "%", "%2E", "+", " ", "~", "é", "😀", "\x01", "?&=#", "'()*!")
QUERIES = ("", "list-type=2&prefix=a%2F%20b%2B", "partNumber=7&uploadId=a%2B%3D", "uploads=")
# The order in which the program in tests/s3/aws_sigv4 reads the values.
ORDER = ("method", "host", "url", "body", "now", "region", "access_key", "secret_key", "token")

Request = dict[str, Any]
Fields = dict[str, str]


def any_request(source: random.Random) -> Request:
    """Returns a random request at a time around midnight, when the date in the signing key changes."""
    return {
        "method": source.choice(("GET", "PUT", "POST", "DELETE")),
        "host": source.choice(("127.0.0.1:7070", "[::1]:9000", "bucket.store.test")),
        "region": source.choice(("us-east-1", "eu-central-1")),
        "path": "/" + "".join(source.choices(PIECES, k=source.randint(0, 12))),
        "query": source.choice(QUERIES),
        "body": source.choice(("", "body é")),
        "now": (20_000 + source.randrange(3)) * DAY - 2 + source.randrange(4),
        "access_key": source.choice(("AKIAIOSFODNN7EXAMPLE", "test")),
        "secret_key": source.choice(("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "other")),
        "token": source.choice((None, "token/+==" * 9)),
    }


@pytest.fixture(scope="module")
def signed() -> list[tuple[Request, Fields]]:
    """Returns a thousand requests, each with its signed URL and the headers from the project's signer."""
    source = random.Random(7)
    requests = [any_request(source) for _ in range(REQUESTS)]
    lines = "".join(json.dumps(request) + "\n" for request in requests)
    ended = subprocess.run(
        (example("s3_signer"), "-"), input=lines, capture_output=True, text=True, timeout=120, check=True
    )
    answers = [json.loads(line) for line in ended.stdout.splitlines()]
    for request, (target, _) in zip(requests, answers, strict=True):
        # A segment `..` is sent encoded, and is signed as the store decodes it.
        path, mark, query = target.partition("?")
        request["url"] = f"http://{request['host']}{path.replace('%2E', '.')}{mark}{query}"
    return [(request, dict(fields)) for request, (_, fields) in zip(requests, answers, strict=True)]


def signed_by_botocore(request: Request) -> Fields:
    """Returns the headers that botocore adds."""
    given = AWSRequest(method=request["method"], url=request["url"], data=request["body"].encode())
    keys = Credentials(request["access_key"], request["secret_key"], request["token"])
    S3SigV4Auth(keys, "s3", request["region"]).add_auth(given)
    return {name.lower(): value for name, value in given.headers.items()}


def test_signatures_of_thousand_requests_equal_botocore(
    signed: list[tuple[Request, Fields]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The requests have odd keys, queries, bodies, session tokens and ports."""
    for request, fields in signed:
        now = dt.datetime.fromtimestamp(request["now"], dt.UTC)
        monkeypatch.setattr(auth, "get_current_datetime", lambda now=now: now)
        assert fields == signed_by_botocore(request), request


def test_signatures_of_thousand_requests_equal_aws_sigv4(signed: list[tuple[Request, Fields]]) -> None:
    """`aws-sigv4` is the signer of AWS's own Rust clients. The test builds a small program that calls it."""
    folder = Path(__file__).parent / "aws_sigv4"
    target = folder.parents[2] / "target" / "aws-sigv4"
    lines = "".join("\t".join(str(request[name] or "") for name in ORDER) + "\n" for request, _ in signed)
    command = ("cargo", "run", "--quiet", "--locked", "--target-dir", target)
    ended = subprocess.run(command, cwd=folder, input=lines, capture_output=True, text=True, timeout=280, check=True)
    answers = ended.stdout.splitlines()

    assert len(answers) == REQUESTS
    for (request, fields), answer in zip(signed, answers, strict=True):
        assert fields == dict(field.split(": ", 1) for field in answer.split("\t")), request
