"""`--compressed`: gzip, br and zstd replies are stored decoded, and undecodable ones are never stored.

The encoders are Python's zlib, the reference implementation of brotli, and pyarrow's zstd. A bomb is a reply of some
kilobytes that decodes to gigabytes.
"""

import gzip
import hashlib
import json
import random
import signal
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import brotli
import pyarrow as pa
import pytest

import fetchmill
from certificates import Certificates
from conftest import COMMAND
from fetchmill.errors import UsageError
from foreign import read_objects
from lists import write_list
from nginx import Nginx, Site
from process_limits import SPAWN
from raw_server import Behaviour, Exchange, RawServer, bare_reply, in_turn, mirror, reply, then_close
from s3_stores import Versitygw, client_of
from stored import FORMATS, find_wrong

Run = Callable[..., Any]
Start = Callable[..., "subprocess.Popen[str]"]
Raw = Callable[[Mapping[str, Behaviour]], RawServer]

MIB = 1 << 20
ACCEPTED = b"accept-encoding: gzip, br, zstd\r\n"
# All kinds of sizes: kept by a connection, in memory, and in a file before or after decoding.
BODIES = {
    "one": b"x",
    "text": b"It is decoded as a whole or not at all. " * 50,
    "random": random.Random(1).randbytes(700_000),
    "shrinks": b"0123456789" * 400_000,
    "large": random.Random(2).randbytes(3 * MIB),
}


def zstd(body: bytes) -> bytes:
    """Compresses into one zstd frame."""
    return bytes(pa.Codec("zstd", 3).compress(body, asbytes=True))


ENCODERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": lambda body: gzip.compress(body, 1),
    "br": lambda body: bytes(brotli.compress(body, quality=1)),
    "zstd": zstd,
}


def encoded(body: bytes, encoding: str) -> bytes:
    """Returns an encoded reply with its `Content-Encoding`."""
    return reply(ENCODERS[encoding](body), f"Content-Encoding: {encoding}")


def chunked(body: bytes, *fields: str) -> bytes:
    """Returns the same without a length, in two chunks."""
    half = len(body) // 2
    parts = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (body[:half], body[half:]) if part)
    return bare_reply("Transfer-Encoding: chunked", *fields) + parts + b"0\r\n\r\n"


def failures(dest: Path) -> dict[str, tuple[str | None, str | None]]:
    """Returns kind and detail of failures by name."""
    return {each.name: (each.kind, each.detail or None) for each in fetchmill.failures(dest)}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("format", [format for format in FORMATS if format != "warc"])
def test_compressed_objects_are_stored_decoded(run: Run, raw: Raw, dest: Path, format: str) -> None:
    """Objects have all kinds of sizes. Requests for objects and pages ask for encodings."""
    heads: dict[str, bytes] = {}

    def seen(answer: Behaviour) -> Behaviour:
        def behave(exchange: Exchange) -> bytes:
            heads[exchange.target] = exchange.head.lower() + b"\r\n"
            assert isinstance(answer, bytes)
            return answer

        return behave

    expected = {f"{encoding}/{name}": body for encoding in ENCODERS for name, body in BODIES.items()}
    scripted = {name: encoded(body, name.partition("/")[0]) for name, body in expected.items()}
    members = ENCODERS["gzip"](b"first, ") + ENCODERS["gzip"](b"second")
    frames = zstd(b"first, ") + b"\x51\x2a\x4d\x18\x02\x00\x00\x00no" + zstd(b"second")
    scripted |= {
        "plain": reply(b"plain"),
        "identity": reply(b"plain", "Content-Encoding: identity"),
        "x-gzip": reply(ENCODERS["gzip"](b"plain"), "Content-Encoding: X-GZip"),
        "chunks": chunked(ENCODERS["br"](b"plain"), "Content-Encoding: br"),
        "members": reply(members, "Content-Encoding: gzip"),
        "frames": reply(frames, "Content-Encoding: zstd"),
        "nothing": encoded(b"", "gzip"),
        "no content": bare_reply("Content-Encoding: gzip", status="204 No Content"),
    }
    expected |= dict.fromkeys(("plain", "identity", "x-gzip", "chunks"), b"plain")
    expected |= dict.fromkeys(("members", "frames"), b"first, second") | {"nothing": b"", "no content": b""}
    routes = mirror(expected, scripted)
    server = raw({target: seen(answer) for target, answer in routes.items()})
    done = run("get", server.url, dest, "--format", format, "--compressed")

    assert done.code == 0, done.err
    assert find_wrong(dest, format, expected) == []
    assert run("verify", dest).code == 0
    assert all(ACCEPTED in head for head in heads.values())


@pytest.mark.parametrize("http2", [False, True])
def test_nginx_replies_are_compressed_and_stored_decoded(
    run: Run, nginx: Callable[..., Nginx], served: Path, dest: Path, http2: bool, certificates: Certificates
) -> None:
    """The protocol is HTTP/1.1 or HTTP/2. Sizes in nginx's listing are those of the stored objects."""
    expected = {f"{number}.txt": f"{number}, ".encode() * number * 20 for number in range(1, 200)}
    expected["large.txt"] = BODIES["shrinks"]
    for name, body in expected.items():
        (served / name).write_bytes(body)
    site = Site(
        leaf=certificates.good,
        http2=http2,
        directives="types { text/plain txt; } gzip on; gzip_types text/plain application/json;",
    )
    server = nginx(site=site)
    words = ("get", server.url("site"), dest, "--listing", "autoindex", "--ca-file", certificates.ca_file)
    done = run(*words, "--compressed")

    assert done.code == 0, done.err
    assert find_wrong(dest, "files", expected) == []
    seen = [each for each in server.seen("site") if each.path.endswith(".txt")]
    assert {each.http for each in seen} == {"HTTP/2.0" if http2 else "HTTP/1.1"}
    assert sum(each.encoding == "gzip" for each in seen) > 190
    assert {each.encoding for each in server.seen("site") if each.path.endswith("/")} == {"gzip"}
    # Without the option, it is another job.
    refused = run(*words)
    assert refused.code == 2
    assert "its compressed is true" in refused.err


GZIP = ENCODERS["gzip"](BODIES["text"])
BROTLI = ENCODERS["br"](BODIES["text"])
ZSTD = zstd(BODIES["text"])
WRONG = {
    "not asked for": (reply(zlib.compress(b"x"), "Content-Encoding: deflate"), "the Content-Encoding is deflate"),
    "two": (reply(brotli.compress(GZIP), "Content-Encoding: gzip, br"), "the Content-Encoding is gzip, br"),
    "two fields": (
        reply(gzip.compress(GZIP), "Content-Encoding: gzip", "Content-Encoding: gzip"),
        "the Content-Encoding is gzip, gzip",
    ),
    "plain": (reply(b"plain", "Content-Encoding: gzip"), "gzip: "),
    "empty": (reply(b"", "Content-Encoding: gzip"), "gzip: the body is empty"),
    "another": (reply(GZIP, "Content-Encoding: br"), "br: "),
    "behind gzip": (reply(GZIP + b"and something else", "Content-Encoding: gzip"), "gzip: "),
    "zeros behind gzip": (reply(GZIP + bytes(512), "Content-Encoding: gzip"), "gzip: "),
    "behind br": (reply(BROTLI + b"\n", "Content-Encoding: br"), "br: bytes after its end"),
    "behind zstd": (reply(ZSTD + b"\n", "Content-Encoding: zstd"), "zstd: "),
    "in chunks": (chunked(GZIP[:-9], "Content-Encoding: gzip"), "gzip: the body ends before its encoding does"),
    "large": (
        reply(ENCODERS["gzip"](BODIES["large"])[:-1], "Content-Encoding: gzip"),
        "gzip: the body ends before its encoding does",
    ),
}


def test_undecodable_body_fails_and_is_not_stored(run: Run, raw: Raw, dest: Path, tmp_path: Path) -> None:
    """The detail has the reason, and other objects of the same server are stored."""
    names = [*WRONG, "right"]
    scripted: dict[str, Behaviour] = {name: answer for name, (answer, _) in WRONG.items()}
    scripted["right"] = encoded(b"right", "br")
    server = raw(mirror(names, scripted))
    done = run("get", server.url, dest, "--compressed")

    assert done.code == 3, done.err
    found = failures(dest)
    assert {name: kind for name, (kind, _) in found.items()} == dict.fromkeys(WRONG, "bad-encoding")
    for name, (_, detail) in WRONG.items():
        assert (found[name][1] or "").startswith(detail), (name, found[name])
    assert find_wrong(dest, "files", {"right": b"right"}) == []
    assert all(server.count(target) == 1 for target in server.asked())
    # Formats that store nothing still decode.
    null = run("get", server.url, tmp_path / "null", "--compressed", "--format", "null", "--json")
    assert json.loads(null.out.splitlines()[-1])["failed"] == len(WRONG)
    # After the server is fixed, a retry requests these objects again.
    server.routes |= mirror(names, {"plain": encoded(b"mended", "gzip")})
    assert run("get", server.url, dest, "--compressed", "--retry-failed=bad-encoding").code == 0
    assert dict(read_objects_of(dest))["plain"] == b"mended"


def read_objects_of(dest: Path) -> list[tuple[str, bytes]]:
    """Reads the stored files."""
    return [(each.name.decode(), each.body) for each in read_objects(dest, "files", "walk")]


def test_truncated_or_damaged_encoded_bodies_are_not_stored(run: Run, raw: Raw, dest: Path) -> None:
    """Gzip's checksum detects each wrong bit, except padding bits of the last byte. Brotli has no checksum."""
    seeded = random.Random(3)
    scripted: dict[str, Behaviour] = {}
    for encoding, whole in {"gzip": GZIP, "br": BROTLI, "zstd": ZSTD}.items():
        field = f"Content-Encoding: {encoding}"
        for number in range(60):
            scripted[f"{encoding} cut {number}"] = reply(whole[: seeded.randrange(len(whole))], field)
    for number in range(500):
        wrong = bytearray(GZIP)
        # These bytes follow the header's time and system.
        wrong[seeded.randrange(10, len(wrong))] ^= 1 << seeded.randrange(8)
        scripted[f"gzip bit {number}"] = reply(bytes(wrong), "Content-Encoding: gzip")
    done = run("get", raw(mirror(scripted, scripted)).url, dest, "--compressed")

    assert done.code == 3, done.err
    stored = dict(read_objects_of(dest))
    wrong_ones = scripted.keys() - stored.keys()
    assert {name: kind for name, (kind, _) in failures(dest).items()} == dict.fromkeys(wrong_ones, "bad-encoding")
    assert len(stored) < 10
    assert all("bit" in name and body == BODIES["text"] for name, body in stored.items())


def test_encoded_body_is_retried_when_connection_breaks(run: Run, raw: Raw, dest: Path) -> None:
    """The end of the message is checked before the encoding, because the next reply may be complete."""
    whole = encoded(BODIES["text"], "gzip")
    scripted = {"short": in_turn(then_close(whole[:-20]), whole)}
    done = run("get", raw(mirror(scripted, scripted)).url, dest, "--compressed")

    assert done.code == 0, done.err
    assert find_wrong(dest, "files", {"short": BODIES["text"]}) == []


def rle_blocks(size: int) -> bytes:
    """Returns a zstd frame of zeros: four bytes for each 128 KiB."""
    block = ((128 << 10) << 3 | 1 << 1).to_bytes(3, "little") + b"\0"
    # A window of 8 MiB, the largest permitted one, and no length.
    return b"\x28\xb5\x2f\xfd\x00\x68" + block * (size // (128 << 10)) + b"\x01\0\0"


def brotli_blocks(size: int) -> bytes:
    """Returns the same in brotli with its largest window; one piece is repeated."""
    compressor = brotli.Compressor(quality=5, lgwin=24)
    zeros = bytes(8 * MIB)
    pieces = [compressor.process(zeros) + compressor.flush() for _ in range(3)]
    assert brotli.decompress(pieces[0] + pieces[1] + pieces[2] * 2 + compressor.finish()) == bytes(32 * MIB)
    return bytes(pieces[0] + pieces[1] + pieces[2] * (size // len(zeros) - 2) + compressor.finish())


def gzip_blocks(size: int) -> bytes:
    """Returns the same in gzip, at a thousandth of the decoded size."""
    compressor = zlib.compressobj(9, wbits=31)
    zeros = bytes(8 * MIB)
    first, piece = (compressor.compress(zeros) + compressor.flush(zlib.Z_FULL_FLUSH) for _ in range(2))
    return first + piece * (size // len(zeros) - 1)


def test_decompression_bombs_fail_in_bounded_memory(
    environment: dict[str, str], raw: Raw, dest: Path, tmp_path: Path
) -> None:
    """There are four bombs of each kind: 10 GiB in brotli and zstd, 2 GiB in gzip. Oversized windows fail, too."""
    frame = b"\x28\xb5\x2f\xfd"
    bombs = {"br": brotli_blocks(10 << 30), "zstd": rle_blocks(10 << 30), "gzip": gzip_blocks(2 << 30)}
    assert len(bombs["br"]) < 40_000
    scripted: dict[str, Behaviour] = {
        f"{encoding} {number}": reply(bomb, f"Content-Encoding: {encoding}")
        for encoding, bomb in bombs.items()
        for number in range(4)
    }
    windows = {
        "zstd window": (frame + b"\x00\xff" + b"\x01\0\0", "zstd"),
        "zstd length": (frame + b"\xe0" + (1 << 40).to_bytes(8, "little") + b"\x01\0\0", "zstd"),
        "br window": (b"\x11\x1e" + bombs["br"][1:2000], "br"),
    }
    scripted |= {name: reply(body, f"Content-Encoding: {encoding}") for name, (body, encoding) in windows.items()}
    server = raw(mirror(scripted, scripted))
    plain = raw(mirror(map(str, range(50))))
    peaks = []
    for source, to in ((plain, tmp_path / "plain"), (server, dest)):
        words = ("get", source.url, to, "--compressed", "--max-size", "16MiB", "--quiet")
        ended = subprocess.run(
            [sys.executable, "-c", SPAWN, *COMMAND, *map(str, words)],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=100,
        )
        peaks.append(int(ended.stdout.splitlines()[-1]) / 1024)
        assert ended.returncode == (3 if source is server else 0), ended.stderr

    found = failures(dest)
    assert {name: kind for name, (kind, _) in found.items()} == {
        name: "bad-encoding" if name in windows else "body-too-large" for name in scripted
    }
    assert "window is larger than 8 MiB" in (found["zstd window"][1] or "")
    assert read_objects_of(dest) == []
    # The budget of limits/replies.rs for two threads, and the memory of replies in transit.
    assert peaks[1] - peaks[0] < 60, peaks


def test_hashes_cover_decoded_body(run: Run, raw: Raw, dest: Path, tmp_path: Path) -> None:
    """A listed hash is compared with the decoded body, and `--hash` hashes it."""
    names = ("text", "large")
    routes: dict[str, Behaviour] = {f"/{name}": encoded(BODIES[name], "zstd") for name in names}
    routes |= {"/plain": reply(b"plain"), "/wrong": encoded(b"another", "gzip")}
    url = raw(routes).url
    said = {"text": BODIES["text"], "large": BODIES["large"], "plain": b"plain", "wrong": b"this one"}
    rows = [{"url": f"{url}/{name}", "hash": hashlib.sha256(body).hexdigest()} for name, body in said.items()]
    words = ("--format", "jsonl", "--allow-private", "--attempts", 2, "--hash-column", "hash", "--hash", "sha256")
    done = run("get", write_list(tmp_path, rows, "csv"), dest, *words, "--compressed")

    assert done.code == 3, done.err
    assert failures(dest) == {f"{url}/wrong": ("checksum", "the body does not match the hash in the list")}
    with fetchmill.open(dest) as stored:
        found = {each.name: (each.body, each.columns["sha256"]) for each in stored.records()}
    del said["wrong"]
    assert found == {f"{url}/{name}": (body, hashlib.sha256(body).hexdigest()) for name, body in said.items()}


def test_listed_size_is_compared_with_decoded_size(run: Run, raw: Raw, dest: Path) -> None:
    """A different size means that the object was replaced."""
    objects = {"same": BODIES["text"], "grown": BODIES["text"] + b"!"}
    listed = [{"name": name, "type": "file", "size": len(BODIES["text"])} for name in objects]
    routes: dict[str, Behaviour] = {f"/{name}": encoded(body, "gzip") for name, body in objects.items()}
    routes["/"] = reply(json.dumps(listed).encode(), "Content-Type: application/json")
    done = run("get", raw(routes).url, dest, "--listing", "autoindex", "--compressed")

    assert done.code == 3, done.err
    assert failures(dest) == {
        "grown": ("changed", "2001 bytes instead of 2000 in the listing: the object was replaced in the meantime")
    }
    assert find_wrong(dest, "files", {"same": BODIES["text"]}) == []


def test_bwlimit_and_max_bytes_count_encoded_bytes(run: Run, raw: Raw, dest: Path) -> None:
    """40 KiB that decode to 40 MiB fit into 2 MB, and into 500 KB/s."""
    expected = {str(number): bytes([number]) * MIB for number in range(40)}
    scripted = {name: reply(gzip.compress(body), "Content-Encoding: gzip") for name, body in expected.items()}
    started = time.monotonic()
    limits = ("--bwlimit", "500KB", "--max-bytes", "2MB")
    done = run("get", raw(mirror(expected, scripted)).url, dest, "--compressed", "--json", *limits)

    assert done.code == 0, done.err
    assert time.monotonic() - started < 15
    assert json.loads(done.out.splitlines()[-1])["bytes"] == 40 * MIB
    assert find_wrong(dest, "files", expected) == []


def test_killed_job_with_compressed_bodies_resumes(run: Run, start: Start, raw: Raw, dest: Path) -> None:
    """Large bodies are staged twice during decoding. Each object is stored once, with the right bytes."""
    expected = {str(number): BODIES["shrinks"] + str(number).encode() for number in range(60)}
    scripted = {name: encoded(body, "gzip") for name, body in expected.items()}
    server = raw(mirror(expected, scripted))
    words = ("get", server.url, dest, "--compressed", "--commit-window", "20ms")
    for least in (10, 25, 40):
        job = start(*words, "--rate", 60, "-j", 8)
        until = time.monotonic() + 60
        while len(server.asked()) < least:
            assert time.monotonic() < until
            time.sleep(0.005)
        job.send_signal(signal.SIGKILL)
        assert job.wait() == -signal.SIGKILL
    done = run(*words)

    assert done.code == 0, done.err
    assert find_wrong(dest, "files", expected) == []
    assert not list(dest.glob(".fetchmill/stage/*/*/*"))


def test_s3_object_is_verified_encoded_and_stored_decoded(
    run: Run, versitygw: Versitygw, environment: dict[str, str], dest: Path, tmp_path: Path
) -> None:
    """The store's size, ETag and checksum describe the encoded bytes."""
    client = client_of(versitygw)
    client.put_object(Bucket=versitygw.bucket, Key="encoded", Body=GZIP, ContentEncoding="gzip")
    client.put_object(Bucket=versitygw.bucket, Key="mislabelled", Body=b"plain", ContentEncoding="gzip")
    versitygw.put("plain", GZIP)
    client.close()
    words = ("--endpoint-url", versitygw.endpoint, "--compressed")
    of_store = environment | versitygw.environment()
    done = run("get", f"s3://{versitygw.bucket}/", dest, *words, env=of_store)

    assert done.code == 3, done.err
    assert [(name, kind) for name, (kind, _) in failures(dest).items()] == [("mislabelled", "bad-encoding")]
    assert find_wrong(dest, "files", {"encoded": BODIES["text"], "plain": GZIP}) == []
    listed = write_list(tmp_path, [{"url": f"s3://{versitygw.bucket}/encoded"}])
    assert run("get", listed, tmp_path / "listed", *words, "--format", "jsonl", env=of_store).code == 0
    with fetchmill.open(tmp_path / "listed") as stored:
        assert list(stored.values()) == [BODIES["text"]]


def test_streams_and_transforms_get_decoded_bodies(raw: Raw, dest: Path, tmp_path: Path, run: Run) -> None:
    """An item may request fewer encodings than the job."""
    heads = []

    def identity(exchange: Exchange) -> bytes:
        heads.append(exchange.head.lower())
        return reply(b"plain")

    url = raw({"/br": encoded(b"in br", "br"), "/identity": identity}).url
    items: list[str | fetchmill.Request] = [
        f"{url}/br",
        fetchmill.Request(f"{url}/identity", headers={"Accept-Encoding": "identity"}),
    ]
    report = fetchmill.get(items, dest, compressed=True, format="jsonl")

    assert report.fetched == 2
    with fetchmill.open(dest) as stored:
        assert sorted(stored.values()) == [b"in br", b"plain"]
    assert [head.count(b"accept-encoding") for head in heads] == [1]
    (tmp_path / "upper_bodies.py").write_text(
        "def upper(replies):\n    return [each.body.upper() for each in replies]\n"
    )
    listed = write_list(tmp_path, [{"url": f"{url}/br"}])
    words = ("--format", "jsonl", "--allow-private", "--transform", "upper_bodies:upper")
    done = run("get", listed, tmp_path / "upper", "--compressed", *words)
    assert done.code == 0, done.err
    with fetchmill.open(tmp_path / "upper") as stored:
        assert list(stored.values()) == [b"IN BR"]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--format", "warc"), "--compressed cannot be combined with --format warc"),
        (("--engine", "threads"), "--compressed needs --engine native"),
        (("--pipeline", 8), "--compressed cannot be combined with --pipeline"),
        (("--header", "accept-encoding: br"), "leave out --header Accept-Encoding"),
    ],
)
def test_compressed_is_refused_with_incompatible_options(
    run: Run, dest: Path, options: tuple[object, ...], reason: str
) -> None:
    """The error is one line and comes before any request."""
    done = run("get", "http://127.0.0.1:1", dest, "--compressed", *options)

    assert (done.code, dest.exists()) == (2, False)
    assert reason in " ".join(done.err.split())


def test_compressed_is_refused_for_byte_ranges(run: Run, dest: Path, tmp_path: Path) -> None:
    """A part of an encoded object would be useless."""
    listed = write_list(tmp_path, [{"url": "http://127.0.0.1:1/x", "from": "0", "length": "1"}], "csv")
    words = ("--offset-column", "from", "--length-column", "length", "--compressed")
    done = run("get", listed, dest, *words)

    assert (done.code, dest.exists()) == (2, False)
    assert "--compressed cannot be combined with --offset-column" in " ".join(done.err.split())


def test_check_has_no_compressed_option() -> None:
    """A check does not read whole bodies."""
    with pytest.raises((TypeError, UsageError), match="compressed"):
        fetchmill.check([], compressed=True)  # type: ignore[call-arg]
