"""Verifies that Parquet shards contain each object of `fetchmill serve --synthetic` exactly once, with the right bytes.

The shards are read with pyarrow and checked with numpy, without fetchmill's code. Names and bodies are generated again
as described in crates/fetchmill-server/src/synthetic.rs.
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
# Length of a body: the name with its newline, and one more line.
SIZE = NAME_LENGTH + 1 + HEX_DIGITS + len(FIXED)
GOLDEN = 0x9E3779B97F4A7C15
WORD = (1 << 64) - 1
# The two hexadecimal digits of each byte.
HEX = np.frombuffer("".join(f"{byte:02x}" for byte in range(256)).encode(), np.uint16)
# Number of rows in a batch. A batch fits into the processor's cache.
BATCH_ROWS = 1 << 14
DIGIT_MAX = 9

Words = np.ndarray[Any, np.dtype[np.uint64]]
Bytes = np.ndarray[Any, np.dtype[np.uint8]]


def check_rows(dest: Path, count: int, processes: int = 2) -> dict[str, int]:
    """Counts the rows, the rows whose name and body match, and the distinct names among the `count` possible ones.

    All three results are `count` if each object occurs once and is correct. Memory use is one byte per object.

    Raises:
        ValueError: a name or a body is null, or has an unexpected length.
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
    """Counts the rows of a shard, and the correct ones. Records their names in shared memory."""
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
        # The memory cannot be closed while an array uses it.
        del seen
        memory.close()


def _flags(memory: SharedMemory, count: int) -> Bytes:
    """Returns an array with one byte per object."""
    return np.ndarray(count, np.uint8, buffer=memory.buf)


def _fixed(column: pa.Array, length: int) -> Bytes:
    """Returns values of equal length as rows of bytes. If any value has a different length, the check fails."""
    offsets_of = np.int64 if "large" in str(column.type) else np.int32
    _, offsets, data = column.buffers()
    offsets = np.frombuffer(offsets, offsets_of)[column.offset : column.offset + len(column) + 1]
    if column.null_count or np.any(np.diff(offsets) != length):
        # If a process of a pool ends with SystemExit, the pool waits for it forever.
        raise ValueError(f"a value is null or does not have {length} bytes")
    return np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]].reshape(-1, length)


def check_batch(names: Bytes, bodies: Bytes) -> tuple[Words, np.ndarray[Any, np.dtype[np.bool_]]]:
    """Returns the index in each name, and whether each body belongs to its name."""
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
    """Returns the 48 hexadecimal digits in the body that belongs to each name, two per element."""
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
