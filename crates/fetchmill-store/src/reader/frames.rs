//! Reads a manifest that may be damaged. Damage to a frame affects only the rows of that frame.

use std::path::Path;

use crate::manifest::{Frame, Manifest, ManifestRows};
use fetchmill_model::error::{Error, Result};

/// Result of reading a manifest.
#[derive(Debug, Default)]
pub(crate) struct ManifestRead {
    /// Number of rows that could be read.
    pub rows: u64,
    /// Reason why some rows could not be read. `None` if all rows could be read.
    pub damage: Option<String>,
}

/// Callback for each frame.
pub(crate) type EachFrame<'e> = &'e mut dyn FnMut(&Frame) -> Result<()>;

/// Calls `each` with the frames of a manifest up to `end`. If `end` is `None`, reads the whole manifest, which must be
/// sealed.
pub(crate) fn for_each_frame(
    path: &Path,
    end: Option<u64>,
    is_stopped: &dyn Fn() -> bool,
    each: EachFrame<'_>,
) -> Result<ManifestRead> {
    match (end, Manifest::open(path)) {
        (None, Ok(manifest)) => read_frames(&manifest, is_stopped, each),
        (end, _) => read_log(path, end, is_stopped, each),
    }
}

fn read_frames(
    manifest: &Manifest,
    is_stopped: &dyn Fn() -> bool,
    each: EachFrame<'_>,
) -> Result<ManifestRead> {
    let mut read = ManifestRead::default();
    for index in 0..manifest.frames() {
        if is_stopped() {
            break;
        }
        match manifest.frame(index) {
            Ok(frame) => {
                each(&frame)?;
                read.rows += frame.len() as u64;
            }
            Err(error) => read.damage = Some(one_cause(&error)),
        }
    }
    Ok(read)
}

fn read_log(
    path: &Path,
    end: Option<u64>,
    is_stopped: &dyn Fn() -> bool,
    each: EachFrame<'_>,
) -> Result<ManifestRead> {
    let mut read = ManifestRead::default();
    let mut rows = match ManifestRows::open(path, end) {
        Ok(rows) => rows,
        Err(error) => return Ok(ManifestRead { damage: Some(one_cause(&error)), ..read }),
    };
    while !is_stopped() {
        match rows.next_frame() {
            Ok(Some(frame)) => {
                each(frame)?;
                read.rows += frame.len() as u64;
            }
            Ok(None) => break,
            Err(error) => {
                read.damage = Some(one_cause(&error));
                break;
            }
        }
    }
    Ok(read)
}

/// Returns the cause of an error, without the advice to run a verification, because one is already running.
pub(crate) fn one_cause(error: &Error) -> String {
    match error {
        Error::Storage { source, .. } => source.to_string(),
        other => {
            let text = other.to_string();
            let text = text.split("; run `fetchmill verify`").next().unwrap_or_default();
            text.split_once(" is damaged: ").map_or(text, |(_, cause)| cause).to_owned()
        }
    }
}
