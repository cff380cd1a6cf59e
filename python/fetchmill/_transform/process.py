"""The main function of a transform process, which receives replies over a socket, transforms them, and sends results.

crates/fetchmill-engine/src/writer/transform/frame.rs documents the protocol. The process ends when the other end of the
socket is closed. If the job's thread for this process ends, the kernel kills the process immediately.
"""

import contextlib
import ctypes
import json
import os
import pickle
import signal
import socket
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from multiprocessing import process, spawn
from typing import Any, BinaryIO

from fetchmill._transform.reply import FetchedReply, Function

_LENGTH = struct.Struct("<I")
_REPLY = struct.Struct("<Hq6IQ")
_ANSWER = struct.Struct("<cIQ")
_NONE = 0xFFFFFFFF
_NO_DATE = -(1 << 63)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Longer messages are truncated. The engine accepts four times as much.
_DETAIL_CHARS = 1000
_DETAIL_BYTES = 4096
_PR_SET_PDEATHSIG = 1


# An answer, which consists of a letter, a body and columns.
EncodedResult = tuple[bytes, bytes, bytes]


@dataclass(frozen=True, slots=True)
class TransformSetup:
    """The first message to a transform process."""

    preparation: dict[str, Any]
    """Data to set up this process like the one that started it: search path, working folder, main module."""
    function: bytes
    """The pickled function. It can be loaded only after the process has been set up."""
    columns: tuple[str, ...]
    """Columns that the function may fill."""


def main() -> None:
    """Handle requests until the engine closes its end of the socket. This end is standard input."""
    _exit_with_job()
    # Ctrl-C reaches all of a terminal's processes. Only the job handles it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    taken = _take_socket()
    with taken.makefile("rb") as requests, taken.makefile("wb") as answers, contextlib.suppress(BrokenPipeError):
        _serve(requests, answers)


def _serve(requests: BinaryIO, answers: BinaryIO) -> None:
    pickled = _read_part(requests)
    if not pickled:
        return
    setup: TransformSetup = pickle.loads(pickled)  # noqa: S301 - from the process that started this one
    try:
        function = _load(setup)
    except BaseException as error:  # noqa: BLE001 - reported where the job was started
        _answer(answers, b"E", _in_one_line(error))
        return
    _answer(answers, b"R")
    answers.flush()
    while request := _read_part(requests):
        for answer in _results(function, _replies(request), setup.columns):
            _answer(answers, *answer)
        answers.flush()


def _exit_with_job() -> None:
    """Have the kernel kill this process when the job's thread ends, because the user's function may hang."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _take_socket() -> socket.socket:
    """Move the socket away from standard input. Redirect standard output, which may be used for data, to stderr."""
    taken = socket.socket(fileno=os.dup(0))
    nowhere = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nowhere, 0)
    os.close(nowhere)
    os.dup2(2, 1)
    return taken


def _load(setup: TransformSetup) -> Function:
    """Load the function and its modules."""
    # As in multiprocessing. Otherwise, a main module that starts processes during import would do so endlessly.
    current = vars(process.current_process())
    current["_inheriting"] = True
    try:
        spawn.prepare(setup.preparation)
        return pickle.loads(setup.function)  # type: ignore[no-any-return]  # noqa: S301 - as above
    finally:
        del current["_inheriting"]


def _read_part(requests: BinaryIO) -> bytes:
    """Read a length-prefixed block. Return b"" if the engine has closed its end."""
    head = requests.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return b""
    (length,) = _LENGTH.unpack(head)
    part = requests.read(length)
    return part if len(part) == length else b""


def _answer(answers: BinaryIO, letter: bytes, body: bytes = b"", columns: bytes = b"") -> None:
    answers.write(_ANSWER.pack(letter, len(columns), len(body)))
    answers.write(columns)
    answers.write(body)


def _replies(request: bytes) -> list[FetchedReply]:
    (count,) = _LENGTH.unpack_from(request)
    replies, at = [], _LENGTH.size
    for _ in range(count):
        status, date, *lengths, body_length = _REPLY.unpack_from(request, at)
        at += _REPLY.size
        texts: list[bytes | None] = []
        for length in lengths:
            texts.append(None if length == _NONE else request[at : at + length])
            at += 0 if length == _NONE else length
        name, url, content_type, content_encoding, etag, path = texts
        body = request[at : at + body_length] if path is None else _read_file(path)
        at += body_length
        last_modified = None if date == _NO_DATE else _date(date)
        replies.append(
            FetchedReply(
                (name or b"").decode(errors="surrogateescape"),
                (url or b"").decode(errors="surrogateescape"),
                status,
                body,
                _text(content_type),
                _text(etag),
                last_modified,
                _text(content_encoding),
            )
        )
    return replies


def _read_file(path: bytes) -> bytes:
    """Read a body that was too large for the engine's memory."""
    with open(path, "rb") as file:  # noqa: PTH123 - the path is bytes
        return file.read()


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode(errors="replace")


def _date(seconds: int) -> datetime | None:
    try:
        return _EPOCH + timedelta(seconds=seconds)
    except OverflowError:
        return None


def _results(function: Function, replies: list[FetchedReply], columns: Sequence[str]) -> list[EncodedResult]:
    """Return an answer for each reply. If the function raises for a batch, each reply is tried separately."""
    try:
        results = _call(function, replies)
    except BaseException as error:  # noqa: BLE001 - the reply fails with this error
        if len(replies) == 1:
            return [(b"F", _in_one_line(error), b"")]
        return [answer for reply in replies for answer in _results(function, [reply], columns)]
    return [_encode(result, columns) for result in results]


def _call(function: Function, replies: list[FetchedReply]) -> list[object]:
    results: Any = function(replies)
    if results is None or isinstance(results, (bytes, bytearray, memoryview, str, Mapping)):
        raise TypeError(f"the function must return a list with one result per reply, not {type(results).__name__}")
    listed = list(results)
    if len(listed) != len(replies):
        raise ValueError(f"the function returned {len(listed)} results for {len(replies)} replies")
    return listed


def _encode(result: object, columns: Sequence[str]) -> EncodedResult:
    try:
        if result is None:
            return (b"N", b"", b"")
        if isinstance(result, Exception):
            return (b"F", _in_one_line(result), b"")
        if isinstance(result, Mapping):
            body = result.get("body", b"")
            return (b"S", _body_of(body.encode() if isinstance(body, str) else body), _values(result, columns))
        return (b"S", _body_of(result), b"")
    except (TypeError, ValueError) as error:
        return (b"F", _in_one_line(error), b"")


def _body_of(value: object) -> bytes:
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise TypeError(f"a result must be bytes, None or a dict, not {type(value).__name__}")
    # A memoryview counts its length in items, which may be larger than a byte.
    return value if isinstance(value, bytes) else bytes(value)


def _values(result: Mapping[Any, object], columns: Sequence[str]) -> bytes:
    """Encode the values of all columns in order. Columns missing from the result become `_NONE`."""
    if not columns:
        raise TypeError("a result can be a dict only if transform_columns is set and the format has columns")
    if unknown := [key for key in result if key != "body" and key not in columns]:
        raise ValueError(f"transform_columns has no column {unknown[0]!r}")
    parts = []
    for name in columns:
        text = _value_text(name, result.get(name))
        parts.append(_LENGTH.pack(_NONE if text is None else len(text)) + (text or b""))
    return b"".join(parts)


def _value_text(name: str, value: object) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, (bool, int, float)):
        return json.dumps(value, allow_nan=False).encode()
    raise TypeError(f"the column {name!r} must be a string, a number, a bool or None, not {type(value).__name__}")


def _in_one_line(error: BaseException) -> bytes:
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return text[:_DETAIL_CHARS].encode(errors="replace")[:_DETAIL_BYTES]
