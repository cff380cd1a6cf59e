"""Whether Parquet shards hold each object of `fetchmill serve --synthetic` once, with its bytes.

Read with pyarrow and checked with numpy, nothing of ours takes part: names and bodies are made again from what
crates/fetchmill-server/src/synthetic.rs says of them.
"""

import multiprocessing
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

PREFIX, DIGITS = b"file-", 12
NAME_LENGTH = len(PREFIX) + DIGITS
HEX_DIGITS = 48
FIXED = b" are random; the rest is the same\n"
# The name and its newline, and one line.
SIZE = NAME_LENGTH + 1 + HEX_DIGITS + len(FIXED)
GOLDEN = 0x9E3779B97F4A7C15
WORD = (1 << 64) - 1
# The two hexadecimal digits of each byte.
HEX = np.frombuffer("".join(f"{byte:02x}" for byte in range(256)).encode(), np.uint16)
# Rows that are looked at together: they stay in the processor's cache.
BATCH_ROWS = 1 << 14
DIGIT_MAX = 9

Words = np.ndarray[Any, np.dtype[np.uint64]]
Bytes = np.ndarray[Any, np.dtype[np.uint8]]


def check_rows(dest: Path, count: int, processes: int = 2) -> dict[str, int]:
    """Rows, those whose body is what their name says, and different names of the `count` that there are.

    All three are `count` if each object is there once, and right. A byte for each object is in memory.

    Raises:
        ValueError: a name or a body is null, or has another length than all have.
    """
    seen = SharedMemory(create=True, size=count)
    try:
        work = [(path, seen.name, count) for path in sorted(dest.glob("shard-*.parquet"))]
        with multiprocessing.get_context("spawn").Pool(processes) as pool:
            found = pool.starmap(_check_shard, work, chunksize=1)
        names = np.count_nonzero(_flags(seen, count))
    finally:
        seen.close()
        seen.unlink()
    return {
        "rows": sum(rows for rows, _ in found),
        "right": sum(right for _, right in found),
        "names": int(names),
    }


def _check_shard(path: Path, seen_name: str, count: int) -> tuple[int, int]:
    """The rows of a shard, and those that are right; their names are noted in the shared memory."""
    memory = SharedMemory(name=seen_name)
    seen = _flags(memory, count)
    rows = right = 0
    try:
        with pq.ParquetFile(path) as shard:
            for batch in shard.iter_batches(BATCH_ROWS, columns=["name", "body"], use_threads=False):
                names, bodies = _fixed(batch["name"], NAME_LENGTH), _fixed(batch["body"], SIZE)
                indexes, is_right = check_batch(names, bodies)
                is_right &= indexes < count
                seen[indexes[is_right]] = 1
                rows += len(names)
                right += int(np.count_nonzero(is_right))
        return rows, right
    finally:
        # The memory can't be closed while an array is on it.
        del seen
        memory.close()


def _flags(memory: SharedMemory, count: int) -> Bytes:
    """A byte for each object."""
    return np.ndarray(count, np.uint8, buffer=memory.buf)


def _fixed(column: pa.Array, length: int) -> Bytes:
    """Values of one length as rows of bytes; a column whose values have other lengths ends the check."""
    offsets_of = np.int64 if "large" in str(column.type) else np.int32
    _, offsets, data = column.buffers()
    offsets = np.frombuffer(offsets, offsets_of)[column.offset : column.offset + len(column) + 1]
    if column.null_count or np.any(np.diff(offsets) != length):
        # A process of a pool that ends for a SystemExit is waited for without end.
        raise ValueError(f"a value is null or has not {length} bytes")
    return np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]].reshape(-1, length)


def check_batch(names: Bytes, bodies: Bytes) -> tuple[Words, np.ndarray[Any, np.dtype[np.bool_]]]:
    """The index in each name, and whether the body is the one of that name."""
    digits = names[:, len(PREFIX) :] - np.uint8(ord("0"))
    indexes = digits @ (10 ** np.arange(DIGITS - 1, -1, -1, dtype=np.uint64))
    right = (names[:, : len(PREFIX)] == np.frombuffer(PREFIX, np.uint8)).all(axis=1)
    right &= (digits <= DIGIT_MAX).all(axis=1)
    right &= (bodies[:, :NAME_LENGTH] == names).all(axis=1)
    right &= bodies[:, NAME_LENGTH] == ord("\n")
    right &= (bodies[:, -len(FIXED) :] == np.frombuffer(FIXED, np.uint8)).all(axis=1)
    stored = np.ascontiguousarray(bodies[:, NAME_LENGTH + 1 : NAME_LENGTH + 1 + HEX_DIGITS]).view(np.uint16)
    right &= (stored == _random_digits(names)).all(axis=1)
    return indexes, right


def _random_digits(names: Bytes) -> np.ndarray[Any, np.dtype[np.uint16]]:
    """The 48 hexadecimal digits of the first line of each name, two in an element."""
    padded = np.zeros((len(names), 24), np.uint8)
    padded[:, :NAME_LENGTH] = names
    seed = np.full(len(names), _mix(np.array([NAME_LENGTH * GOLDEN & WORD], np.uint64))[0])
    for word in padded.view("<u8").T:
        seed = _mix(seed ^ word)
    words = np.stack([_mix(seed + np.uint64(number * GOLDEN & WORD)) for number in (1, 2, 3)], axis=1)
    return HEX[words.astype(">u8").view(np.uint8)]


def _mix(word: Words) -> Words:
    """The finalizer of splitmix64 (https://prng.di.unimi.it/splitmix64.c)."""
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))
