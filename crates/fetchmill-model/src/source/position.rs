//! The position from which to continue reading a list.

/// A position in a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ListPosition {
    /// Number of entries so far, including entries that a filter excluded.
    pub entries: u64,
    /// Number of decompressed bytes so far, up to the start of a line. For Parquet, this is the number of rows.
    pub offset: u64,
    /// Number of lines so far.
    pub line: u64,
    /// Digest of everything before the position.
    pub digest: u64,
    /// Number of files before the current one, if the list consists of several files. All other fields except `entries`
    /// refer to the current file.
    pub file: u64,
}

impl ListPosition {
    /// Returns the position as a text for the journal.
    pub fn to_text(&self) -> String {
        let text = format!("{} {} {} {:016x}", self.entries, self.offset, self.line, self.digest);
        if self.file == 0 { text } else { format!("{text} {}", self.file) }
    }

    /// Parses the result of [`ListPosition::to_text`]. Returns `None` if the text is invalid.
    pub fn from_text(text: &str) -> Option<Self> {
        let mut parts = text.split(' ');
        let mut number = || parts.next()?.parse().ok();
        let (entries, offset, line) = (number()?, number()?, number()?);
        let digest = u64::from_str_radix(parts.next()?, 16).ok()?;
        let file = parts.next().map_or(Some(0), |file| file.parse().ok())?;
        parts.next().is_none().then_some(ListPosition { entries, offset, line, digest, file })
    }
}
