//! How far a listing is: its pages, and where it goes on (tables `pages`, `markers`, `folders`, `failed_folders`,
//! `key_ranges`, `skipped`, `skipped_names`), and why targets were skipped (`opted_out`, `opted_out_hosts`).

pub(super) mod folders;
mod listed_digests;
pub(super) mod opt_outs;
mod pages;
mod ranges;
pub(super) mod skips;

/// The fact that has what leads to the next page.
const MARKER: &str = "marker";
