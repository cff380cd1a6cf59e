//! Progress of a listing: its pages and its position (tables `pages`, `markers`, `folders`, `failed_folders`,
//! `key_ranges`, `skipped`, `skipped_names`). Also counts why targets opted out (`opted_out`, `opted_out_hosts`).

pub(super) mod folders;
mod listed_digests;
pub(super) mod opt_outs;
mod pages;
mod ranges;
pub(super) mod skips;

/// Key under which the marker of the next page is stored.
const MARKER: &str = "marker";
