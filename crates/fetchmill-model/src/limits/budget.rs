//! Checks that limits which share a budget stay within it.

use super::MIB;
use super::lists::{KEPT_BYTES_MAX, PAGE_BYTES_MAX, REQUEST_BYTES_MAX, URL_BYTES_MAX, WINDOW_NAME_BYTES_MAX};
use super::replies::{
    BODIES_BYTES_MAX, BODY_MEMORY_BYTES_MAX, HEAD_BYTES_MAX, HEAD_LINE_BYTES_MAX, HELD_BYTES_EACH_MAX,
    REPLIES_BYTES_MAX,
};
use super::sinks::{BLOCK_BYTES, BLOCK_OUTCOMES_MAX, BLOCKS_QUEUED_MAX, COMMIT_WINDOW_OUTCOMES_MAX};

const _: () = {
    assert!(WINDOW_NAME_BYTES_MAX + PAGE_BYTES_MAX <= 32 * MIB);
    assert!(BLOCKS_QUEUED_MAX * (BODY_MEMORY_BYTES_MAX + BLOCK_BYTES) <= BODIES_BYTES_MAX);
    // A block contains at most `BLOCK_BYTES`, the bytes that a connection held, and one outcome. Offsets in a block
    // are `u32`.
    assert!(
        BLOCK_BYTES
            + HELD_BYTES_EACH_MAX
            + BODY_MEMORY_BYTES_MAX
            + HEAD_BYTES_MAX
            + URL_BYTES_MAX
            + KEPT_BYTES_MAX
            + REQUEST_BYTES_MAX
            < u32::MAX as usize
    );
    assert!(HEAD_LINE_BYTES_MAX <= HEAD_BYTES_MAX);
    assert!(BODY_MEMORY_BYTES_MAX <= REPLIES_BYTES_MAX);
    assert!(BLOCK_OUTCOMES_MAX <= COMMIT_WINDOW_OUTCOMES_MAX);
    // Offsets in a page of names are `u32`.
    assert!(PAGE_BYTES_MAX < u32::MAX as usize);
};
