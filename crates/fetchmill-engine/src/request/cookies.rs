//! Reads the cookie file (`--cookies`).

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use fetchmill_model::cookies::CookieFile;
use fetchmill_model::error::{Error, Result};
use fetchmill_model::limits::COOKIE_FILE_BYTES_MAX;

/// Reads the file. Messages never quote it.
pub(super) fn read_cookies(path: &Path) -> Result<CookieFile> {
    let refused = |what: String| {
        Error::Usage(format!(
            "--cookies {}: {what}; give a cookies.txt in Netscape format, as written by curl -c",
            path.display()
        ))
    };
    let unreadable = |error: std::io::Error| refused(format!("cannot be read ({error})"));
    // The file is read more than once. A pipe would be empty the second time.
    if !std::fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err(refused("not a regular file".into()));
    }
    let mut text = Vec::new();
    File::open(path)
        .and_then(|file| file.take(COOKIE_FILE_BYTES_MAX + 1).read_to_end(&mut text))
        .map_err(unreadable)?;
    if text.len() as u64 > COOKIE_FILE_BYTES_MAX {
        return Err(refused(format!("larger than {COOKIE_FILE_BYTES_MAX} bytes")));
    }
    let text = String::from_utf8(text).map_err(|_| refused("not UTF-8".into()))?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    CookieFile::parse(&text, now).map_err(refused)
}
